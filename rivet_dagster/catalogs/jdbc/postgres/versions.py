"""The version of a table's data, which tells without reading rows that it has changed."""

from __future__ import annotations

from typing import Any

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.postgres.table import Table
from rivet_dagster.errors import RivetError

_COUNTERS = """
SELECT coalesce(sum(n_tup_ins), 0), coalesce(sum(n_tup_upd), 0), coalesce(sum(n_tup_del), 0),
       string_agg(pg_relation_filenode(s.relid)::text, '.' ORDER BY s.relid)
FROM pg_catalog.pg_stat_all_tables s
WHERE s.relid = %(table)s OR s.relid IN (SELECT relid FROM pg_partition_tree(%(table)s))
"""
_SIZE = "SELECT pg_relation_filenode(%(table)s), pg_relation_size(%(table)s)"
"""Of a materialized view: each refresh gives it another file."""
_COLUMNS = """
SELECT left(md5(string_agg(attname || ' ' || atttypid || ' ' || atttypmod, ',' ORDER BY attnum)), 8)
FROM pg_catalog.pg_attribute WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped
"""

_REMEDY = "Name a column in `options: {version_by: ...}` of the source whose greatest value grows with each change."


def data_version(connection: Connection, table: Table, version_by: str | None) -> str:
    """Return a text that changes when the data of a table changes, or its columns.

    It is the greatest value of the column ``version_by``; without one it is made of the database's own
    counters: these count a second late, also what was rolled back, and begin anew after a crash. So a new text may mean
    no change, and is never proof that there was none. Raises RVT-403 for a view or a foreign table without
    ``version_by``.
    """
    columns = connection.execute(_COLUMNS, {"table": table.number}).fetchone() or ()
    return _joined((*_data_version(connection, table, version_by), *columns))


def _data_version(connection: Connection, table: Table, version_by: str | None) -> tuple[Any, ...]:
    from psycopg import sql

    if version_by is not None:
        query = sql.SQL("SELECT max({column})::text FROM {table}").format(
            column=sql.Identifier(version_by), table=sql.Identifier(*table.parts)
        )
        return connection.execute(query).fetchone() or ()
    if not table.has_blocks:
        message = f"{table} is a view or a foreign table: the database does not count its changes"
        raise RivetError("RVT-403", message, remediation=_REMEDY)
    counted = _SIZE if table.kind == "m" else _COUNTERS
    return connection.execute(counted, {"table": table.number}).fetchone() or ()


def _joined(values: tuple[Any, ...]) -> str:
    return "-".join("" if value is None else str(value) for value in values)
