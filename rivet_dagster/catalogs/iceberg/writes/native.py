"""Write plans carried out by Iceberg's own statements, on a branch of a table that the version fits as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.iceberg.metadata.layout import layout_updates
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import manifests_of
from rivet_dagster.catalogs.iceberg.metadata.types import same_columns
from rivet_dagster.catalogs.iceberg.writes.batch_keys import are_distinct, have_distinct_times, keys_in_local_files
from rivet_dagster.catalogs.iceberg.writes.errors import BegunWrite
from rivet_dagster.catalogs.iceberg.writes.staged_branch import StagedBranch, StoredSnapshot
from rivet_dagster.catalogs.iceberg.writes.staged_table import StagingTable, VersionLocation
from rivet_dagster.catalogs.rewriting.current_keys import MOST_BASE_ROWS
from rivet_dagster.catalogs.rewriting.histories import has_late_keys
from rivet_dagster.catalogs.rewriting.incoming import (
    MOST_BATCH_ROWS,
    BatchKeys,
    Transforming,
    changed_versions,
    changes_current_alone,
    distinct_by_key,
    incoming_rows,
    no_rows,
    own_columns,
    register_batch,
)
from rivet_dagster.catalogs.rewriting.key_range import in_range, key_range
from rivet_dagster.catalogs.rewriting.rewrite import Rewritten, compute_batch, count_by_partition
from rivet_dagster.catalogs.rewriting.version import fit_columns, table_columns
from rivet_dagster.catalogs.rewriting.window import WindowOfTable
from rivet_dagster.engines.contract import EngineSession, Frame, QueryPlan, WriteMode
from rivet_dagster.model.storage import Base, ColumnStatistics, Record, StoredRows
from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    Refresh,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)
from rivet_dagster.sql.partitions import Condition
from rivet_dagster.sql.write_strategies.alignment import projection
from rivet_dagster.sql.write_strategies.merge import changed_rows, new_rows
from rivet_dagster.sql.write_strategies.scd2 import (
    CHANGE,
    INSERT,
    UPDATE,
    is_open,
    select_changes,
    select_versions,
)
from rivet_dagster.sql.write_strategies.statements import (
    all_of,
    count_query,
    delete,
    delete_and_insert,
    update,
    update_or_insert,
)
from rivet_dagster.sql.write_strategies.trees import BATCH, INCOMING, TARGET


def fits(begin: BegunWrite, plan: WritePlan, session: EngineSession, frame: Frame, context: WriteContext) -> bool:
    """Return whether the table keeps its columns, and its layout if all rows are written. Raises RVT-513, RVT-514."""
    existing, base = begin.location.existing, begin.base
    assert existing is not None and base is not None
    given = session.columns(frame)
    if isinstance(plan, Refresh) and context.window is None:
        return False
    if plan.replaces_table and context.window is None:
        return same_columns(existing.schema(), given) and not layout_updates(begin.layout, existing.metadata)
    added = own_columns(plan, given) if isinstance(plan, History) else ()
    return tuple(table_columns(plan, base.columns, (*given, *added))) == tuple(base.columns)


def overwritable_by(location: VersionLocation, upon: int | None) -> tuple[str, ...]:
    """Return the columns by whose values Iceberg's dynamic overwrite replaces rows of the snapshot ``upon``.

    None where transforms of columns are the table's partitions. None either where a live manifest, of data or of delete
    files, has another spec than the table: the overwrite replaces partitions of the table's spec alone, and leaves the
    files of others as they are.
    """
    from pyiceberg.transforms import IdentityTransform

    existing = location.existing
    base = existing.snapshot_by_id(upon) if existing is not None and upon is not None else None
    if existing is None or base is None:
        return ()
    fields = existing.spec().fields
    if not all(isinstance(field.transform, IdentityTransform) for field in fields):
        return ()
    live = [file for file in manifests_of(base, existing.io) if file.has_added_files() or file.has_existing_files()]
    if any(manifest.partition_spec_id != existing.metadata.default_spec_id for manifest in live):
        return ()
    return tuple(existing.schema().find_field(field.source_id).name for field in fields)


def separates_closed(location: VersionLocation, plan: WritePlan) -> bool:
    """Return whether the table is partitioned by the column that tells current versions from closed ones."""
    from pyiceberg.transforms import IdentityTransform

    if not isinstance(plan, History) or location.existing is None:
        return False
    columns = location.existing.schema()
    fields = [field for field in location.existing.spec().fields if isinstance(field.transform, IdentityTransform)]
    return plan.is_current.lower() in {columns.find_field(field.source_id).name.lower() for field in fields}


@dataclass(frozen=True)
class NativeWrite:
    """The write of ``plan`` to ``branch``, which builds upon ``base``, a version of ``rows_before`` rows.

    ``batch_table`` is where a batch is stored that the statement reads several times. ``overwritable_by`` are the
    columns by whose values a dynamic overwrite replaces rows, none where it would not replace them all. With
    ``separates_closed`` files of closed versions of a history hold no others, so that they can be skipped.
    """

    branch: StagedBranch
    session: EngineSession
    base: Base
    rows_before: int
    batch_table: StagingTable
    overwritable_by: tuple[str, ...]
    separates_closed: bool
    plan: WritePlan
    context: WriteContext

    @contextmanager
    def carried_out(self, frame: Frame) -> Iterator[Rewritten]:
        """Carry out the plan with the rows of ``frame``; the batch can be read until the block ends."""
        if self.plan.replaces_table and self.context.window is None:
            yield self._overwritten(frame)
        elif isinstance(self.plan, ReplaceAll | Append):
            yield self._as_given(self.plan, frame)
        else:
            try:
                yield self._from_stored_batch(frame)
            finally:
                self.batch_table.remove()

    def _as_given(self, plan: ReplaceAll | Append, frame: Frame) -> Rewritten:
        """Write the batch itself to the branch, after the partitions of the run have been emptied."""
        with self.session.views():
            frame = fit_columns(plan, self.session, frame, self.base)
            if isinstance(plan, ReplaceAll) and self.context.window is None:
                return self._overwritten(frame)
            if isinstance(plan, ReplaceAll):
                inside, values = self._window()
                self._execute(delete(self.branch.written_to, inside), values)
            emptied = self.branch.head()
            query_plan = self._computed(frame, "append")
        stored = self.branch.look()
        with self.session.views():
            batch = count_by_partition(self.session, stored.appended(emptied), self.context)
        result = self._rewritten(stored, batch, query_plan)
        if not isinstance(plan, ReplaceAll):
            return result
        return replace(result, whole=replace(result.whole, partition_rows=batch.partition_rows))

    def _overwritten(self, frame: Frame) -> Rewritten:
        query_plan = self._computed(frame, "overwrite")
        whole = self.branch.look().whole()
        return Rewritten(whole, whole, query_plan=query_plan)

    def _from_stored_batch(self, frame: Frame) -> Rewritten:
        """Store the batch, so that the joint's query runs once, and have a statement read it from there."""
        frame = self.context.observe(frame)
        query_plan = compute_batch(self.session, frame, self.context, lambda: self.batch_table.add(frame, self.context))
        with self.session.views():
            batch = count_by_partition(self.session, self.batch_table.audit(), self.context)
            match self.plan:
                case Upsert():
                    return self._upserted(self.plan, batch, query_plan)
                case History():
                    return self._history(self.plan, batch, query_plan)
                case AppendNewer():
                    self._newer(self.plan, batch)
                case DeleteInsert() | ReplacePartitions():
                    self._replaced(self.plan, batch)
                case Refresh():
                    return self._refreshed(self.plan, batch, query_plan)
        return self._rewritten(self.branch.look(), batch, query_plan)

    def _upserted(self, plan: Upsert, batch: StoredRows, query_plan: QueryPlan) -> Rewritten:
        columns = self.base.columns
        register_batch(self.session, self.session.load(batch.relation), columns)
        is_distinct = are_distinct(self.batch_table.table.load(), batch, plan.keys)
        source = BATCH if is_distinct else distinct_by_key(plan, self.session, columns, self.context.shows_values)
        inside, values = self._inside(plan.keys, batch)
        filled = batch.statistics.without_nulls(plan.keys)
        if self._is_small or batch.statistics.rows > MOST_BATCH_ROWS:
            sql = update_or_insert(self.branch.written_to, columns, plan.keys, source, inside, True, filled)
            return self._merged(batch, query_plan, self._merge(sql, values), lambda: self._differing(source, plan))
        self.session.register(TARGET, self.session.load(self.base.relation))
        frame = self.session.query(new_rows(columns, plan.keys, source, inside, filled), values)
        with self.batch_table.scratch() as added:
            added.add(frame, self.context)
            new = added.audit()
            record: Record | None = Record(0)
            if new.statistics.rows < batch.statistics.rows:
                sql = update(self.branch.written_to, columns, plan.keys, source, inside, True, filled)
                record = self._merge(sql, values)
            if new.statistics.rows:
                self._write(self.session.load(new.relation))
            return self._merged(batch, query_plan, record, lambda: self._differing(source, plan))

    def _history(self, plan: History, batch: StoredRows, query_plan: QueryPlan) -> Rewritten:
        """Store the versions that are new or change, and merge them, into the open versions alone if that suffices."""
        columns = [name for name, _ in self.base.columns]

        def find_open(session: EngineSession, frame: Frame) -> Frame:
            session.register(_HISTORY, frame)
            return session.query(select_versions(columns, plan.valid_to, _HISTORY, are_open=True))

        keys = self._known_keys(plan, batch)
        current_alone = changes_current_alone(plan, keys)
        inside, within = None, self._within
        if current_alone or (
            self.separates_closed and not has_late_keys(plan, self.session, self.base, batch, self.context, find_open)
        ):
            inside, within = is_open(plan.valid_to), find_open
        # A version that ends and the one that begins have one key.
        matched = plan.keys if current_alone and not self._is_small else plan.identity
        frame = changed_versions(plan, self.session, batch, self.base, self.context, within, keys)
        with self.batch_table.scratch() as changes:
            changes.add(frame, self.context)
            stored = changes.audit()
            if stored.statistics.rows == 0:
                return self._merged(batch, query_plan, Record(0), lambda: 0)
            self.session.register(_CHANGES, self.session.load(stored.relation))
            filled = stored.statistics.without_nulls(matched)
            if self._is_small:
                every = projection(self.base.columns, stored.statistics.columns, _CHANGES)
                self.session.register(INCOMING, self.session.query(every))
                sql = update_or_insert(
                    self.branch.written_to, self.base.columns, matched, INCOMING, inside, never_null=filled
                )
                return self._merged(batch, query_plan, self._merge(sql), lambda: stored.statistics.rows)
            kinds = stored.statistics.values.get(CHANGE, ColumnStatistics())
            record: Record | None = Record(0)
            if kinds.max != INSERT:
                self.session.register(INCOMING, self.session.query(select_changes(columns, UPDATE, _CHANGES)))
                record = self._merge(
                    update(self.branch.written_to, self.base.columns, matched, INCOMING, inside, False, filled)
                )
            if kinds.min != UPDATE:
                self._write(self.session.query(select_changes(columns, INSERT, _CHANGES)))
            return self._merged(batch, query_plan, record, lambda: stored.statistics.rows)

    @property
    def _is_small(self) -> bool:
        """Whether a statement more takes longer than joining all rows of the table."""
        return self.rows_before <= FEW_ROWS

    def _known_keys(self, plan: History, batch: StoredRows) -> BatchKeys:
        """Return what is known about the keys of a batch without a query of the engine."""
        given = self.batch_table.table.load()
        if self.context.window is None and self.rows_before <= MOST_BASE_ROWS:
            started = self.context.started or datetime.now(UTC)
            null = plan.valid_to if self.separates_closed else None
            keys = keys_in_local_files(plan, self.branch.table.load(), self.base, null, given, batch, started)
            if keys is not BatchKeys.ANY:
                return keys
        return BatchKeys.DISTINCT if have_distinct_times(plan, given, batch) else BatchKeys.ANY

    def _merge(self, sql: str, values: Mapping[str, Any] | None = None) -> Record | None:
        """Execute a MERGE, and return what it did; None where Iceberg's summary does not say."""
        before = self.branch.head()
        self._execute(sql, values)
        stored = self.branch.look()
        return stored.merged() if stored.snapshot != before else Record(0)

    def _merged(
        self, batch: StoredRows, query_plan: QueryPlan, record: Record | None, changed: Callable[[], int]
    ) -> Rewritten:
        """Return the result of a MERGE, or of one that updates and of rows that were added; ``record`` is of the MERGE.

        Where the record is not known, ``changed`` counts the rows that are new or were to be updated.
        """
        stored = self.branch.look()
        result = self._rewritten(stored, batch, query_plan)
        inserted = result.whole.statistics.rows - self.rows_before
        updated = record.updated if record is not None else changed() - inserted
        return replace(result, record=Record(inserted, updated, bytes=stored.bytes_since(self.branch.start)))

    def _differing(self, source: str, plan: Upsert) -> int:
        """Return how many rows of ``source`` the table lacked, or had other values of."""
        self.session.register(TARGET, self.session.load(self.base.relation))
        self.session.register(INCOMING, self.session.query(changed_rows(self.base.columns, plan.keys, source)))
        (counted_rows,) = self.session.rows(count_query(INCOMING))
        return int(counted_rows["rows"])

    def _newer(self, plan: AppendNewer, batch: StoredRows) -> None:
        frame = incoming_rows(plan, self.session, batch, self.base, self.context, self._within)
        self._write(frame)

    def _replaced(self, plan: DeleteInsert | ReplacePartitions, batch: StoredRows) -> None:
        columns, keys = self.base.columns, plan.identity
        register_batch(self.session, self.session.load(batch.relation), columns)
        if self.context.window is None and self._are_overwritable(keys):
            frame = self.session.query(projection(columns, columns, BATCH))
            self._write(frame, "overwrite_partitions")
            return
        inside, values = self._inside(keys, batch)
        sql = delete_and_insert(self.branch.written_to, columns, keys, BATCH, inside)
        self._execute(sql, values)

    def _refreshed(self, plan: Refresh, batch: StoredRows, query_plan: QueryPlan) -> Rewritten:
        """Empty the partitions of the run, and append what the plan makes of empty ones."""
        columns = self.base.columns
        if isinstance(plan.plan, Transforming):
            frame = incoming_rows(plan.plan, self.session, batch, self.base, self.context, no_rows)
        else:
            register_batch(self.session, self.session.load(batch.relation), columns)
            frame = self.session.query(projection(columns, columns, BATCH))
        inside, values = self._window()
        self._execute(delete(self.branch.written_to, inside), values)
        others = self.branch.look().whole().statistics.rows
        self._write(frame)
        stored = self.branch.look()
        whole, written = stored.whole(), stored.bytes_since(self.branch.start)
        record = Record(whole.statistics.rows - others, deleted=self.rows_before - others, bytes=written)
        return Rewritten(batch, whole, record, query_plan)

    def _are_overwritable(self, keys: tuple[str, ...]) -> bool:
        """Return whether a dynamic overwrite replaces the rows with these values of the keys, and no others."""
        return [key.lower() for key in keys] == [name.lower() for name in self.overwritable_by]

    def _computed(self, frame: Frame, mode: WriteMode) -> QueryPlan:
        frame = self.context.observe(frame)
        return compute_batch(self.session, frame, self.context, lambda: self._write(frame, mode))

    def _write(self, frame: Frame, mode: WriteMode = "append") -> None:
        with self.branch.statement(adds=True):
            self.session.write(frame, self.branch.target, self.context.progress, mode=mode)

    def _execute(self, sql: str, values: Mapping[str, Any] | None = None) -> None:
        with self.branch.statement(adds=False):
            self.session.execute(sql, values, self.context.progress)

    def _rewritten(self, stored: StoredSnapshot, batch: StoredRows, query_plan: QueryPlan) -> Rewritten:
        """Return all rows, with the record of a write that has inserted all rows of the batch, or the newer ones."""
        whole = stored.whole()
        rows, before = whole.statistics.rows, self.rows_before
        inserted = rows - before if isinstance(self.plan, AppendNewer) else batch.statistics.rows
        written = stored.bytes_since(self.branch.start)
        record = Record(inserted=inserted, deleted=before + inserted - rows, bytes=written)
        return Rewritten(batch, whole, record, query_plan)

    def _inside(self, keys: Sequence[str], batch: StoredRows) -> tuple[Condition | None, Mapping[str, Any]]:
        """Return the condition that a row of the table is one that the batch may change, and its parameters."""
        inside, values = in_range(key_range(keys, batch.statistics, self.base.columns), self.base.columns)
        if self.context.window is None:
            return inside, values
        window, bounds = self._window()
        return all_of(window, inside), {**values, **bounds}

    def _window(self) -> tuple[Any, Mapping[str, Any]]:
        assert self.context.window is not None
        return WindowOfTable(self.context.window, self.base.columns).condition()

    def _within(self, session: EngineSession, frame: Frame) -> Frame:
        if self.context.window is None:
            return frame
        return WindowOfTable(self.context.window, self.base.columns).within(session, frame)


FEW_ROWS = 200_000
"""The rows of a small table."""

_HISTORY, _CHANGES = "rivet_history", "rivet_changes"
