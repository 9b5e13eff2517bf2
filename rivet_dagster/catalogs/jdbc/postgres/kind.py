"""PostgreSQL as a database in which tables are published."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from rivet_dagster.catalogs.jdbc.database import LOCK_SECONDS, WRITER, Database
from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT
from rivet_dagster.catalogs.jdbc.postgres.copying import copy_lines
from rivet_dagster.catalogs.jdbc.postgres.swapping import swap
from rivet_dagster.catalogs.jdbc.postgres.table import lookup_table
from rivet_dagster.catalogs.jdbc.postgres.target import database_type, find_target
from rivet_dagster.catalogs.jdbc.published.copying import ATTEMPT, copy_rows
from rivet_dagster.catalogs.jdbc.published.kind import DatabaseKind, RecordTexts, Task
from rivet_dagster.catalogs.jdbc.published.target import TargetTable
from rivet_dagster.sql.database_definitions import quote_name, quote_text, set_logged
from rivet_dagster.sql.database_trees import Name, WrittenColumn

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
        return find_target(connection, name)

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
        swap(connection, target, rows)

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
