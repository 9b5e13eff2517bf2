"""A table, or a view, of PostgreSQL as the database describes it, and the version of its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.product import ENVIRONMENT
from rivet_dagster.errors import RivetError, nearest

_FIND = """
SELECT c.oid, c.relkind::text, n.nspname, c.relname
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_LIST = f"""
SELECT n.nspname, c.relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
AND n.nspname <> 'information_schema' AND n.nspname NOT LIKE 'pg\\_%%' AND c.relname NOT LIKE 'rivet\\_%%'
AND coalesce(obj_description(n.oid, 'pg_namespace'), '') NOT LIKE '{ENVIRONMENT}%%'
AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
ORDER BY 1, 2
"""

VIEW, FOREIGN = "v", "f"


@dataclass(frozen=True)
class PostgresTable:
    """A table by its number in the database; ``kind`` is ``r``, partitioned ``p``, or a view's or foreign table's."""

    number: int
    kind: str
    schema: str
    name: str

    @property
    def parts(self) -> tuple[str, str]:
        """The parts of its name."""
        return self.schema, self.name

    @property
    def has_blocks(self) -> bool:
        """Whether its rows lie in blocks of its own, or of its partitions."""
        return self.kind not in (VIEW, FOREIGN)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


def lookup_table(connection: Connection, name: tuple[str, str]) -> PostgresTable | None:
    """Return the table or view of that schema and name; None if there is none."""
    row = connection.execute(_FIND, name).fetchone()
    return None if row is None else PostgresTable(*row)


def find_table(connection: Connection, name: tuple[str, str]) -> PostgresTable:
    """Return the table or view of that schema and name. Raises RVT-403 if there is none."""
    described = lookup_table(connection, name)
    if described is not None:
        return described
    schema, table = name
    known = [other for of_schema, other in list_tables(connection) if of_schema == schema]
    hint = nearest(table, known) if known else ": its schema has none that this user may read"
    remedy = "Correct the source's `table`, or the catalog's `schema`; letter case matters."
    raise RivetError("RVT-403", f"there is no table or view {schema}.{table}{hint}", remediation=remedy)


def list_tables(connection: Connection) -> list[tuple[str, str]]:
    """Return schema and name of the tables and views that the user may read, in order."""
    return [(schema, name) for schema, name in connection.execute(_LIST)]


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


def data_version(connection: Connection, table: PostgresTable, version_by: str | None) -> str:
    """Return a text that changes when the data of a table changes, or its columns.

    It is the greatest value of the column ``version_by``; without one it is made of the database's own
    counters: these count a second late, also what was rolled back, and begin anew after a crash. So a new text may mean
    no change, and is never proof that there was none. Raises RVT-403 for a view or a foreign table without
    ``version_by``.
    """
    columns = connection.execute(_COLUMNS, {"table": table.number}).fetchone() or ()
    return _joined((*_data_version(connection, table, version_by), *columns))


def _data_version(connection: Connection, table: PostgresTable, version_by: str | None) -> tuple[Any, ...]:
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
