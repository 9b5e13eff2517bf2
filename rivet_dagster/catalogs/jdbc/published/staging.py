"""Tables of staged rows, into which an engine copies the rows of a version before they are published."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.jdbc.database import Connection, Database
from rivet_dagster.catalogs.jdbc.product import DatabaseKind, Reader, TargetTable
from rivet_dagster.catalogs.jdbc.published.copying import ATTEMPT, Refusal, Result
from rivet_dagster.catalogs.jdbc.published.layout import layout_of
from rivet_dagster.catalogs.jdbc.published.records import OURS, Records
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import JdbcTable
from rivet_dagster.model.storage import ColumnStatistics, Statistics, StoredRows
from rivet_dagster.sql.database_definitions import (
    add_column,
    create_table,
    create_table_like,
    create_table_of,
    quote_table,
)
from rivet_dagster.sql.database_queries import count_of
from rivet_dagster.sql.database_trees import Name, WrittenColumn
from rivet_dagster.sql.database_writes import delete_others
from rivet_dagster.sql.write_strategies.trees import Columns


@dataclass(frozen=True)
class StagedTable:
    """A table of staged rows, with Spark's types of its columns and what is known of their values."""

    name: Name
    rows: int
    columns: Columns
    values: Mapping[str, ColumnStatistics]


@dataclass(frozen=True)
class Staging:
    """The staging of the rows of ``version`` of ``table``, in the schema ``schema``."""

    database: Database
    kind: DatabaseKind
    reader: Reader
    records: Records
    table: str
    version: str
    schema: str
    connections: int

    def name(self, of: str) -> Name:
        """Return the name of the version's table of some kind of rows."""
        return self.schema, f"{OURS}{self.version}_{of}"

    def copy(
        self,
        of: str,
        session: EngineSession,
        frame: Frame,
        columns: Columns,
        written: tuple[WrittenColumn, ...],
        context: WriteContext,
        like: TargetTable | None = None,
    ) -> StagedTable:
        """Compute ``frame`` once, and copy its rows, which have ``columns``, to a new table of the ``written`` ones.

        With ``like`` it is a table that can take the place of that one. Each task of the engine copies by itself; the
        rows of tasks that do not count are removed. An engine that runs its queries in this database adds the rows by
        one statement. Raises RVT-404, RVT-406, RVT-510, RVT-527.
        """
        name = self.name(of)
        with self.database.connect_to_write(self.table) as connection:
            self._create(connection, name, columns, written, like)
        if session.runs_in(self.database.url):
            return self._inserted(name, session, frame, columns, context)
        results = self._copied(name, session, frame, written, context)
        refused = next((error for *_, error in results if error is not None), None)
        if refused is not None:
            raise self._refused(refused, context.shows_values)
        rows = sum(count for _, count, *_ in results)
        with self.database.connect_to_write(self.table) as connection:
            self.records.close_staged(connection, name)
            self._keep(connection, name, rows, [attempt for attempt, *_ in results])
        return StagedTable(name, rows, columns, _values([bounds for _, _, bounds, _ in results]))

    def without_rows(self, of: str, columns: Columns, written: tuple[WrittenColumn, ...]) -> StagedTable:
        """Make a table without rows. Raises RVT-404, RVT-510."""
        name = self.name(of)
        with self.database.connect_to_write(self.table) as connection:
            self._create(connection, name, columns, written)
        return StagedTable(name, 0, columns, {})

    def derive(self, connection: Connection, of: str, query: str, staged: StagedTable) -> StagedTable:
        """Make a table of the rows of a query of the database, which have the columns of ``staged``."""
        name = self.name(of)
        self.records.add_staged(connection, name, self.version)
        connection.execute(create_table_of(name, query, self.kind.dialect, self.kind.has_unlogged_tables))
        (rows,) = connection.execute(count_of(name, self.kind.dialect)).fetchone() or (0,)
        return StagedTable(name, rows, staged.columns, {})

    def stored(self, connection: Connection, staged: StagedTable) -> StoredRows:
        """Return the rows of a table, which engines read in several parts."""
        parts = max(1, self.connections - 1)
        relation = self.reader.staged_rows(connection, staged.name, ATTEMPT, parts=parts)
        return StoredRows(relation, self.statistics(connection, staged))

    def statistics(self, connection: Connection, staged: StagedTable) -> Statistics:
        """Return the statistics of a table."""
        size = self.kind.bytes_of(connection, staged.name)
        return Statistics(staged.rows, size, tuple(staged.columns), staged.values)

    def _create(
        self,
        connection: Connection,
        name: Name,
        columns: Columns,
        written: tuple[WrittenColumn, ...],
        like: TargetTable | None = None,
    ) -> None:
        self.records.add_staged(connection, name, self.version)
        if like is None:
            declared = [(ATTEMPT, "bigint"), *((column.name, column.type) for column in written)]
            connection.execute(create_table(name, declared, self.kind.dialect, self.kind.has_unlogged_tables))
            return
        # With the indexes, defaults and constraints of the table whose place it takes.
        connection.execute(create_table_like(name, like.name, self.kind.dialect))
        for change in layout_of(self.kind, name, like, columns, replaces=True).changes:
            connection.execute(change)
        connection.execute(add_column(name, ATTEMPT, "bigint", self.kind.dialect))

    def _copied(
        self,
        name: Name,
        session: EngineSession,
        frame: Frame,
        written: tuple[WrittenColumn, ...],
        context: WriteContext,
    ) -> list[Result]:
        names = [column.name for column in written]
        task = self.kind.copy_task(self.database, name, names, self.records.is_open(name))
        with self.database.translate_write_errors(self.table):  # of an engine whose tasks are in this process
            results = session.run_tasks(frame, task, max(1, self.connections - 1), context.progress)
        return [pickle.loads(result) for result in results]

    def _inserted(
        self, name: Name, session: EngineSession, frame: Frame, columns: Columns, context: WriteContext
    ) -> StagedTable:
        """Have the engine add the rows within the database, and count them."""
        session.write(frame, JdbcTable(self.database.url, quote_table(name, self.kind.dialect)), context.progress)
        with self.database.connect_to_write(self.table) as connection:
            self.records.close_staged(connection, name)
            (rows,) = connection.execute(count_of(name, self.kind.dialect)).fetchone() or (0,)
        return StagedTable(name, rows, columns, {})

    def _keep(self, connection: Connection, name: Name, rows: int, attempts: list[int]) -> None:
        """Remove the rows of all other attempts. Raises RVT-407 if some are missing."""
        dialect = self.kind.dialect
        (counted,) = connection.execute(count_of(name, dialect)).fetchone() or (0,)
        if counted != rows:
            counted -= connection.execute(delete_others(name, ATTEMPT, attempts, dialect)).rowcount
        if counted != rows:
            message = f"{rows} rows of '{self.table}' were staged, and {counted} are there"
            raise RivetError("RVT-407", message, remediation="Run it again.")

    def _refused(self, error: Refusal, shows_values: bool) -> RivetError:
        state, message, column = error
        if self.kind.is_gone(state):  # the table is gone: a sweep has taken the run for dead
            return RivetError("RVT-406", f"the staged rows of '{self.table}' have been swept away")
        if not self.kind.is_about_row(state):
            return RivetError("RVT-404", f"the database refuses the rows of '{self.table}': {message}")
        what = message if shows_values or not self.kind.shows_values(state) else "a value does not fit"
        where = f"the column '{column}' of " if column else ""
        text = f"the database does not take a row of {where}'{self.table}': {what}"
        return RivetError("RVT-527", text)


def _values(bounds: list[dict[str, tuple[int, Any, Any]]]) -> dict[str, ColumnStatistics]:
    """Return the statistics of the columns by name in lower case, of all tasks together."""
    together: dict[str, list[tuple[int, Any, Any]]] = {}
    for of_task in bounds:
        for column, statistics in of_task.items():
            together.setdefault(column.lower(), []).append(statistics)
    columns = {}
    for column, parts in together.items():
        least, greatest = ([part[index] for part in parts if part[index] is not None] for index in (1, 2))
        nulls = sum(part[0] for part in parts)
        columns[column] = ColumnStatistics(nulls, min(least, default=None), max(greatest, default=None))
    return columns
