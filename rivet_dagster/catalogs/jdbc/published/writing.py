"""Write plans in a database: the batch is staged, and statements in its SQL say what becomes of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.product import TargetTable
from rivet_dagster.catalogs.jdbc.published.copying import ATTEMPT
from rivet_dagster.catalogs.jdbc.published.layout import Layout, layout_of_batch
from rivet_dagster.catalogs.jdbc.published.staging import StagedTable, Staging
from rivet_dagster.catalogs.jdbc.published.stored_version import PlannedWrite, Statement
from rivet_dagster.catalogs.rewriting.incoming import (
    incoming_rows,
    no_rows,
    own_columns,
    refuse_ambiguous,
)
from rivet_dagster.catalogs.rewriting.rewrite import compute_batch, count_by_partition
from rivet_dagster.catalogs.rewriting.window import WindowOfTable
from rivet_dagster.engines.contract import EngineSession, Frame, QueryPlan
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Base, Record, Statistics, StoredRows
from rivet_dagster.model.write_plan import (
    AppendNewer,
    DeleteInsert,
    History,
    Refresh,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)
from rivet_dagster.sql import database_queries as queries
from rivet_dagster.sql import database_writes as writes
from rivet_dagster.sql.database_trees import Matching, Name, WrittenColumn
from rivet_dagster.sql.mariadb import to_sql
from rivet_dagster.sql.write_strategies.alignment import plain_columns, projection
from rivet_dagster.sql.write_strategies.merge import SHOWN
from rivet_dagster.sql.write_strategies.trees import Columns

_BATCH = "rivet_batch"


@dataclass(frozen=True)
class Destination:
    """Where a version goes: the table ``target``, and ``base``, the table whose rows it builds upon, if there are any.

    These differ in an environment in which the table has not been built. ``rows`` are those of the base, and
    ``requires`` is the query of a value that must be true when the version is published, if there is one. With
    ``swaps`` the table with the batch takes the place of one that becomes the batch.
    """

    target: Name
    base: Name | None
    existing: TargetTable | None
    rows: int = 0
    relation: Relation | None = None
    requires: str | None = None
    swaps: bool = False


class WholeRows(StoredRows):
    """The rows that a table will have, which are counted when somebody asks for their statistics."""

    def __init__(self, relation: Relation, statistics: Callable[[], Statistics]) -> None:
        object.__setattr__(self, "relation", relation)
        object.__setattr__(self, "partition_rows", {})
        self.__dict__["_statistics"] = statistics

    @cached_property
    def statistics(self) -> Statistics:
        """The statistics, by queries of the database."""
        counted: Statistics = self.__dict__["_statistics"]()
        return counted

    def settle(self, statistics: Statistics) -> None:
        """Have these be the statistics from now on, since the rows are those of a published table."""
        self.__dict__["statistics"] = statistics


@dataclass(frozen=True)
class StagedWrite:
    """A write whose rows are staged: what is to be published, the batch, and all rows that the table will have.

    ``columns`` are Spark's, as the table has them afterwards; ``record`` counts what will be changed, by queries of the
    database.
    """

    write: PlannedWrite
    batch: StoredRows
    whole: StoredRows
    columns: Columns
    record: Callable[[], Record]
    query_plan: QueryPlan | None = None


@dataclass(frozen=True)
class DatabaseWrite:
    """The write of ``plan`` to a place, by ``session``."""

    staging: Staging
    destination: Destination
    session: EngineSession
    plan: WritePlan
    context: WriteContext
    full: bool = field(default=False)
    """Whether it is a full refresh, of the table or of the run's window."""

    def stage(self, frame: Frame) -> StagedWrite:
        """Stage the rows of ``frame``; return what is to be published. Raises as ``TableTransaction.write`` does."""
        if isinstance(self.plan, Refresh):
            return replace(self, plan=self.plan.plan, full=True).stage(frame)
        if isinstance(self.plan, History):
            return self._history(self.plan, frame)
        layout = self._layout(frame, ())
        staged, query_plan = self._batch(layout, frame)
        with self._connected() as connection:
            batch = self._counted(self.staging.stored(connection, staged))
            rows, on = self._incoming(connection, layout, staged)
            return self._planned(connection, layout, staged, batch, rows, on, query_plan)

    @property
    def _replaces(self) -> bool:
        """Whether all rows of the table go."""
        return self._replaces_rows and self.context.window is None

    @property
    def _replaces_rows(self) -> bool:
        """Whether no old row stays that the run may change."""
        return self.full or isinstance(self.plan, ReplaceAll)

    @property
    def _existing(self) -> TargetTable | None:
        return self.destination.existing

    @property
    def _swapped_for(self) -> TargetTable | None:
        """The table that the staged batch takes the place of; None without such."""
        is_batch = isinstance(self.plan, ReplaceAll) and self._replaces
        return self._existing if self.destination.swaps and is_batch and self._base == self.destination.target else None

    def _layout(self, frame: Frame, added: Columns) -> Layout:
        """Return the columns of the table after the write, of which the frame has all but the plan's ``added``."""
        given = plain_columns((*self.session.columns(frame), *added))
        takes_batch = self._replaces and (self.full or self.plan.replaces_table)
        kind, target = self.staging.kind, self.destination.target
        return layout_of_batch(kind, target, self._existing, self.plan, given, self._replaces, takes_batch)

    def _batch(self, layout: Layout, frame: Frame) -> tuple[StagedTable, QueryPlan]:
        session, context = self.session, self.context
        staged: list[StagedTable] = []
        with session.views():
            session.register(_BATCH, frame)
            fitted = session.query(projection(layout.spark, session.columns(frame), _BATCH))

            def copy() -> None:
                like = self._swapped_for
                staged.append(self.staging.copy("batch", session, fitted, layout.spark, layout.columns, context, like))

            query_plan = compute_batch(session, fitted, context, copy)
        return staged[0], query_plan

    def _counted(self, batch: StoredRows) -> StoredRows:
        with self.session.views():
            return count_by_partition(self.session, batch, self.context)

    def _incoming(
        self, connection: Connection, layout: Layout, staged: StagedTable
    ) -> tuple[StagedTable, Matching | None]:
        """Return the rows that come to the table, and which rows of it they match. Raises RVT-515, RVT-516."""
        match self.plan:
            case Upsert():
                keys = layout.named(self.plan.keys)
                decided = self._decided(connection, layout, staged, self.plan)
                return decided, self._matching(connection, decided, keys)
            case DeleteInsert() | ReplacePartitions():
                keys = layout.named(self.plan.matched_by)
                return staged, self._matching(connection, staged, keys)
            case AppendNewer():
                (column,) = layout.named([self.plan.column])
                query = queries.rows_without(staged.name, column.name, self._dialect)
                (missing,) = connection.execute(query).fetchone() or (0,)
                if missing:
                    message = f"{missing} rows of the batch have no {column.name}, which says where they belong"
                    raise RivetError("RVT-516", message)
                if self._base is None or self.full:
                    return staged, None
                newer = queries.newer_rows(self._base, staged.name, self._names(layout), column, self._inside())
                return self.staging.derive(connection, "newer", to_sql(newer, self._dialect), staged), None
            case _:
                return staged, None

    def _decided(self, connection: Connection, layout: Layout, staged: StagedTable, plan: Upsert) -> StagedTable:
        """Return the batch with one row for each key. Raises RVT-515."""
        keys, order_by = layout.named(plan.keys), layout.named(plan.order_by)
        if connection.execute(queries.repeated_key(staged.name, keys, self._dialect)).fetchone() is None:
            return staged
        query = queries.ambiguous_keys(staged.name, layout.columns, keys, order_by, SHOWN, self._dialect)
        names = [key.name for key in keys]
        rows = [dict(zip(names, row, strict=True)) for row in connection.execute(query)]
        refuse_ambiguous(rows, plan.order_by, self.context.shows_values)
        decided = queries.decided_rows(staged.name, layout.columns, keys, order_by, self._dialect)
        return self.staging.derive(connection, "decided", decided, staged)

    def _history(self, plan: History, frame: Frame) -> StagedWrite:
        """Stage the batch, have the engine compute the versions that it adds or changes, and stage these."""
        added = own_columns(plan, plain_columns(self.session.columns(frame)))
        layout = self._layout(frame, added)
        names = {name.lower() for name, _ in added}
        values = replace(
            layout,
            spark=[column for column in layout.spark if column[0].lower() not in names],
            columns=tuple(column for column in layout.columns if column.name.lower() not in names),
        )
        staged, query_plan = self._batch(values, frame)
        with self._connected() as connection:
            batch = self._counted(self.staging.stored(connection, staged))
        existing, relation = self._existing, self.destination.relation
        base = Base(relation, tuple(existing.spark_columns)) if existing is not None and relation is not None else None
        within = no_rows if self.full else self._within
        with self.session.views():
            upon = None if self._replaces else base
            started = self.context.started or datetime.now(UTC)
            context = replace(self.context, started=started, progress=None)
            changes = incoming_rows(plan, self.session, batch, upon, context, within)
            self.session.register(_BATCH, changes)
            fitted = self.session.query(projection(layout.spark, self.session.columns(changes), _BATCH))
            rows = self.staging.copy("changes", self.session, fitted, layout.spark, layout.columns, context)
        with self._connected() as connection:
            on = self._matching(connection, rows, layout.named(plan.identity))
            return self._planned(connection, layout, staged, batch, rows, on, query_plan)

    def _planned(
        self,
        connection: Connection,
        layout: Layout,
        staged: StagedTable,
        batch: StoredRows,
        rows: StagedTable,
        on: Matching | None,
        query_plan: QueryPlan,
    ) -> StagedWrite:
        tables = {table.name: table for table in (staged, rows)}
        of_rows = tuple((*name, table.rows) for name, table in tables.items())
        like, requires = (self._base if self._base != self.destination.target else None), self.destination.requires
        if self._base is None or self._replaces:
            columns = tuple(layout.spark)
            swaps = self._swapped_for is not None
            keys = on.keys if on is not None else ()
            write = PlannedWrite(of_rows, (), rows.name, columns, like, requires=requires, swaps=swaps, keys=keys)
        else:
            text = to_sql(self._whole_query(layout, rows, on), self._dialect)
            statements = tuple(self._statements(layout, rows, on))
            write = PlannedWrite(of_rows, statements, like=like, whole=text, requires=requires)
        whole = self._whole(connection, layout, batch, staged, rows, on)
        record = partial(self._record, layout, rows, on, whole)
        return StagedWrite(write, batch, whole, layout.spark, record, query_plan)

    def _statements(self, layout: Layout, rows: StagedTable, on: Matching | None) -> Iterator[Statement]:
        """Yield the statements that change the table and its rows, of which others stay."""
        target = self.destination.target
        if self._base != target:
            yield self._copy_of_base()
        yield from map(Statement, layout.changes)
        if self._replaces_rows:
            yield Statement(writes.delete_rows(target, self._inside(), self._dialect), "deleted")
        elif isinstance(self.plan, Upsert | History):
            assert on is not None
            yield from self._merged(layout, rows, on)
            return
        elif on is not None:
            for text in writes.delete_matching(target, rows.name, on, self._dialect):
                yield Statement(text, "deleted")
        incoming = queries.source_rows(rows.name, self._names(layout))
        yield Statement(writes.insert_rows(target, layout.columns, incoming, self._dialect), "inserted")

    def _merged(self, layout: Layout, rows: StagedTable, on: Matching) -> list[Statement]:
        target, existing = self.destination.target, self._existing
        assert existing is not None
        if (
            self.staging.kind.upserts
            and frozenset(on.keys) in existing.unique
            and on.inside is None
            and not on.nullable
        ):
            text = writes.insert_or_update(target, layout.columns, rows.name, on.keys, self._dialect)
            return [Statement(text, "upserted")]
        updates = writes.update_differing(target, layout.columns, rows.name, on, self._dialect)
        new = queries.unmatched_rows(target, rows.name, self._names(layout), on)
        insert = Statement(writes.insert_rows(target, layout.columns, new, self._dialect), "inserted")
        return [*(Statement(text, "updated") for text in updates), insert]

    def _copy_of_base(self) -> Statement:
        assert self._base is not None and self._existing is not None
        names = list(self._existing.columns)
        columns = [WrittenColumn(name, "", None) for name in names]
        return Statement(
            writes.insert_rows(self.destination.target, columns, queries.source_rows(self._base, names), self._dialect)
        )

    def _whole(
        self,
        connection: Connection,
        layout: Layout,
        batch: StoredRows,
        staged: StagedTable,
        rows: StagedTable,
        on: Matching | None,
    ) -> StoredRows:
        """Return all rows that the table will have; the batch itself if it has no others."""
        if self._base is None or self._replaces:
            if rows is staged:
                return batch
            return self.staging.stored(connection, rows)
        query = self._whole_query(layout, rows, on)
        relation = self.staging.reader.staged_rows(connection, rows.name, ATTEMPT, to_sql(query, self._dialect))
        whole = WholeRows(relation, lambda: self._whole_statistics(layout, query, rows, on))
        if isinstance(self.plan, ReplaceAll):
            object.__setattr__(whole, "partition_rows", batch.partition_rows)
        return whole

    def _whole_query(self, layout: Layout, rows: StagedTable, on: Matching | None) -> Any:
        base, names = self._base, self._names(layout)
        assert base is not None
        incoming = queries.source_rows(rows.name, names)
        if self._replaces_rows:
            outside = Matching((), inside=self._inside())
            return queries.all_rows(queries.remaining_rows(base, layout.columns, None, outside), incoming)
        if on is None:
            return queries.all_rows(queries.remaining_rows(base, layout.columns, None, None), incoming)
        remaining = queries.remaining_rows(base, layout.columns, rows.name, on)
        if isinstance(self.plan, DeleteInsert | ReplacePartitions):
            return queries.all_rows(remaining, incoming)
        matched = queries.matched_rows(base, rows.name, names, on)
        return queries.all_rows(remaining, matched, queries.unmatched_rows(base, rows.name, names, on))

    def _whole_statistics(self, layout: Layout, query: Any, rows: StagedTable, on: Matching | None) -> Statistics:
        """Return the statistics of all rows, of which only the new ones are counted where the others stay."""
        with self._connected() as connection:
            if self._replaces_rows or isinstance(self.plan, DeleteInsert | ReplacePartitions):
                (counted,) = connection.execute(queries.count_rows(query, self._dialect)).fetchone() or (0,)
            elif on is None:
                counted = self.destination.rows + rows.rows
            else:
                assert self._base is not None
                new = queries.unmatched_rows(self._base, rows.name, self._names(layout), on)
                (added,) = connection.execute(queries.count_rows(new, self._dialect)).fetchone() or (0,)
                counted = self.destination.rows + added
            return Statistics(counted, self.staging.statistics(connection, rows).bytes, tuple(layout.spark))

    def _record(self, layout: Layout, rows: StagedTable, on: Matching | None, whole: StoredRows) -> Record:
        """Return how many rows the publication will change, if the table stays as it is until then."""
        before, after, size = self.destination.rows, whole.statistics.rows, whole.statistics.bytes
        if not isinstance(self.plan, Upsert | History) or self._base is None or self._replaces_rows:
            return Record(rows.rows, deleted=before + rows.rows - after, bytes=size)
        assert on is not None
        differing = queries.differing_rows(self._base, layout.columns, rows.name, on)
        with self._connected() as connection:
            (updated,) = connection.execute(queries.count_rows(differing, self._dialect)).fetchone() or (0,)
        return Record(after - before, updated, bytes=size)

    def _matching(self, connection: Connection, rows: StagedTable, keys: Sequence[WrittenColumn]) -> Matching:
        names = [key.name for key in keys]
        nulls = connection.execute(queries.keys_with_null(rows.name, names, self._dialect)).fetchone() or ()
        nullable = frozenset(name for name, count in zip(names, nulls, strict=True) if count)
        loose = frozenset(key.name for key in keys if key.loose)
        # How the two tables are joined depends on what is known of their sizes.
        self.staging.kind.analyze(connection, rows.name)
        self.staging.kind.index_keys(connection, rows.name, keys)
        return Matching(tuple(names), nullable, self._inside(), loose)

    def _inside(self) -> Any:
        """Return the condition of the run's window, as the database has it; None without a window, or without rows."""
        if self.context.window is None or self._existing is None:
            return None
        condition, values = WindowOfTable(self.context.window, self._existing.spark_columns).condition()
        return queries.with_values(condition, values, list(self._existing.columns))

    def _within(self, session: EngineSession, frame: Frame) -> Frame:
        if self.context.window is None:
            return frame
        return WindowOfTable(self.context.window, session.columns(frame)).within(session, frame)

    @property
    def _dialect(self) -> str:
        return self.staging.kind.dialect

    @property
    def _base(self) -> Name | None:
        return self.destination.base

    def _names(self, layout: Layout) -> list[str]:
        return [column.name for column in layout.columns]

    def _connected(self) -> Any:
        return self.staging.database.connect_to_write(self.staging.table)
