"""A table's new version, all or nothing: branch, write, quality, publish; again where another run came between."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.compiler.plan import CompiledJoint, FusedGroup
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.heartbeat import kept_alive
from rivet_dagster.execution.judging import check_published, check_staged
from rivet_dagster.execution.phases import BRANCH, CLEAN_UP, PUBLISH, QUALITY, PhaseClock
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.results import GroupResult, Rows
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing import write_joint
from rivet_dagster.model.storage import Published, Staged

PAUSES = (1.0, 2.0, 4.0)
"""Seconds, at most, before each recomputation of a version that another run was faster than."""


class _Overtaken(Exception):
    """Another run published after ``staged``, complete and judged, was begun."""

    def __init__(self, staged: Staged, error: RivetError) -> None:
        super().__init__(str(error))
        self.staged = staged
        self.error = error


def publish_exit(
    runtime: Runtime, group: FusedGroup, identity: str, given: Mapping[str, MaterializedRef], clock: PhaseClock
) -> GroupResult:
    """Publish the group's exit, once for each ``identity``.

    Where another run publishes in between it is computed anew on that; whoever is overtaken again and again keeps the
    last version back. Raises RVT-405 then, and RivetErrors of storage, engine and joints; nothing is left of them.
    """
    joint = runtime.assembly.joint(group.exit)
    assert joint.catalog is not None and joint.table is not None
    catalog = runtime.catalog(joint.catalog)
    for pause in (*PAUSES, None):
        done = catalog.published_by(joint.table, identity)
        if done is not None:
            checks = check_published(runtime, joint.name, version=done)
            return GroupResult(group.name, clock.seconds, checks, done, _replaced(done))
        try:
            return _attempt(runtime, group, joint, catalog, identity, given, clock)
        except _Overtaken as overtaken:
            if pause is None:
                catalog.keep_back(overtaken.staged)
                raise _kept_back(overtaken, joint) from overtaken.error
            catalog.discard(overtaken.staged)
        # By chance, so that two that keep overtaking each other drift apart.
        time.sleep(random.uniform(pause / 2, pause))
    raise AssertionError("the last attempt returns or raises")


def _attempt(
    runtime: Runtime,
    group: FusedGroup,
    joint: CompiledJoint,
    catalog: Catalog,
    identity: str,
    given: Mapping[str, MaterializedRef],
    clock: PhaseClock,
) -> GroupResult:
    assert joint.table is not None
    with clock.phase(BRANCH):
        staged = catalog.stage(joint.table, joint.options)
    try:
        with kept_alive(catalog, staged):
            write_joint(runtime, group, joint.name, staged, given, clock)
            with clock.phase(QUALITY):
                checks, rows = check_staged(runtime, joint, staged, given)
            if any(result.blocks for result in checks) or _skips(joint, rows):
                with clock.phase(CLEAN_UP):
                    catalog.discard(staged)
                return GroupResult(group.name, clock.seconds, checks, skipped_empty=_skips(joint, rows))
            with clock.phase(PUBLISH):
                published = _published(catalog, staged, identity)
        return GroupResult(group.name, clock.seconds, checks, published, _replaced(published))
    except _Overtaken:
        raise
    except BaseException:
        # Also on an interrupt: what was staged goes, what was published stays.
        catalog.discard(staged)
        raise


def _published(catalog: Catalog, staged: Staged, identity: str) -> Published:
    try:
        return catalog.publish(staged, identity)
    except RivetError as error:
        if error.code == "RVT-405":
            raise _Overtaken(staged, error) from error
        raise


def _kept_back(overtaken: _Overtaken, joint: CompiledJoint) -> RivetError:
    version = overtaken.staged.version
    message = f"{overtaken.error.diagnostics[0].message}; the last of {len(PAUSES) + 1} attempts is kept as {version}"
    command = "rivet-dagster versions {} " + f"{joint.name} {version}"
    remedy = f"Publish it with `{command.format('publish')}`, or remove it with `{command.format('drop')}`."
    return RivetError("RVT-405", message, remediation=remedy)


def _skips(joint: CompiledJoint, rows: int) -> bool:
    return rows == 0 and joint.write_strategy.on_empty == "skip"


def _replaced(published: Published) -> Rows:
    """What `replace` did: the batch came, all rows before it went."""
    rows = published.statistics.rows
    return Rows(inserted=rows, updated=0, deleted=published.rows_before, total=rows)
