"""A table, or a view, of PostgreSQL as the database describes it."""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.published.kind import ENVIRONMENT
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
class Table:
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


def lookup_table(connection: Connection, name: tuple[str, str]) -> Table | None:
    """Return the table or view of that schema and name; None if there is none."""
    row = connection.execute(_FIND, name).fetchone()
    return None if row is None else Table(*row)


def find_table(connection: Connection, name: tuple[str, str]) -> Table:
    """Return the table or view of that schema and name. Raises RVT-403 if there is none."""
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
