"""Publishing a table's new version: branch, write, quality, publish; repeated if another run publishes in between."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import replace

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.staging import StagedTransaction, StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.capabilities.versions import VersionTransaction
from rivet_dagster.catalogs.partition_rows import rows_by_partition
from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.full_refresh import refuse_incapable
from rivet_dagster.execution.phases import BRANCH, CLEAN_UP, PUBLISH, QUALITY
from rivet_dagster.execution.quality.judging import check_published, check_staged
from rivet_dagster.execution.quality.row_errors import judge_errors
from rivet_dagster.execution.reading.new_files import NewFiles, consumed_files, new_files, refs
from rivet_dagster.execution.results import GroupResult, Rows
from rivet_dagster.execution.row_error import CODE
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.execution.writing.joint import write_joint
from rivet_dagster.execution.writing.recorded_code import run_code_versions
from rivet_dagster.execution.writing.row_errors import may_prove
from rivet_dagster.model.inputs import Inputs, Position, VersionPosition
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import Published, StoredRows
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import Refresh, ReplaceAll, refreshed

PAUSES = (1.0, 2.0, 4.0)
"""The maximum seconds to wait before each retry, after another run has published first."""


def publish_exit(run: ThisRun, identity: str) -> GroupResult:
    """Publish the group's exit, once for each ``identity``, or stage it for the last step of the run.

    If another run publishes in between, the version is computed again, based on what that run published. If that
    happens with every attempt, the version of the last attempt is withheld and RVT-405 is raised. Also raises
    RivetErrors of storage, engine and joints, after which nothing of the version is left.
    """
    target = _target(run)
    joint = run.runtime.assembly.computed(run.group.exit)
    catalog = run.runtime.target_catalog(target.catalog)
    for pause in (*PAUSES, None):
        done = catalog.published_by(target.table, identity)
        if done is not None:
            return _published_before(run, joint, target, catalog, done)
        staged = capable(catalog, StagesForRuns).staged_by(target.table, identity) if target.with_run else None
        if staged is not None:
            return replace(_published_before(run, joint, target, catalog, staged), staged=True)
        try:
            return _evaluated(run, joint, target, catalog, is_last=pause is None)
        except RivetError as error:
            if error.code != "RVT-405" or pause is None:
                raise
        # A random pause, so that two runs do not keep overtaking each other.
        time.sleep(random.uniform(pause / 2, pause))
    raise AssertionError("the last attempt returns or raises")


def _target(run: ThisRun) -> Target:
    """Return the group's target, as this run writes it."""
    target = run.group.target
    assert target is not None
    if not run.full_refresh:
        return target
    refuse_incapable(run.runtime.target_catalog(target.catalog), run.group, target)
    return replace(target, write=refreshed(target.write))


def _evaluated(run: ThisRun, joint: ComputedJoint, target: Target, catalog: HasTargets, is_last: bool) -> GroupResult:
    """Compute the version by the author's own query if that may do, else by those that separate rows and errors."""
    if may_prove(run, catalog, target):
        try:
            return _attempt(run, joint, target, catalog, is_last, as_written=True)
        except RivetError as error:
            if error.code != CODE:
                raise
    return _attempt(run, joint, target, catalog, is_last)


def _published_before(
    run: ThisRun, joint: ComputedJoint, target: Target, catalog: HasTargets, done: Published
) -> GroupResult:
    """Return the result of a retry of a run that has published; if that version has expired, of the current one."""
    readable = _readable(catalog, done)
    checks = check_published(run.runtime, joint.name, version=readable)
    counts = _partition_rows(run, target, StoredRows(catalog.read(readable), readable.statistics))
    return GroupResult(run.group.name, run.clock.seconds, checks, done, Rows.of(done), partition_rows=counts)


def _readable(catalog: HasTargets, done: Published) -> Published:
    try:
        catalog.read(done)
    except RivetError as error:
        current = catalog.current(done.table) if error.code == "RVT-401" else None
        if current is None:
            raise
        return current
    return done


def _attempt(
    run: ThisRun,
    joint: ComputedJoint,
    target: Target,
    catalog: HasTargets,
    is_last: bool,
    as_written: bool = False,
) -> GroupResult:
    with run.clock.phase(BRANCH):
        transaction = catalog.begin(target.table, run.session, target.options)
    with transaction:
        # The commit of an earlier attempt, whose outcome was not known, may have been carried out since the last look.
        if catalog.published_by(target.table, run.identity) is not None:
            raise RivetError("RVT-405", f"'{target.table}' has been published by an earlier attempt of this run")
        return _published(run, joint, target, transaction, is_last, as_written)


def _published(
    run: ThisRun,
    joint: ComputedJoint,
    target: Target,
    transaction: TableTransaction,
    is_last: bool,
    as_written: bool,
) -> GroupResult:
    clock = run.clock
    found = new_files(run.runtime, run.group, all_are_new=run.full_refresh)
    run = replace(run, given={**run.given, **refs(found)})
    errors = write_joint(run, joint.name, transaction, target, _window_of(run, target), as_written)
    batch, whole = transaction.batch, transaction.whole
    empty = batch.statistics.rows == 0
    if empty and target.on_empty == "fail":
        raise RivetError("RVT-508", "the batch is empty and `on_empty` is fail")
    with clock.phase(QUALITY):
        checks = (*check_staged(run, joint, batch, whole), *judge_errors(joint, errors, batch.statistics.rows))
    skips = empty and target.on_empty == "skip"
    if any(result.blocks for result in checks) or skips:
        with clock.phase(CLEAN_UP):
            transaction.abort()
        return GroupResult(run.group.name, clock.seconds, checks, skipped_empty=skips, errors=errors)
    with clock.phase(QUALITY):
        counts = whole.partition_rows
        if not isinstance(target.write, ReplaceAll):  # then the table also has rows of its base
            counts = _partition_rows(run, target, whole)
    run.runtime.check_interrupt()
    with clock.phase(PUBLISH):
        published = _committed(transaction, joint, target, run, _inputs(run, found), is_last)
    return GroupResult(
        run.group.name,
        clock.seconds,
        checks,
        published,
        Rows.of(published),
        partition_rows=counts,
        values=whole.statistics.values,
        errors=errors,
        staged=target.with_run,
    )


def _inputs(run: ThisRun, found: list[NewFiles]) -> Inputs:
    """Return the positions of all inputs that were read; of landing zones, the consumed files."""
    return {**run.inputs, **consumed_files(found)}


def _window_of(run: ThisRun, target: Target) -> Window | None:
    """Return the run's window, in the partition column of the target; None without partitions."""
    if run.window is None:
        return None
    assert target.partitions is not None
    return replace(run.window, partitions=target.partitions)


def _partition_rows(run: ThisRun, target: Target, stored: StoredRows) -> Mapping[str, int]:
    """Return the row count of each partition of the run in the stored rows; none if the run has no partitions."""
    window = _window_of(run, target)
    if window is None:
        return {}
    with run.session.views():
        return rows_by_partition(run.session, run.session.load(stored.relation), stored.statistics.columns, window)


def _committed(
    transaction: TableTransaction, joint: ComputedJoint, target: Target, run: ThisRun, inputs: Inputs, is_last: bool
) -> Published:
    read = {name: version for name, position in inputs.items() for version in _versions(position)}
    code_versions = run_code_versions(run.runtime, run.group, read)
    try:
        if target.with_run and isinstance(transaction, StagedTransaction):
            return transaction.stage(run.identity, inputs, code_versions)
        return transaction.commit(run.identity, inputs, code_versions)
    except RivetError as error:
        if error.code != "RVT-405" or not is_last or not isinstance(transaction, VersionTransaction):
            raise
        transaction.withhold(run.identity, inputs, code_versions)
        raise _withheld(transaction, joint, target, error) from error


def _versions(position: Position) -> tuple[str, ...]:
    return tuple(position.versions.values()) if isinstance(position, VersionPosition) else ()


def _withheld(transaction: TableTransaction, joint: ComputedJoint, target: Target, error: RivetError) -> RivetError:
    version = transaction.version
    message = f"{error.diagnostics[0].message}; the last of {len(PAUSES) + 1} attempts is withheld as {version}"
    if transaction.branch is not None:
        message += f", on the branch {transaction.branch}"
    command = "rivet-dagster versions {} " + f"{joint.name} {version}"
    remedy = f"Publish it with `{command.format('publish')}`, or remove it with `{command.format('drop')}`."
    if target.write != ReplaceAll() and not isinstance(target.write, Refresh):
        remedy += " It lacks what others published since it was begun."
    return RivetError("RVT-405", message, remediation=remedy)
