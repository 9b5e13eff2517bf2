"""PostgreSQL as a database in which tables are published: what a target is, how one is replaced, and its statements."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from rivet_dagster.catalogs.jdbc.database import LOCK_SECONDS, WRITER, Connection, Database
from rivet_dagster.catalogs.jdbc.options import SourceOptions
from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT, PostgresColumn
from rivet_dagster.catalogs.jdbc.postgres.copying import copy_lines
from rivet_dagster.catalogs.jdbc.postgres.reading import read_table
from rivet_dagster.catalogs.jdbc.postgres.table import lookup_table
from rivet_dagster.catalogs.jdbc.product import (
    DatabaseKind,
    RecordTexts,
    TargetColumn,
    TargetTable,
    Task,
    nothing_is_published_to,
)
from rivet_dagster.catalogs.jdbc.published.copying import ATTEMPT, copy_rows
from rivet_dagster.errors import RivetError
from rivet_dagster.sql.database_definitions import (
    drop_column,
    drop_table,
    quote_name,
    quote_text,
    rename_table,
    set_logged,
)
from rivet_dagster.sql.database_trees import Name, WrittenColumn

_TYPES = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
"""Types of new columns, by Spark's names."""

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_CHARACTERS = re.compile(r"(?:var)?char\((\d+)\)")
_ARRAY = re.compile(r"array<(.+)>")

_WITHOUT_EQUALITY = frozenset("json xml point line lseg box path polygon circle".split())
_TEXTS = frozenset({"text", "varchar", "bpchar", "name"})
_FILLED = """
SELECT attname FROM pg_catalog.pg_attribute
WHERE attrelid = %(table)s AND attnum > 0 AND NOT attisdropped AND (attidentity <> '' OR attgenerated <> '')
"""
_UNIQUE = """
SELECT array_agg(a.attname::text ORDER BY k.place)
FROM pg_catalog.pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k(number, place)
LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE i.indrelid = %(table)s AND i.indisunique AND i.indimmediate AND i.indisvalid
AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
GROUP BY i.indexrelid
"""


def describe_target(connection: Connection, name: Name) -> TargetTable | None:
    """Return the table; None if there is none. Raises RVT-404 for a view, and what else has no rows of its own."""
    table = lookup_table(connection, name)
    if table is None:
        return None
    if table.kind not in ("r", "p"):
        raise nothing_is_published_to(table)
    columns, readable, unreadable = read_table(connection, table, SourceOptions())
    types = {column.selected.name: column.spark_type for column in readable}
    filled = {row[0] for row in connection.execute(_FILLED, {"table": table.number})}
    known = {
        column.name: TargetColumn(_written_column(column), types.get(column.name), unreadable.get(column.name))
        for column in columns
        if column.name not in filled
    }
    # Of a table with partitions the database does not tell which rows an upsert has inserted.
    plain = table.kind == "r"
    unique = [row[0] for row in connection.execute(_UNIQUE, {"table": table.number})] if plain else []
    return TargetTable(table.parts, known, frozenset(frozenset(names) for names in unique))


def database_type(spark_type: str) -> str | None:
    """Return the type of a new column; None for a type of Spark that the database has not.

    >>> database_type("decimal(10,2)"), database_type("array<int>"), database_type("map<string,int>")
    ('numeric(10,2)', 'integer[]', None)
    """
    if (digits := _DECIMAL.fullmatch(spark_type)) is not None:
        return f"numeric({digits[1]},{digits[2]})"
    if _CHARACTERS.fullmatch(spark_type):
        return "text"
    if (array := _ARRAY.fullmatch(spark_type)) is not None:
        element = None if array[1].startswith(("array", "date", "time", "binary")) else database_type(array[1])
        return None if element is None else f"{element}[]"
    return _TYPES.get(spark_type)


def _written_column(declared: PostgresColumn) -> WrittenColumn:
    base = declared.element or declared.base
    by_bytes = declared.base in _TEXTS
    return WrittenColumn(declared.name, declared.type, declared.type, base in _WITHOUT_EQUALITY, by_bytes)


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


_INDEX_NAMES = """
SELECT i.indisunique::text || substring(pg_catalog.pg_get_indexdef(i.indexrelid) FROM ' USING .*'), c.relname
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
WHERE i.indrelid = %s::regclass ORDER BY 1, 2
"""


def swap_tables(connection: Connection, target: Name, rows: Name) -> None:
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
    indexes = _index_names(connection, text)
    connection.execute(drop_column(rows, ATTEMPT, DIALECT))
    connection.execute(drop_table(target, DIALECT, must_exist=True))
    connection.execute(rename_table(rows, target[1], DIALECT))
    connection.execute(sql.SQL("ALTER TABLE {} OWNER TO {}").format(new, sql.Identifier(owner)))
    for definition, names in _index_names(connection, text).items():
        for name, before in zip(names, indexes.get(definition, []), strict=False):
            index = sql.Identifier(target[0], name)
            connection.execute(sql.SQL("ALTER INDEX {} RENAME TO {}").format(index, sql.Identifier(before)))
    for right, grantee, is_grantable in rights:
        to = sql.Identifier(grantee) if grantee is not None else sql.SQL("PUBLIC")
        option = sql.SQL(" WITH GRANT OPTION" if is_grantable else "")
        connection.execute(sql.SQL("GRANT {} ON {} TO {}{}").format(sql.SQL(right), new, to, option))


def _index_names(connection: Connection, table: str) -> dict[str, list[str]]:
    """Return the names of a table's indexes by their definition."""
    names_by_definition: dict[str, list[str]] = {}
    for definition, name in connection.execute(_INDEX_NAMES, (table,)):
        names_by_definition.setdefault(definition, []).append(name)
    return names_by_definition


_LIMIT = f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"
_RECORDS = RecordTexts(
    create=(
        "SELECT pg_advisory_xact_lock(7474205318)",  # two at once would both make them, and one fail
        "CREATE SCHEMA IF NOT EXISTS {schema}",
        "CREATE TABLE IF NOT EXISTS {schema}.rivet_versions (version text PRIMARY KEY, table_name text NOT NULL, "
        "state text NOT NULL, number bigint, upon text, identity text NOT NULL DEFAULT '', "
        "made_by text NOT NULL DEFAULT '', published_at timestamptz, manifest jsonb, write jsonb, errors text, "
        "watermark jsonb, built_upon text, UNIQUE (table_name, number))",
        "CREATE TABLE IF NOT EXISTS {schema}.rivet_staged (table_schema text, table_name text, version text NOT NULL, "
        "is_open boolean NOT NULL DEFAULT true, PRIMARY KEY (table_schema, table_name))",
        # Most versions are published ones, of which a run looks at those of its own table alone.
        "CREATE INDEX IF NOT EXISTS rivet_versions_state ON {schema}.rivet_versions (state)",
        "CREATE INDEX IF NOT EXISTS rivet_versions_errors ON {schema}.rivet_versions (errors)",
        "CREATE INDEX IF NOT EXISTS rivet_versions_age ON {schema}.rivet_versions (table_name, published_at)",
        "CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.rivet_heartbeats (version text PRIMARY KEY, "
        "sent timestamptz NOT NULL)",
    ),
    create_environments="CREATE TABLE IF NOT EXISTS {table} (name text PRIMARY KEY, profile text NOT NULL, "
    "created_at timestamptz NOT NULL, used_at timestamptz NOT NULL, state text NOT NULL)",
    exists="SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname IN ('rivet_versions', 'rivet_staged', 'rivet_heartbeats')",
    now="clock_timestamp()",
    share="FOR SHARE",
)
_COMMENT = "SELECT coalesce(obj_description(oid, 'pg_namespace'), '') FROM pg_catalog.pg_namespace WHERE nspname = %s"


class PostgresKind(DatabaseKind):
    """PostgreSQL: tables change in transactions, and executors COPY rows into unlogged tables."""

    dialect: ClassVar[str] = DIALECT
    records: ClassVar[RecordTexts] = _RECORDS
    changes_tables_in_transactions: ClassVar[bool] = True
    has_unlogged_tables: ClassVar[bool] = True
    upserts: ClassVar[bool] = True
    longest_name: ClassVar[int] = 63

    def has_table(self, connection: Any, name: Name) -> bool:
        """Return whether there is a table or view of that name."""
        return lookup_table(connection, name) is not None

    def find_target(self, connection: Any, name: Name) -> TargetTable | None:
        """Return the table; None if there is none. Raises RVT-404 for a view."""
        return describe_target(connection, name)

    def type_of(self, spark_type: str) -> str | None:
        """Return the type of a new column."""
        return database_type(spark_type)

    def new_column(self, name: str, type_: str, before: str | None) -> WrittenColumn:
        """Return a new column."""
        return WrittenColumn(name, type_, before, by_bytes=type_ == "text")

    def copy_task(self, database: Database, name: Name, columns: Sequence[str], fence: str) -> Task:
        """Return the task that copies rows by COPY."""
        login = {**database.arguments, "application_name": WRITER}
        return partial(copy_rows, partial(copy_lines, login, _copy_statement(name, [ATTEMPT, *columns]), fence))

    def is_gone(self, state: str) -> bool:
        """Return whether it is undefined_table."""
        return state == "42P01"

    def is_about_row(self, state: str) -> bool:
        """Return whether it is a data exception, or the violation of a constraint."""
        return state.startswith(("22", "23"))

    def shows_values(self, state: str) -> bool:
        """Return whether it is a data exception."""
        return state.startswith("22")

    def analyze(self, connection: Any, name: Name) -> None:
        """ANALYZE the table."""
        connection.execute(f"ANALYZE {_quoted(name)}")

    def index_keys(self, connection: Any, name: Name, keys: Sequence[WrittenColumn]) -> None:
        """Do nothing: the database hashes the keys."""

    def bytes_of(self, connection: Any, name: Name) -> int:
        """Return the size of the table without its indexes."""
        (size,) = connection.execute("SELECT pg_table_size(%s::regclass)", (_quoted(name),)).fetchone() or (0,)
        return int(size)

    def keep(self, connection: Any, name: Name) -> None:
        """Have the table be logged."""
        connection.execute(set_logged(name, DIALECT))

    def limit_locks(self, connection: Any) -> None:
        """Set ``lock_timeout``."""
        connection.execute(_LIMIT)

    def swap(self, connection: Any, target: Name, rows: Name) -> None:
        """Rename, in the transaction."""
        swap_tables(connection, target, rows)

    def schema_comment(self, connection: Any, schema: str) -> str | None:
        """Return the comment of the schema."""
        row = connection.execute(_COMMENT, (schema,)).fetchone()
        return None if row is None else str(row[0])

    def create_schema(self, connection: Any, schema: str, comment: str) -> None:
        """CREATE SCHEMA, and COMMENT."""
        name = quote_name(schema, DIALECT)
        connection.execute(f"CREATE SCHEMA {name}")
        connection.execute(f"COMMENT ON SCHEMA {name} IS {quote_text(comment, DIALECT)}")

    def drop_schema(self, connection: Any, schema: str) -> None:
        """DROP SCHEMA with CASCADE."""
        connection.execute(f"DROP SCHEMA {quote_name(schema, DIALECT)} CASCADE")


def _copy_statement(name: Name, columns: Sequence[str]) -> str:
    from psycopg import sql

    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    return sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(*name), names).as_string(None)


def _quoted(name: Name) -> str:
    from psycopg import sql

    return sql.Identifier(*name).as_string(None)
