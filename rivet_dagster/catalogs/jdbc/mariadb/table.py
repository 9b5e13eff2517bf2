"""The tables and views of MariaDB as the database lists them."""

from __future__ import annotations

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.published.kind import ENVIRONMENT
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.sql.database_trees import Name

VIEW = "VIEW"

_FIND = "SELECT table_type FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
_LIST = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN "
    "('information_schema', 'performance_schema', 'mysql', 'sys') AND left(table_name, 6) <> 'rivet_' AND table_schema "
    "NOT IN (SELECT schema_name FROM information_schema.schemata "
    f"WHERE left(schema_comment, {len(ENVIRONMENT)}) = '{ENVIRONMENT}') ORDER BY 1, 2"
)


def lookup_table(connection: Connection, name: Name) -> str | None:
    """Return what the table or view of that schema and name is, as ``BASE TABLE``; None if there is none."""
    row = connection.execute(_FIND, name).fetchone()
    return None if row is None else str(row[0])


def find_table(connection: Connection, name: Name) -> str:
    """Return what the table or view of that schema and name is. Raises RVT-403 if there is none."""
    found = lookup_table(connection, name)
    if found is not None:
        return found
    schema, table = name
    known = [other for of_schema, other in list_tables(connection) if of_schema == schema]
    hint = nearest(table, known) if known else ": its schema has none that this user may read"
    remedy = "Correct the source's `table`, or the catalog's `schema`; letter case matters."
    raise RivetError("RVT-403", f"there is no table or view {schema}.{table}{hint}", remediation=remedy)


def list_tables(connection: Connection) -> list[tuple[str, str]]:
    """Return schema and name of the tables and views that the user may read, in order."""
    return [(schema, name) for schema, name in connection.execute(_LIST)]
