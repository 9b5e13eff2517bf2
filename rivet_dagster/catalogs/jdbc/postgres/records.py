"""The tables in which a database keeps what is known of the versions of its published tables.

``rivet_versions`` has a row for each version: that is published, withheld, staged, or being built. ``rivet_staged`` has
the tables with staged rows. ``rivet_heartbeats`` is unlogged, as these are: a crash of the database empties both, and a
run whose heartbeat is gone counts as dead.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.upkeep import REMEMBERED
from rivet_dagster.catalogs.heartbeat import DEAD_AFTER
from rivet_dagster.catalogs.jdbc.postgres.columns import DIALECT
from rivet_dagster.catalogs.jdbc.postgres.stored_version import StoredVersion
from rivet_dagster.errors import RivetError
from rivet_dagster.sql.database_definitions import drop_table
from rivet_dagster.sql.database_writes import Name

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

OURS = "rivet_"
"""The prefix of the names of all tables that are made here, beside those that are published."""


_CREATE = (
    "CREATE SCHEMA IF NOT EXISTS {schema}",
    "CREATE TABLE IF NOT EXISTS {schema}.rivet_versions (version text PRIMARY KEY, table_name text NOT NULL, "
    "state text NOT NULL, number bigint, upon text, identity text NOT NULL DEFAULT '', "
    "made_by text NOT NULL DEFAULT '', published_at timestamptz, manifest jsonb, write jsonb, errors text, "
    "watermark jsonb, built_upon text, UNIQUE (table_name, number))",
    "CREATE TABLE IF NOT EXISTS {schema}.rivet_staged (table_schema text, table_name text, version text NOT NULL, "
    "is_open boolean NOT NULL DEFAULT true, PRIMARY KEY (table_schema, table_name))",
    "CREATE UNLOGGED TABLE IF NOT EXISTS {schema}.rivet_heartbeats (version text PRIMARY KEY, "
    "sent timestamptz NOT NULL)",
)
_LOCK = "SELECT pg_advisory_xact_lock(7474205318)"
_EXISTS = (
    "SELECT count(*) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
    "WHERE n.nspname = %s AND c.relname IN ('rivet_versions', 'rivet_staged', 'rivet_heartbeats')"
)
_COLUMNS = (
    'version, table_name AS "table", state, number, upon, identity, made_by, published_at, manifest, write, errors, '
    "watermark, built_upon"
)
_LATEST = (
    "(SELECT max(number) FROM {schema}.rivet_versions AS other WHERE other.table_name = rivet_versions.table_name "
    "AND other.state = 'published')"
)
_ALIVE = f"sent > clock_timestamp() - interval '{DEAD_AFTER:.0f} seconds'"


class Records:
    """The tables of the versions, in ``schema``; every method takes a connection, and raises psycopg's errors."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._exist = False

    def exist(self, connection: psycopg.Connection[Any]) -> bool:
        """Return whether the tables exist, as they do once something has been written."""
        if not self._exist:
            row = connection.execute(_EXISTS, (self.schema,)).fetchone()
            self._exist = row is not None and row[0] == len(_CREATE) - 1
        return self._exist

    def create(self, connection: psycopg.Connection[Any]) -> None:
        """Make the tables, and their schema, unless they exist."""
        if self.exist(connection):
            return
        with connection.transaction():
            connection.execute(_LOCK)  # two at once would both make them, and one fail
            for statement in _CREATE:
                connection.execute(self._sql(statement))
        self._exist = True

    def current(self, connection: psycopg.Connection[Any], table: str) -> StoredVersion | None:
        """Return the published version of a table; None if there is none."""
        found = self._find(connection, "table_name = %s AND state = 'published' ORDER BY number DESC LIMIT 1", table)
        return found[0] if found else None

    def published_by(self, connection: psycopg.Connection[Any], table: str, identity: str) -> StoredVersion | None:
        """Return the last version that was published, or made, by the run ``identity``."""
        of_run = "table_name = %s AND state = 'published' AND %s IN (identity, made_by) ORDER BY number DESC LIMIT 1"
        found = self._find(connection, of_run, table, identity) if identity else []
        return found[0] if found else None

    def in_state(self, connection: psycopg.Connection[Any], state: str, table: str) -> list[StoredVersion]:
        """Return the versions of a table in a state, in the order of their names."""
        return self._find(connection, "table_name = %s AND state = %s ORDER BY version", table, state)

    def version(self, connection: psycopg.Connection[Any], table: str, name: str) -> StoredVersion | None:
        """Return the version of that name; None if there is none."""
        found = self._find(connection, "table_name = %s AND version = %s", table, name)
        return found[0] if found else None

    def tables(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Return the tables that have been published."""
        if not self.exist(connection):
            return []
        query = "SELECT DISTINCT table_name FROM {schema}.rivet_versions WHERE state = 'published' ORDER BY 1"
        return [name for (name,) in connection.execute(self._sql(query))]

    def with_errors(self, connection: psycopg.Connection[Any], errors: str) -> StoredVersion | None:
        """Return the current version, of any table, whose error table is called ``errors``, schema and name."""
        latest = f"errors = %s AND state = 'published' AND number = {_LATEST}"
        found = self._find(connection, latest, errors)
        return found[0] if found else None

    def is_current(self, version: StoredVersion) -> str:
        """Return the query of one value that is true as long as no other version of the table has been published."""
        from psycopg import sql

        query = (
            "SELECT max(number) = {number} FROM {schema}.rivet_versions WHERE table_name = {table} "
            "AND state = 'published'"
        )
        composed = sql.SQL(query).format(
            schema=sql.Identifier(self.schema), number=sql.Literal(version.number), table=sql.Literal(version.table)
        )
        return composed.as_string(None)

    def begin(self, connection: psycopg.Connection[Any], version: StoredVersion) -> None:
        """Add a version that is being built, with its first heartbeat."""
        with connection.transaction():
            beat = "INSERT INTO {schema}.rivet_heartbeats VALUES (%s, clock_timestamp())"
            connection.execute(self._sql(beat), (version.version,))
            connection.execute(
                self._sql(
                    "INSERT INTO {schema}.rivet_versions (version, table_name, state, upon, built_upon) "
                    "VALUES (%s, %s, %s, %s, %s)"
                ),
                (version.version, version.table, version.state, version.upon, version.built_upon),
            )

    def change(self, connection: psycopg.Connection[Any], version: StoredVersion, state: str) -> None:
        """Store ``version``, and that it is in another state now. Raises RVT-406 if a sweep has removed it."""
        changed = replace(version, state=state)
        manifest = json.dumps(changed.manifest.as_json()) if changed.manifest is not None else None
        write = changed.write.as_json() if changed.write is not None else None
        done = connection.execute(
            self._sql(
                "UPDATE {schema}.rivet_versions SET state = %s, identity = %s, made_by = %s, manifest = %s, "
                "write = %s, errors = %s, upon = %s WHERE version = %s AND state IN ('building', 'staged', 'withheld')"
            ),
            (state, changed.identity, changed.made_by, manifest, write, changed.errors, changed.upon, changed.version),
        )
        if done.rowcount != 1:
            raise swept_away(version.version, version.table)

    def publish(self, connection: psycopg.Connection[Any], version: StoredVersion, upon: StoredVersion | None) -> bool:
        """Make the version the next one after ``upon``; return False if another one is, or is about to be.

        It is called in the transaction of the publication, and waits for another one of the table.
        """
        import psycopg

        number = 1 if upon is None else (upon.number or 0) + 1
        try:
            with connection.transaction():
                connection.execute(
                    self._sql(
                        "UPDATE {schema}.rivet_versions SET number = %s, state = 'published', "
                        "published_at = clock_timestamp() WHERE version = %s"
                    ),
                    (number, version.version),
                )
        except psycopg.errors.UniqueViolation:
            return False
        before = "SELECT version FROM {schema}.rivet_versions WHERE table_name = %s AND state = 'published' AND "
        query = self._sql(before + "number <> %s ORDER BY number DESC LIMIT 1")
        found = connection.execute(query, (version.table, number)).fetchone()
        return (found[0] if found is not None else None) == (upon.version if upon is not None else None)

    def record(self, connection: psycopg.Connection[Any], version: StoredVersion) -> None:
        """Store the facts of a version that has just been published, and forget those nobody asks for any more."""
        assert version.manifest is not None
        connection.execute(
            self._sql(
                "UPDATE {schema}.rivet_versions SET manifest = %s, write = NULL, identity = %s, made_by = %s, "
                "errors = %s WHERE version = %s"
            ),
            (
                json.dumps(version.manifest.as_json()),
                version.identity,
                version.made_by,
                version.errors,
                version.version,
            ),
        )
        connection.execute(
            self._sql(
                "DELETE FROM {schema}.rivet_versions WHERE table_name = %s AND state = 'published' AND version <> %s "
                "AND published_at < clock_timestamp() - %s"
            ),
            (version.table, version.version, REMEMBERED),
        )

    def beat(
        self, connection: psycopg.Connection[Any], version: str, seconds: float = 0.0, is_new: bool = False
    ) -> bool:
        """Send a heartbeat that lasts for ``seconds`` longer; return False if the run has none that is alive."""
        if is_new:
            query = "INSERT INTO {schema}.rivet_heartbeats VALUES (%s, clock_timestamp())"
            connection.execute(self._sql(query), (version,))
            return True
        later = "greatest(sent, clock_timestamp() + make_interval(secs => %s))"
        query = f"UPDATE {{schema}}.rivet_heartbeats SET sent = {later} WHERE version = %s AND {_ALIVE}"
        return connection.execute(self._sql(query), (seconds, version)).rowcount == 1

    def is_alive(self, connection: psycopg.Connection[Any], version: str) -> bool:
        """Return whether the run that builds a version counts as alive."""
        query = f"SELECT 1 FROM {{schema}}.rivet_heartbeats WHERE version = %s AND {_ALIVE}"
        return connection.execute(self._sql(query), (version,)).fetchone() is not None

    def alive(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Return the versions whose runs count as alive."""
        if not self.exist(connection):
            return []
        query = f"SELECT version FROM {{schema}}.rivet_heartbeats WHERE {_ALIVE}"
        return [version for (version,) in connection.execute(self._sql(query))]

    def end_heartbeat(self, connection: psycopg.Connection[Any], version: str) -> None:
        """Remove the heartbeat of a version."""
        connection.execute(self._sql("DELETE FROM {schema}.rivet_heartbeats WHERE version = %s"), (version,))

    def add_staged(self, connection: psycopg.Connection[Any], name: Name, version: str) -> None:
        """Note a table of staged rows, before it is made."""
        query = "INSERT INTO {schema}.rivet_staged (table_schema, table_name, version) VALUES (%s, %s, %s)"
        connection.execute(self._sql(query), (*name, version))

    def close_staged(self, connection: psycopg.Connection[Any], name: Name) -> None:
        """Have no more rows come to a table of staged rows; waits for those that are just coming."""
        query = "UPDATE {schema}.rivet_staged SET is_open = false WHERE table_schema = %s AND table_name = %s"
        connection.execute(self._sql(query), name)

    def is_open(self, name: Name) -> str:
        """Return the query of one row as long as rows may come to a table of staged rows, which it locks."""
        from psycopg import sql

        query = (
            "SELECT 1 FROM {schema}.rivet_staged WHERE table_schema = {of} AND table_name = {table} "
            "AND is_open FOR SHARE"
        )
        return (
            sql.SQL(query)
            .format(schema=sql.Identifier(self.schema), of=sql.Literal(name[0]), table=sql.Literal(name[1]))
            .as_string(None)
        )

    def drop_staged(self, connection: psycopg.Connection[Any], version: str) -> None:
        """Drop the tables of staged rows of a version."""
        query = self._sql("SELECT table_schema, table_name FROM {schema}.rivet_staged WHERE version = %s")
        for schema, name in connection.execute(query, (version,)).fetchall():
            with connection.transaction():
                connection.execute(drop_table((schema, name), DIALECT))
                forget = "DELETE FROM {schema}.rivet_staged WHERE table_schema = %s AND table_name = %s"
                connection.execute(self._sql(forget), (schema, name))

    def remove(self, connection: psycopg.Connection[Any], version: str) -> None:
        """Remove a version that is not published, and the tables of its staged rows."""
        query = "DELETE FROM {schema}.rivet_versions WHERE version = %s AND state <> 'published'"
        connection.execute(self._sql(query), (version,))
        self.drop_staged(connection, version)
        self.end_heartbeat(connection, version)

    def building(self, connection: psycopg.Connection[Any]) -> list[str]:
        """Return the versions that runs are building or have staged, each as ``table/version``."""
        if not self.exist(connection):
            return []
        query = "SELECT table_name || '/' || version FROM {schema}.rivet_versions WHERE state IN ('building', 'staged')"
        return [name for (name,) in connection.execute(self._sql(f"{query} ORDER BY 1"))]

    def sweep(
        self,
        connection: psycopg.Connection[Any],
        table: str | None = None,
        failed: Callable[[str, Exception], None] | None = None,
    ) -> list[str]:
        """Remove what dead runs have left, of one table or of all, and return it as ``building`` does.

        ``failed`` is called with the versions that could not be removed, and why.
        """
        import psycopg

        if not self.exist(connection):
            return []
        dead = (
            "DELETE FROM {schema}.rivet_versions WHERE state IN ('building', 'staged') "
            "AND (%(table)s::text IS NULL OR table_name = %(table)s) AND version NOT IN "
            f"(SELECT version FROM {{schema}}.rivet_heartbeats WHERE {_ALIVE}) RETURNING table_name || '/' || version"
        )
        removed = [name for (name,) in connection.execute(self._sql(dead), {"table": table})]
        # Also those of versions whose removal was interrupted, or that have been published.
        left = (
            "SELECT DISTINCT version FROM {schema}.rivet_staged WHERE version NOT IN "
            "(SELECT version FROM {schema}.rivet_versions WHERE state <> 'published')"
        )
        for (version,) in connection.execute(self._sql(left)).fetchall():
            try:
                self.drop_staged(connection, version)
                self.end_heartbeat(connection, version)
            except psycopg.Error as error:
                if failed is None:
                    raise
                failed(version, error)
        return removed

    def forget(self, connection: psycopg.Connection[Any], table: str) -> None:
        """Remove all published versions of a table."""
        query = "DELETE FROM {schema}.rivet_versions WHERE table_name = %s AND state = 'published'"
        connection.execute(self._sql(query), (table,))

    def set_watermark(self, connection: psycopg.Connection[Any], version: str, value: str | None) -> bool:
        """Store a watermark for the current version; return False if it is not the current one any more."""
        query = f"UPDATE {{schema}}.rivet_versions SET watermark = %s WHERE version = %s AND number = {_LATEST}"
        return connection.execute(self._sql(query), (json.dumps({"value": value}), version)).rowcount == 1

    def _find(self, connection: psycopg.Connection[Any], condition: str, *values: Any) -> list[StoredVersion]:
        from psycopg.rows import dict_row

        if not self.exist(connection):
            return []
        query = f"SELECT {_COLUMNS} FROM {{schema}}.rivet_versions WHERE {condition}"
        with connection.cursor(row_factory=dict_row) as cursor:
            return [StoredVersion.of(row) for row in cursor.execute(self._sql(query), values)]

    def _sql(self, text: str) -> sql.Composed:
        from psycopg import sql

        return sql.SQL(text).format(schema=sql.Identifier(self.schema))


def swept_away(version: str, table: str) -> RivetError:
    """Return RVT-406 for a version whose run was taken for dead."""
    message = (
        f"the version {version} of '{table}' has been swept away, or its database has crashed: it cannot be published"
    )
    return RivetError("RVT-406", message)
