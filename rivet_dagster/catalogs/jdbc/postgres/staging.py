"""Tables of staged rows, into which an engine copies the rows of a version before they are published."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT
from rivet_dagster.catalogs.jdbc.postgres.connection import WRITER, Database
from rivet_dagster.catalogs.jdbc.postgres.copying import ATTEMPT, Result, copy_rows
from rivet_dagster.catalogs.jdbc.postgres.reading import Reader
from rivet_dagster.catalogs.jdbc.postgres.records import OURS, Records
from rivet_dagster.catalogs.jdbc.postgres.target import Layout, TargetTable, layout_of
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import ColumnStatistics, Statistics, StoredRows
from rivet_dagster.sql.database_definitions import add_column, create_table, create_table_like, create_table_of
from rivet_dagster.sql.database_writes import Name, WrittenColumn, count_of, insert_query
from rivet_dagster.sql.write_strategies.trees import Columns

if TYPE_CHECKING:
    import psycopg


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
        rows of tasks that do not count are removed. Raises RVT-404, RVT-406, RVT-510, RVT-527.
        """
        name = self.name(of)
        with self.database.connect_to_write(self.table) as connection:
            self._create(connection, name, columns, written, like)
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

    def derive(
        self,
        connection: psycopg.Connection[Any],
        of: str,
        query: str,
        staged: StagedTable,
        like: TargetTable | None = None,
    ) -> StagedTable:
        """Make a table of the rows of a query of the database, which have the columns of ``staged``, and ATTEMPT."""
        name = self.name(of)
        self.records.add_staged(connection, name, self.version)
        if like is None:
            connection.execute(create_table_of(name, query, DIALECT))
        else:
            layout = self._create_like(connection, name, staged.columns, like)
            connection.execute(insert_query(name, [column.name for column in layout.columns], query, DIALECT))
        (rows,) = connection.execute(count_of(name, DIALECT)).fetchone() or (0,)
        return StagedTable(name, rows, staged.columns, {})

    def stored(self, connection: psycopg.Connection[Any], staged: StagedTable) -> StoredRows:
        """Return the rows of a table, which engines read in several parts."""
        parts = max(1, self.connections - 1)
        relation = self.reader.staged_rows(connection, staged.name, ATTEMPT, parts=parts)
        return StoredRows(relation, self.statistics(connection, staged))

    def statistics(self, connection: psycopg.Connection[Any], staged: StagedTable) -> Statistics:
        """Return the statistics of a table."""
        (size,) = connection.execute("SELECT pg_table_size(%s::regclass)", (_quoted(staged.name),)).fetchone() or (0,)
        return Statistics(staged.rows, size, tuple(staged.columns), staged.values)

    def _create(
        self,
        connection: psycopg.Connection[Any],
        name: Name,
        columns: Columns,
        written: tuple[WrittenColumn, ...],
        like: TargetTable | None = None,
    ) -> None:
        self.records.add_staged(connection, name, self.version)
        if like is None:
            declared = [(ATTEMPT, "bigint"), *((column.name, column.type) for column in written)]
            connection.execute(create_table(name, declared, DIALECT, unlogged=True))
            return
        self._create_like(connection, name, columns, like)
        connection.execute(add_column(name, ATTEMPT, "bigint", DIALECT))

    def _create_like(
        self, connection: psycopg.Connection[Any], name: Name, columns: Columns, like: TargetTable
    ) -> Layout:
        """Make a table with the indexes, defaults and constraints of another one, and with these columns."""
        connection.execute(create_table_like(name, like.table.parts, DIALECT))
        layout = layout_of(name, like, columns, replaces=True)
        for change in layout.changes:
            connection.execute(change)
        return layout

    def _copied(
        self,
        name: Name,
        session: EngineSession,
        frame: Frame,
        written: tuple[WrittenColumn, ...],
        context: WriteContext,
    ) -> list[Result]:
        login = {**self.database.arguments, "application_name": WRITER}
        copy = _copy_statement(name, [ATTEMPT, *(column.name for column in written)])
        task = partial(copy_rows, login, copy, self.records.is_open(name))
        with self.database.translate_write_errors(self.table):  # of an engine whose tasks are in this process
            results = session.run_tasks(frame, task, max(1, self.connections - 1), context.progress)
        return [pickle.loads(result) for result in results]

    def _keep(self, connection: psycopg.Connection[Any], name: Name, rows: int, attempts: list[int]) -> None:
        """Remove the rows of all other attempts. Raises RVT-407 if some are missing."""
        from psycopg import sql

        table = sql.Identifier(*name)
        (found,) = connection.execute(count_of(name, DIALECT)).fetchone() or (0,)
        if found != rows:
            query = sql.SQL("DELETE FROM {} WHERE {} <> ALL (%s)").format(table, sql.Identifier(ATTEMPT))
            found -= connection.execute(query, (attempts,)).rowcount
        if found != rows:
            message = f"{rows} rows of '{self.table}' were staged, and {found} are there"
            raise RivetError("RVT-407", message, remediation="Run it again.")
        connection.execute(sql.SQL("ANALYZE {}").format(table))

    def _refused(self, error: tuple[str, str, str], shows_values: bool) -> RivetError:
        state, message, column = error
        if state == "42P01":  # the table is gone: a sweep has taken the run for dead
            return RivetError("RVT-406", f"the staged rows of '{self.table}' have been swept away")
        if not state.startswith(("22", "23")):
            return RivetError("RVT-404", f"the database refuses the rows of '{self.table}': {message}")
        what = message if shows_values or not state.startswith("22") else "a value does not fit"
        where = f"the column '{column}' of " if column else ""
        text = f"the database does not take a row of {where}'{self.table}': {what}"
        return RivetError("RVT-527", text)


def _copy_statement(name: Name, columns: list[str]) -> str:
    from psycopg import sql

    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(*name), names).as_string(None)


def _quoted(name: Name) -> str:
    from psycopg import sql

    return sql.Identifier(*name).as_string(None)


def _values(bounds: list[dict[str, tuple[int, Any, Any]]]) -> dict[str, ColumnStatistics]:
    """Return the statistics of the columns by name in lower case, of all tasks together."""
    together: dict[str, list[tuple[int, Any, Any]]] = {}
    for of_task in bounds:
        for column, told in of_task.items():
            together.setdefault(column.lower(), []).append(told)
    found = {}
    for column, parts in together.items():
        least, greatest = ([part[place] for part in parts if part[place] is not None] for place in (1, 2))
        nulls = sum(part[0] for part in parts)
        found[column] = ColumnStatistics(nulls, min(least, default=None), max(greatest, default=None))
    return found
