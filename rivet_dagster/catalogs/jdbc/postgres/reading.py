"""Tables of PostgreSQL as relations that an engine reads, at an exported snapshot or at that of each query.

The rows are shared out among queries by the values of a column, or by the blocks where they lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.options import FETCHED, SourceOptions
from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT, PostgresColumn, read_columns, table_columns
from rivet_dagster.catalogs.jdbc.postgres.connection import PostgresDatabase, is_direct, unlimited_waits
from rivet_dagster.catalogs.jdbc.postgres.table import PostgresTable, data_version, find_table, list_tables
from rivet_dagster.catalogs.jdbc.product import ReadColumn, Reader
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.relations import JdbcTable, Unreadable
from rivet_dagster.sql.database_table import PART, Below, SelectedColumn, is_true, share_conditions, table_query
from rivet_dagster.sql.database_trees import Name

BLOCKS = "ctid"

_HISTOGRAM = """
SELECT histogram_bounds::text::text[] FROM pg_catalog.pg_stats
WHERE schemaname = %s AND tablename = %s AND attname = %s AND histogram_bounds IS NOT NULL
ORDER BY inherited DESC LIMIT 1
"""
_BLOCKS = """
SELECT coalesce(max(pg_relation_size(relid) / current_setting('block_size')::int), 0)::bigint
FROM pg_partition_tree(%(table)s) WHERE isleaf
UNION ALL SELECT (pg_relation_size(%(table)s) / current_setting('block_size')::int)::bigint
ORDER BY 1 DESC LIMIT 1
"""
_STEPS = {
    "whole": "lo + trunc((hi - lo)::numeric * step / {parts})",
    "date": "lo + ((hi - lo)::numeric * step / {parts})::int",
    "time": "lo + (hi - lo) * (step::float8 / {parts})",
}
"""By kind of type, the value at a step between the least and the greatest one."""
_KINDS = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric"), "whole"),
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamptz"), "time"),
}


@dataclass(frozen=True)
class Shares:
    """The column, or ``ctid``, by whose values rows are shared out, and a condition for each query."""

    by: str
    conditions: tuple[str, ...]


def share_rows(
    connection: Connection, table: PostgresTable, columns: list[PostgresColumn], by: str | None, parts: int
) -> Shares | None:
    """Return how to read the rows of a table by at most ``parts`` queries of about equal size; None for one query.

    The bounds are those of the database's own statistics of the column ``by``; without any, steps between its least and
    greatest value, or blocks. Raises RVT-403 for a column that the table has not, or a view without ``by``.
    """
    column = None
    if by is not None:
        column = next((each for each in columns if each.name == by), None)
        if column is None:
            hint = nearest(by, [each.name for each in columns])
            message = f"{table} has no column '{by}', which `partition_by` names{hint}"
            raise RivetError("RVT-403", message, remediation="Correct `partition_by` of the source's `options`.")
    if parts == 1:
        return None
    if column is not None:
        bounds = _bounds(connection, table, column, parts)
        if bounds is not None:
            return Shares(column.name, share_conditions(bounds, column.type, DIALECT)) if bounds else None
    if not table.has_blocks:
        message = f"{table} has no blocks by which its rows could be shared out among {parts} queries"
        remedy = "Name a number, a date or a time in `partition_by`, or leave `partitions` out."
        raise RivetError("RVT-403", message, remediation=remedy)
    return _by_blocks(connection, table, parts)


def _bounds(connection: Connection, table: PostgresTable, column: PostgresColumn, parts: int) -> list[str] | None:
    """Return the values between the parts as texts, fewer where they repeat; None if nothing is known about them."""
    row = connection.execute(_HISTOGRAM, (table.schema, table.name, column.name)).fetchone()
    if row is not None:
        histogram: list[str] = row[0]
        return quantile(histogram, parts)
    kind = _KINDS.get(column.base)
    return None if kind is None else _steps(connection, table, column, kind, parts)


def quantile(histogram: list[str], parts: int) -> list[str]:
    """Return the values of a histogram of equal frequencies that lie between the parts, fewer where they repeat.

    >>> quantile(["0", "10", "20", "30", "40"], 4), quantile(["0", "9"], 3)
    (['10', '20', '30'], ['9'])
    """
    last = len(histogram) - 1
    values = dict.fromkeys(histogram[round(last * part / parts)] for part in range(1, parts))
    return [value for value in values if value != histogram[0]]


def _steps(connection: Connection, table: PostgresTable, column: PostgresColumn, kind: str, parts: int) -> list[str]:
    from psycopg import sql

    finite = sql.SQL(" WHERE isfinite({})").format(sql.Identifier(column.name)) if kind != "whole" else sql.SQL("")
    query = sql.SQL(
        "SELECT value::text AS bound FROM (SELECT DISTINCT lo, " + _STEPS[kind].format(parts=parts) + " AS value "
        "FROM (SELECT min({column}) AS lo, max({column}) AS hi FROM {table}{finite}) AS found, "
        "generate_series(1, {last}) AS step) AS stepped WHERE value > lo ORDER BY value"
    ).format(
        column=sql.Identifier(column.name),
        table=sql.Identifier(*table.parts),
        finite=finite,
        last=sql.Literal(parts - 1),
    )
    return [value for (value,) in connection.execute(query)]


def _by_blocks(connection: Connection, table: PostgresTable, parts: int) -> Shares | None:
    (blocks,) = connection.execute(_BLOCKS, {"table": table.number}).fetchone() or (0,)
    firsts = sorted({blocks * part // parts for part in range(1, parts)} - {0})
    if not firsts:
        return None
    return Shares(BLOCKS, share_conditions([f"({first},0)" for first in firsts], "tid", DIALECT))


PACKAGE = "org.postgresql:postgresql:42.7.14"
DRIVER = "org.postgresql.Driver"

_SETTINGS = "SET LOCAL TimeZone = 'UTC'; SET LOCAL IntervalStyle = 'iso_8601'; "
"""Settings of each reader: the text of a range of times, and of an interval, depends on them."""
_AT_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{}'; "
_TIME = "Name a column of the type timestamptz that each transaction sets to now(), or a later time, in `changed_at`."


class PostgresReader(Reader):
    """Reads the tables of a database, by the names that ``resolve`` returns for those of sources and targets.

    ``driver`` is the class of the JDBC driver.
    """

    def __init__(self, database: PostgresDatabase, resolve: Callable[[str], Name], driver: str) -> None:
        self.database = database
        self.resolve = resolve
        self.driver = driver
        self._is_direct: bool | None = None

    def columns(self, table: str, options: Mapping[str, Any]) -> tuple[Mapping[str, str | None], dict[str, Unreadable]]:
        """Return Spark's types of the columns that can be read, and the others. Raises RVT-403."""
        with self.database.connect(f"the table {table}") as connection:
            described = find_table(connection, self.resolve(table))
            _, readable, unreadable = read_table(connection, described, SourceOptions.of(options))
        return {column.selected.name: column.spark_type for column in readable}, unreadable

    def table(self, connection: Connection, table: str, options: Mapping[str, Any]) -> JdbcTable:
        """Return the relation of a table, read by one query. Raises RVT-204, RVT-403."""
        return self.relation(connection, table, options)

    def data_version(self, connection: Connection, name: Name, version_by: str | None) -> str:
        """Return a text that changes when the data of a table changes, or its columns. Raises RVT-403."""
        return data_version(connection, find_table(connection, name), version_by)

    def tables(self, connection: Connection) -> list[tuple[str, str]]:
        """Return schema and name of the tables and views that the user may read, in order."""
        return list_tables(connection)

    def relation(
        self,
        connection: Connection,
        table: str,
        options: Mapping[str, Any],
        snapshot: str | None = None,
        parts: int = 1,
        before: str | None = None,
    ) -> JdbcTable:
        """Return the relation of a table, read by at most ``parts`` queries at an exported ``snapshot``.

        Without a snapshot each query has its own. Rows that were changed at the time ``before`` or later are left out.
        Raises RVT-204, RVT-403.
        """
        source = SourceOptions.of(options)
        described = find_table(connection, self.resolve(table))
        columns, readable, unreadable = read_table(connection, described, source)
        shares = share_rows(connection, described, columns, source.partition_by, min(source.partitions, parts))
        by = shares or _ONE
        selected = [column.selected for column in readable]
        below = None
        if before is not None and source.changed_at is not None:
            below = Below(source.changed_at, before, _of_time(described, columns, source.changed_at))
        query = table_query(described.parts, selected, DIALECT, by.by or None, below)
        native = table_query(described.parts, _native_columns(columns, source.casts), DIALECT, below=below)
        return self._relation(connection, query, by, source.fetch_size, unreadable, native, snapshot)

    def current_rows(self, connection: Connection, name: Name, check: str, otherwise: str) -> JdbcTable:
        """Return the relation of a table's rows, as long as the one value of the query ``check`` is true.

        Afterwards reading raises an error with the text ``otherwise``. Raises RVT-403.
        """
        described = find_table(connection, name)
        columns, readable, unreadable = read_table(connection, described, SourceOptions())
        guard = is_true(check, otherwise, "boolean", DIALECT)
        query = table_query(described.parts, [column.selected for column in readable], DIALECT, only_if=guard)
        native = table_query(described.parts, _native_columns(columns), DIALECT, only_if=guard.copy())
        return self._relation(connection, query, _ONE, FETCHED, unreadable, native)

    def staged_rows(
        self, connection: Connection, name: Name, without: str, query: str | None = None, parts: int = 1
    ) -> JdbcTable:
        """Return the relation of the rows of a table, in at most ``parts`` parts, but for the column ``without``.

        Of a ``query`` with these columns instead, if there is one. The rows must not change. Raises RVT-403.
        """
        described = find_table(connection, name)
        columns, readable, unreadable = read_table(connection, described, SourceOptions())
        selected = [column.selected for column in readable if column.selected.name != without]
        staged = [column for column in columns if column.name != without]
        shares = share_rows(connection, described, [], None, parts) if query is None and parts > 1 else None
        by = shares or _ONE
        source = described.parts if query is None else query
        rows = table_query(source, selected, DIALECT, by.by or None)
        native = table_query(source, _native_columns(staged), DIALECT)
        return self._relation(connection, rows, by, FETCHED, unreadable, native)

    def _relation(
        self,
        connection: Connection,
        query: str,
        shares: Shares,
        fetch_size: int,
        unreadable: Mapping[str, Unreadable],
        native_rows: str,
        snapshot: str | None = None,
    ) -> JdbcTable:
        if self._is_direct is None:
            self._is_direct = is_direct(connection)
        at_snapshot = _AT_SNAPSHOT.format(snapshot) if snapshot is not None else ""
        return JdbcTable(
            self.database.reading_url(in_binary=self._is_direct),
            query,
            {
                **self.database.properties,
                "driver": self.driver,
                "fetchsize": str(fetch_size),
                "preferTimestampNTZ": "true",
            },
            before_reading=at_snapshot + _SETTINGS + unlimited_waits(connection),
            conditions=shares.conditions,
            hidden=(PART,) if shares.by else (),
            takes_limit=True,
            unreadable=unreadable,
            is_in_utc=True,
            native_rows=native_rows,
            snapshot=snapshot,
        )


_ONE = Shares("", ())
"""One query for all rows."""

_NO_CASTS: Mapping[str, str] = {}


def _native_columns(columns: Sequence[PostgresColumn], casts: Mapping[str, str] = _NO_CASTS) -> list[SelectedColumn]:
    """Return columns as the database has them, but for those that a source has cast."""
    return [SelectedColumn(column.name, column.type, casts.get(column.name)) for column in columns]


def read_table(
    connection: Connection, table: PostgresTable, source: SourceOptions
) -> tuple[list[PostgresColumn], list[ReadColumn], dict[str, Unreadable]]:
    """Return the columns of a table, how those are read that can be, and why the others cannot. Raises RVT-403."""
    columns = table_columns(connection, table.number)
    digits = _money_digits(connection) if any(column.base == "money" for column in columns) else 0
    return (columns, *read_columns(columns, source.casts, str(table), digits))


def _of_time(table: PostgresTable, columns: list[PostgresColumn], name: str) -> str:
    """Return the type of the column in which each transaction puts its time. Raises RVT-403 if it can have none."""
    column = next((each for each in columns if each.name == name), None)
    if column is None:
        hint = nearest(name, [each.name for each in columns])
        raise RivetError(
            "RVT-403", f"{table} has no column '{name}', which `changed_at` names{hint}", remediation=_TIME
        )
    if column.base != "timestamptz":
        message = f"the column '{name}' of {table}, which `changed_at` names, is of the type {column.type}"
        raise RivetError("RVT-403", message, remediation=_TIME)
    return column.type


def _money_digits(connection: Connection) -> int:
    (digits,) = connection.execute("SELECT scale(0::money::numeric)").fetchone() or (2,)
    return int(digits)
