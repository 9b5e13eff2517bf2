"""PostgreSQL as the catalog knows it, and the findings of the doctor about its server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.catalogs.jdbc.database import Connection, first_line
from rivet_dagster.catalogs.jdbc.options import wrong_source, wrong_target
from rivet_dagster.catalogs.jdbc.postgres.columns import wrong_casts
from rivet_dagster.catalogs.jdbc.postgres.connection import PostgresDatabase
from rivet_dagster.catalogs.jdbc.postgres.kind import PostgresKind
from rivet_dagster.catalogs.jdbc.postgres.queries import PostgresQueries
from rivet_dagster.catalogs.jdbc.postgres.reading import DRIVER, PACKAGE, PostgresReader
from rivet_dagster.catalogs.jdbc.postgres.snapshot import PostgresSnapshot
from rivet_dagster.catalogs.jdbc.product import Product
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import refusals
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.model.plugins import Wrong

OLDEST = 150_000
"""PostgreSQL 15, the oldest version that is tried."""

_SECONDS = 60
"""By how many seconds two clocks may differ."""

_REMEDY = "Start it, or correct the catalog's `url`."
_FACTS = "SELECT current_setting('server_version'), current_setting('server_version_num')::int, now(), current_user"
_RIGHTS = """
SELECT pg_is_in_recovery(), coalesce(has_schema_privilege(to_regnamespace(quote_ident(%s)), 'CREATE'),
  has_database_privilege(current_database(), 'CREATE')), to_regnamespace(quote_ident(%s)) IS NOT NULL
"""
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_IMPORT = "SET TRANSACTION SNAPSHOT '{}'"
_LIMITS = """
SELECT name, setting || coalesce(unit, '') FROM pg_catalog.pg_settings
WHERE name IN ('statement_timeout', 'transaction_timeout') AND setting <> '0' ORDER BY 1
"""
_SERVER = "Name a server in the catalog's `url` that can, or read each table by one query: without `partitions`."


def examine(subject: str, database: PostgresDatabase, schema: str, publishes: bool) -> Iterator[Finding]:
    """Yield findings of reaching the database, its version and clock, a snapshot of it, and writing to ``schema``."""
    servers = database.servers
    unreached = refusals(servers)
    if len(unreached) == len(servers):
        for server, why in unreached.items():
            message = f"no database answers at {server}: {why}"
            yield from broken(subject, RivetError("RVT-403", message, remediation=_REMEDY))
        return
    try:
        with database.connect() as connection:
            yield from _facts(subject, database, connection)
            yield from _snapshots(subject, database, connection)
            yield from _limits(subject, connection)
            if publishes:
                yield from _rights(subject, schema, connection)
    except RivetError as error:
        yield from broken(subject, error)


def _facts(subject: str, database: PostgresDatabase, connection: Connection) -> Iterator[Finding]:
    row = connection.execute(_FACTS).fetchone()
    assert row is not None
    version, number, now, user = row
    yield in_order(subject, f"PostgreSQL {version} answers at {database.uri}, and {user} may log in")
    if number < OLDEST:
        yield doubtful(subject, f"PostgreSQL {version} is older than 15, and was not tried", "Update the database.")
    apart = abs((datetime.now(UTC) - now).total_seconds())
    if apart > _SECONDS:
        text = f"its clock and that of this machine differ by {apart:.0f} seconds"
        yield doubtful(subject, text, "Have both set their clocks by a time server.")


def _limits(subject: str, connection: Connection) -> Iterator[Finding]:
    """Yield what limits of time hold for the statements of the user."""
    for name, value in connection.execute(_LIMITS).fetchall():
        yield in_order(subject, f"its user has `{name}` {value}: longer reads and publications fail (RVT-528)")


def _rights(subject: str, schema: str, connection: Connection) -> Iterator[Finding]:
    """Yield findings of what hinders the user from publishing to a schema."""
    is_replica, may_create, exists = connection.execute(_RIGHTS, (schema, schema)).fetchone() or (False, True, True)
    if is_replica:
        text = "it is a replica, to which nothing can be published"
        yield from broken(subject, RivetError("RVT-404", text, remediation="Name the primary server in its `url`."))
    elif not may_create:
        text = f"its user may not create tables in the schema {schema}"
        remedy = f"Have the right granted: GRANT CREATE ON SCHEMA {schema}"
        if not exists:
            remedy = f"Have the schema {schema} made, and the right to create tables there granted."
        yield from broken(subject, RivetError("RVT-404", text, remediation=remedy))
    else:
        yield in_order(subject, f"tables can be published to the schema {schema}")


def _snapshots(subject: str, database: PostgresDatabase, connection: Connection) -> Iterator[Finding]:
    """Yield findings of what hinders several connections from reading one snapshot."""
    import psycopg

    (one,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
    with database.connect() as second:
        second.execute(_SNAPSHOT)
        (other,) = second.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        try:
            (exported,) = second.execute("SELECT pg_export_snapshot()").fetchone() or ("",)
        except psycopg.Error as error:
            yield doubtful(
                subject, f"it exports no snapshot that several connections can read: {first_line(error)}", _SERVER
            )
            return
        connection.execute(_SNAPSHOT)
        connection.execute(_IMPORT.format(exported))
        connection.execute("ROLLBACK")
    if one == other:
        yield in_order(subject, "a pooler in front of it, like PgBouncer, gives each transaction any session")
    yield in_order(subject, "several connections can read one snapshot of it")


_SCHEMA = "public"


def _wrong_source(options: Mapping[str, Any], joint_options: Mapping[str, Any]) -> Iterator[Wrong]:
    yield from wrong_source(joint_options)
    yield from wrong_casts(joint_options.get("casts"))


POSTGRESQL = Product(
    name="PostgreSQL",
    driver=DRIVER,
    package=PACKAGE,
    kind=PostgresKind(),
    database=PostgresDatabase,
    schema=lambda options: str(options.get("schema", _SCHEMA)),
    reader=PostgresReader,  # type: ignore[arg-type]
    snapshot=lambda reader, tables, connections, _: PostgresSnapshot(reader, tables, connections),  # type: ignore[arg-type]
    examine=examine,  # type: ignore[arg-type]
    wrong_source=_wrong_source,
    wrong_target=lambda _, joint_options: wrong_target(joint_options),
    refuses=lambda _: None,
    queries=PostgresQueries,  # type: ignore[arg-type]
)
