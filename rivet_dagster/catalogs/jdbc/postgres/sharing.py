"""How the rows of a table are shared out among queries: by the values of a column, or by the blocks where they lie."""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT, Column
from rivet_dagster.catalogs.jdbc.postgres.table import Table
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.sql.database_table import share_conditions

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
    connection: Connection, table: Table, columns: list[Column], by: str | None, parts: int
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


def _bounds(connection: Connection, table: Table, column: Column, parts: int) -> list[str] | None:
    """Return the values between the parts as texts, fewer where they repeat; None if nothing is known about them."""
    found = connection.execute(_HISTOGRAM, (table.schema, table.name, column.name)).fetchone()
    if found is not None:
        histogram: list[str] = found[0]
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


def _steps(connection: Connection, table: Table, column: Column, kind: str, parts: int) -> list[str]:
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


def _by_blocks(connection: Connection, table: Table, parts: int) -> Shares | None:
    (blocks,) = connection.execute(_BLOCKS, {"table": table.number}).fetchone() or (0,)
    firsts = sorted({blocks * part // parts for part in range(1, parts)} - {0})
    if not firsts:
        return None
    return Shares(BLOCKS, share_conditions([f"({first},0)" for first in firsts], "tid", DIALECT))
