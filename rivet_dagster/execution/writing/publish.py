"""Publishing a table's new version: branch, write, quality, publish; repeated if another run publishes in between."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.staging import StagedTransaction, StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import Adopts, HasTargets, VersionTransaction
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.parquet_rows import rows_by_partition
from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.errors import Conflict, NotMaterialized, RivetError, RowsFailed
from rivet_dagster.execution.adoption import adopt_table
from rivet_dagster.execution.full_refresh import refuse_incapable
from rivet_dagster.execution.progress import BRANCH, CLEAN_UP, PUBLISH, QUALITY
from rivet_dagster.execution.quality.judging import check_published, check_staged, observed_checks
from rivet_dagster.execution.quality.row_errors import judge_errors
from rivet_dagster.execution.reading.new_files import consumed_files, new_files, refs
from rivet_dagster.execution.results import GroupResult, Rows
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.execution.writing.joint import write_joint
from rivet_dagster.execution.writing.row_errors import may_prove
from rivet_dagster.model.inputs import Inputs, Position, VersionPosition
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.storage import Provenance, Published, StoredRows
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import Refresh, ReplaceAll, refresh_plan

PAUSES = (1.0, 2.0, 4.0)
"""The maximum seconds to wait before each retry, after another run has published first."""


def publish_exit(run: ThisRun) -> GroupResult:
    """Publish the group's exit, once for each identity of a run, or stage it for the last step of the run.

    If another run publishes in between, the version is computed again, based on what that run published. If that
    happens with every attempt, the version of the last attempt is withheld and RVT-405 is raised. Also raises
    RivetErrors of storage, engine and joints, after which nothing of the version is left.
    """
    target = _target(run)
    catalog = run.runtime.target_catalog(target.catalog)
    attempt = _Attempt(run, run.runtime.assembly.computed(run.group.exit), target, catalog)
    if target.adopt and isinstance(catalog, Adopts):  # in an environment the base's table is there already
        adopt_table(catalog, attempt.joint, target)
    for pause in (*PAUSES, None):
        published = catalog.published_by(target.table, run.identity)
        if published is not None:
            return attempt.result_of(published)
        staged = capable(catalog, StagesForRuns).staged_by(target.table, run.identity) if target.with_run else None
        if staged is not None:
            return replace(attempt.result_of(staged), staged=True)
        try:
            return replace(attempt, is_last=pause is None).publish()
        except Conflict:
            if pause is None:
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
    return replace(target, write=refresh_plan(target.write))


@dataclass(frozen=True)
class _Attempt:
    """An attempt of a run to publish a joint; what the last one has written is withheld if another run was faster."""

    run: ThisRun
    joint: ComputedJoint
    target: Target
    catalog: HasTargets
    is_last: bool = False

    def result_of(self, published: Published) -> GroupResult:
        """Return the result of a retry of a run that has published; if that version has expired, of the current one."""
        run, readable = self.run, self._readable(published)
        checks = check_published(run.runtime, self.joint.name, version=readable)
        counts = self._partition_rows(StoredRows(self.catalog.read(readable), readable.statistics))
        rows = Rows.of(published)
        return GroupResult(run.group.name, run.clock.seconds, checks, published, rows, partition_rows=counts)

    def _readable(self, published: Published) -> Published:
        try:
            self.catalog.read(published)
        except NotMaterialized:
            current = self.catalog.current(published.table)
            if current is None:
                raise
            return current
        return published

    def publish(self) -> GroupResult:
        """Publish the rows of the author's own query if that may do, else those of the one that leaves errors out."""
        if may_prove(self.run, self.catalog, self.target):
            with suppress(RowsFailed):
                return self._publish(as_written=True)
        return self._publish()

    def _publish(self, as_written: bool = False) -> GroupResult:
        with self.run.clock.phase(BRANCH):
            transaction = self.catalog.begin(self.target.table, self.run.session, self.target.options)
        with transaction:
            # The commit of an earlier attempt, whose outcome was not known, may have been carried out since.
            if self.catalog.published_by(self.target.table, self.run.identity) is not None:
                message = f"'{self.target.table}' has been published by an earlier attempt of this run"
                raise RivetError("RVT-405", message)
            return self._written(transaction, as_written)

    def _written(self, transaction: TableTransaction, as_written: bool) -> GroupResult:
        target, joint, clock = self.target, self.joint, self.run.clock
        landed = new_files(self.run.runtime, self.run.group, all_are_new=self.run.full_refresh)
        run = replace(self.run, given={**self.run.given, **refs(landed)})
        observed = observed_checks(run, joint)
        errors = write_joint(run, joint.name, transaction, target, self._window, as_written, observed.observe)
        batch, whole = transaction.batch, transaction.whole
        empty = batch.statistics.rows == 0
        if empty and target.on_empty == "fail":
            raise RivetError("RVT-508", "the batch is empty and `on_empty` is fail")
        with clock.phase(QUALITY):
            checks = (
                *check_staged(run, joint, transaction, observed),
                *judge_errors(joint, errors, batch.statistics.rows),
            )
        skips = empty and target.on_empty == "skip"
        if any(result.blocks for result in checks) or skips:
            with clock.phase(CLEAN_UP):
                transaction.abort()
            return GroupResult(run.group.name, clock.seconds, checks, skipped_empty=skips, errors=errors)
        with clock.phase(QUALITY):
            counts = whole.partition_rows
            if not isinstance(target.write, ReplaceAll):  # then the table also has rows of its base
                counts = self._partition_rows(whole)
        run.runtime.check_interrupt()
        run.snapshots.finish()  # nothing of the sources is read from here on
        with clock.phase(PUBLISH):
            published = self._commit(transaction, {**run.inputs, **consumed_files(landed)})
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

    @property
    def _window(self) -> Window | None:
        """The run's window, in the partition column of the target; None without partitions."""
        if self.run.window is None:
            return None
        assert self.target.partitions is not None
        return replace(self.run.window, partitions=self.target.partitions)

    def _partition_rows(self, stored: StoredRows) -> Mapping[str, int]:
        """Return the row count of each partition of the run in the stored rows; none if the run has no partitions."""
        session, window = self.run.session, self._window
        if window is None:
            return {}
        with session.views():
            return rows_by_partition(session, session.load(stored.relation), stored.statistics.columns, window)

    def _commit(self, transaction: TableTransaction, inputs: Inputs) -> Published:
        run = self.run
        read = {name: version for name, position in inputs.items() for version in _versions(position)}
        made = Provenance(inputs, run_code_versions(run.runtime, run.group, read))
        try:
            if self.target.with_run and isinstance(transaction, StagedTransaction):
                return transaction.stage(run.identity, made)
            return transaction.commit(run.identity, made)
        except Conflict as error:
            if not self.is_last or not isinstance(transaction, VersionTransaction):
                raise
            transaction.withhold(run.identity, made)
            raise self._withheld(transaction, error) from error

    def _withheld(self, transaction: TableTransaction, error: RivetError) -> RivetError:
        version = transaction.version
        message = f"{error.diagnostics[0].message}; the last of {len(PAUSES) + 1} attempts is withheld as {version}"
        if transaction.branch is not None:
            message += f", on the branch {transaction.branch}"
        command = "rivet-dagster versions {} " + f"{self.joint.name} {version}"
        remedy = f"Publish it with `{command.format('publish')}`, or remove it with `{command.format('drop')}`."
        if self.target.write != ReplaceAll() and not isinstance(self.target.write, Refresh):
            remedy += " It lacks what others published since it was begun."
        return RivetError("RVT-405", message, remediation=remedy)


def _versions(position: Position) -> tuple[str, ...]:
    return tuple(position.versions.values()) if isinstance(position, VersionPosition) else ()


def run_code_versions(runtime: Runtime, group: FusedGroup, versions: Mapping[str, str]) -> dict[str, str]:
    """Return the code versions to record with a version of the group's exit.

    ``versions`` are the versions of the stored joints that were read. Of one that has been replaced since, the code is
    not known.
    """
    read = {}
    for name, version in versions.items():
        current = runtime.version_read(name)
        if current is not None and current.version == version:
            read[name] = current.code_versions
    return runtime.code_versions.of_run(group, read)
