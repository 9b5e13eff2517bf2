"""A table's new version, all or nothing: branch, write, quality, publish; again where another run came between."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.heartbeat import kept_alive
from rivet_dagster.execution.judging import check_published, check_staged
from rivet_dagster.execution.new_files import new_files, read_of, refs
from rivet_dagster.execution.phases import BRANCH, CLEAN_UP, PUBLISH, QUALITY
from rivet_dagster.execution.results import GroupResult, Rows
from rivet_dagster.execution.strategy import ExitWrite, written
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.execution.window_write import partition_rows
from rivet_dagster.model.storage import Published, Record, Staged

PAUSES = (1.0, 2.0, 4.0)
"""Seconds, at most, before each recomputation of a version that another run was faster than."""


class _Overtaken(Exception):
    """Another run published after ``staged`` was begun; ``complete`` where all of it has been written and judged."""

    def __init__(self, staged: Staged, error: RivetError, complete: bool) -> None:
        super().__init__(str(error))
        self.staged = staged
        self.error = error
        self.complete = complete


def publish_exit(run: ThisRun, identity: str) -> GroupResult:
    """Publish the group's exit, once for each ``identity``.

    Where another run publishes in between it is computed anew on that; whoever is overtaken again and again keeps the
    last version back. Raises RVT-405 then, and RivetErrors of storage, engine and joints; nothing is left of them.
    """
    runtime, group, clock = run.runtime, run.group, run.clock
    joint, target = runtime.assembly.computed(group.exit), group.target
    assert target is not None
    catalog = runtime.catalog(target.catalog)
    for pause in (*PAUSES, None):
        done = catalog.published_by(target.table, identity)
        if done is not None:
            return _published_before(run, joint, catalog, done)
        try:
            with clock.phase(BRANCH):
                staged = catalog.stage(target.table, target.options)
            return _attempt(ExitWrite(run, joint, staged), catalog, identity)
        except _Overtaken as overtaken:
            if pause is None and overtaken.complete:
                catalog.keep_back(overtaken.staged, identity)
                raise _kept_back(overtaken, joint) from overtaken.error
            catalog.discard(overtaken.staged)
            if pause is None:
                raise overtaken.error from None
        # By chance, so that two that keep overtaking each other drift apart.
        time.sleep(random.uniform(pause / 2, pause))
    raise AssertionError("the last attempt returns or raises")


def _published_before(run: ThisRun, joint: ComputedJoint, catalog: Catalog, done: Published) -> GroupResult:
    """Report a retry; where its version has expired, the published version is judged and counted."""
    there = _readable(catalog, done)
    checks = check_published(run.runtime, joint.name, version=there)
    counts = partition_rows(run.runtime, joint, (catalog.read(there), there.statistics), run.window)
    return GroupResult(run.group.name, run.clock.seconds, checks, done, Rows.of(done), partition_rows=counts)


def _readable(catalog: Catalog, done: Published) -> Published:
    try:
        catalog.read(done)
    except RivetError as error:
        current = catalog.current(done.table) if error.code == "RVT-401" else None
        if current is None:
            raise
        return current
    return done


def _attempt(write: ExitWrite, catalog: Catalog, identity: str) -> GroupResult:
    run, joint, staged, clock = write.run, write.joint, write.staged, write.run.clock
    try:
        with kept_alive(catalog, staged):
            found = new_files(run.runtime, run.group)
            with written(replace(write, run=replace(run, given={**run.given, **refs(found)}))) as batch:
                staged = replace(staged, landed=read_of(found))
                empty = batch.statistics.rows == 0
                if empty and joint.write_strategy.on_empty == "fail":
                    raise RivetError("RVT-508", "the batch is empty and `on_empty` is fail")
                with clock.phase(QUALITY):
                    stored = catalog.audit(staged)
                    checks = check_staged(run.runtime, joint, stored, batch, run.given)
                    counts = batch.partition_rows
                    if not joint.write_strategy.replaces_all:  # then there are rows besides those that came
                        counts = partition_rows(run.runtime, joint, stored, run.window)
                skips = empty and joint.write_strategy.on_empty == "skip"
                if any(result.blocks for result in checks) or skips:
                    with clock.phase(CLEAN_UP):
                        catalog.discard(staged)
                    return GroupResult(run.group.name, clock.seconds, checks, skipped_empty=skips)
                run.runtime.heed()
                with clock.phase(PUBLISH):
                    published = _published(catalog, staged, identity, batch.record)
        return GroupResult(
            run.group.name,
            clock.seconds,
            checks,
            published,
            Rows.of(published),
            partition_rows=counts,
            values=stored[1].values,
        )
    except _Overtaken:
        raise
    except BaseException as error:
        if isinstance(error, RivetError) and error.code == "RVT-405":
            raise _Overtaken(staged, error, complete=False) from error
        # Also on an interrupt: what was staged goes, what was published stays.
        catalog.discard(staged)
        raise


def _published(catalog: Catalog, staged: Staged, identity: str, record: Record | None) -> Published:
    try:
        return catalog.publish(staged, identity, record)
    except RivetError as error:
        if error.code == "RVT-405":
            raise _Overtaken(staged, error, complete=True) from error
        raise


def _kept_back(overtaken: _Overtaken, joint: ComputedJoint) -> RivetError:
    version = overtaken.staged.version
    message = f"{overtaken.error.diagnostics[0].message}; the last of {len(PAUSES) + 1} attempts is kept as {version}"
    command = "rivet-dagster versions {} " + f"{joint.name} {version}"
    remedy = f"Publish it with `{command.format('publish')}`, or remove it with `{command.format('drop')}`."
    if joint.write_strategy.mode != "replace":
        remedy += " It lacks what others published since it was begun."
    return RivetError("RVT-405", message, remediation=remedy)
