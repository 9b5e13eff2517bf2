"""Replacing a table by another one that takes its name, with the rights of the old one."""

from __future__ import annotations

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT
from rivet_dagster.catalogs.jdbc.published.copying import ATTEMPT
from rivet_dagster.errors import RivetError
from rivet_dagster.sql.database_definitions import drop_column, drop_table, rename_table
from rivet_dagster.sql.database_trees import Name

_OWNER = """
SELECT pg_catalog.pg_get_userbyid(relowner) FROM pg_catalog.pg_class WHERE oid = %s::regclass
"""
_IS_PLAIN = """
SELECT relkind = 'r' AND NOT relhassubclass AND NOT relispartition FROM pg_catalog.pg_class WHERE oid = %s::regclass
"""
_RIGHTS = """
SELECT acl.privilege_type, pg_catalog.pg_get_userbyid(nullif(acl.grantee, 0)), acl.is_grantable
FROM pg_catalog.pg_class c, aclexplode(c.relacl) AS acl
WHERE c.oid = %s::regclass AND acl.grantee <> c.relowner
"""


_INDEXES = """
SELECT i.indisunique::text || substring(pg_catalog.pg_get_indexdef(i.indexrelid) FROM ' USING .*'), c.relname
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = %s::regclass ORDER BY 1, 2
"""


def swap(connection: Connection, target: Name, rows: Name) -> None:
    """Drop ``target``; give its name, its owner, the rights on it and its indexes' names to the table ``rows``.

    Triggers, foreign keys and rules of the old table go. Raises psycopg's DependentObjectsStillExist if a view, or a
    foreign key of another table, needs it; RVT-404 for a table with partitions.
    """
    from psycopg import sql

    new = sql.Identifier(*target)
    text = new.as_string(None)
    owner = (connection.execute(_OWNER, (text,)).fetchone() or ("",))[0]
    (is_plain,) = connection.execute(_IS_PLAIN, (text,)).fetchone() or (False,)
    if not is_plain:
        message = f"{'.'.join(target)} has partitions, or tables that inherit from it: no other table can replace it"
        raise RivetError("RVT-404", message, remediation="Leave `replace_by` out of the `options`.")
    rights = connection.execute(_RIGHTS, (text,)).fetchall()
    indexes = _indexes(connection, text)
    connection.execute(drop_column(rows, ATTEMPT, DIALECT))
    connection.execute(drop_table(target, DIALECT, must_exist=True))
    connection.execute(rename_table(rows, target[1], DIALECT))
    connection.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(new, sql.Identifier(owner)))
    for definition, names in _indexes(connection, text).items():
        for name, before in zip(names, indexes.get(definition, []), strict=False):
            index = sql.Identifier(target[0], name)
            connection.execute(sql.SQL("ALTER INDEX {} RENAME TO {}").format(index, sql.Identifier(before)))
    for right, grantee, is_grantable in rights:
        to = sql.Identifier(grantee) if grantee is not None else sql.SQL("PUBLIC")
        option = sql.SQL(" WITH GRANT OPTION" if is_grantable else "")
        connection.execute(sql.SQL("GRANT {} ON {} TO {}{}").format(sql.SQL(right), new, to, option))


def _indexes(connection: Connection, table: str) -> dict[str, list[str]]:
    """Return the names of a table's indexes by their definition."""
    found: dict[str, list[str]] = {}
    for definition, name in connection.execute(_INDEXES, (table,)):
        found.setdefault(definition, []).append(name)
    return found
