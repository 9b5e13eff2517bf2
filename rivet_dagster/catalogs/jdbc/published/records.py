"""The tables in which a database keeps what is known of the versions of its published tables.

``rivet_versions`` has a row for each version: that is published, withheld, staged, or being built. ``rivet_staged`` has
the tables with staged rows. ``rivet_heartbeats`` is unlogged where the database has such tables, as these are: a crash
of the database empties both, and a run whose heartbeat is gone counts as dead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from rivet_dagster.catalogs.capabilities.upkeep import REMEMBERED
from rivet_dagster.catalogs.jdbc.database import Connection, Database
from rivet_dagster.catalogs.jdbc.product import DatabaseKind
from rivet_dagster.catalogs.jdbc.published.stored_version import StoredVersion
from rivet_dagster.catalogs.versions.heartbeat import DEAD_AFTER
from rivet_dagster.errors import RivetError
from rivet_dagster.sql.database_definitions import drop_table, quote_name, quote_text
from rivet_dagster.sql.database_trees import Name

OURS = "rivet_"
"""The prefix of the names of all tables that are made here, beside those that are published."""

_COLUMNS = (
    'version, table_name AS "table", state, number, upon, identity, made_by, published_at, manifest, "write", errors, '
    "watermark, built_upon"
)
_FIELDS = tuple(_COLUMNS.replace('"', "").replace("table_name AS ", "").split(", "))
_LATEST = (
    "(SELECT max(number) FROM {schema}.rivet_versions AS other WHERE other.table_name = rivet_versions.table_name "
    "AND other.state = 'published')"
)
_ALIVE = f"sent > {{now}} - INTERVAL '{DEAD_AFTER:.0f}' SECOND"
_OF_RECORDS = 3
"""The number of tables."""


class Records:
    """The tables of the versions, in ``schema``; every method takes a connection, and raises its errors."""

    def __init__(self, database: Database, kind: DatabaseKind, schema: str) -> None:
        self.schema = schema
        self._database = database
        self._kind = kind
        self._exist = False

    def exist(self, connection: Connection) -> bool:
        """Return whether the tables exist, as they do once something has been written."""
        if not self._exist:
            row = connection.execute(self._kind.records.exists, (self.schema,)).fetchone()
            self._exist = row is not None and row[0] == _OF_RECORDS
        return self._exist

    def create(self, connection: Connection) -> None:
        """Make the tables, and their schema, unless they exist."""
        if self.exist(connection):
            return
        with connection.transaction():
            for statement in self._kind.records.create:
                connection.execute(self._sql(statement))
        self._exist = True

    def current(self, connection: Connection, table: str) -> StoredVersion | None:
        """Return the published version of a table; None if there is none."""
        versions = self._find(connection, "table_name = %s AND state = 'published' ORDER BY number DESC LIMIT 1", table)
        return versions[0] if versions else None

    def published_by(self, connection: Connection, table: str, identity: str) -> StoredVersion | None:
        """Return the last version that was published, or made, by the run ``identity``."""
        of_run = "table_name = %s AND state = 'published' AND %s IN (identity, made_by) ORDER BY number DESC LIMIT 1"
        versions = self._find(connection, of_run, table, identity) if identity else []
        return versions[0] if versions else None

    def in_state(self, connection: Connection, state: str, table: str) -> list[StoredVersion]:
        """Return the versions of a table in a state, in the order of their names."""
        return self._find(connection, "table_name = %s AND state = %s ORDER BY version", table, state)

    def version(self, connection: Connection, table: str, name: str) -> StoredVersion | None:
        """Return the version of that name; None if there is none."""
        versions = self._find(connection, "table_name = %s AND version = %s", table, name)
        return versions[0] if versions else None

    def tables(self, connection: Connection) -> list[str]:
        """Return the tables that have been published."""
        if not self.exist(connection):
            return []
        query = "SELECT DISTINCT table_name FROM {schema}.rivet_versions WHERE state = 'published' ORDER BY 1"
        return [name for (name,) in connection.execute(self._sql(query))]

    def with_errors(self, connection: Connection, errors: str) -> StoredVersion | None:
        """Return the current version, of any table, whose error table is called ``errors``, schema and name."""
        latest = f"errors = %s AND state = 'published' AND number = {_LATEST}"
        versions = self._find(connection, latest, errors)
        return versions[0] if versions else None

    def is_current(self, version: StoredVersion) -> str:
        """Return the query of one value that is true as long as no other version of the table has been published."""
        query = f"SELECT max(number) = {version.number} FROM {{schema}}.rivet_versions WHERE table_name = {{table}} "
        return self._sql(f"{query}AND state = 'published'", table=version.table)

    def begin(self, connection: Connection, version: StoredVersion) -> None:
        """Add a version that is being built, with its first heartbeat."""
        with connection.transaction():
            beat = "INSERT INTO {schema}.rivet_heartbeats VALUES (%s, {now})"
            connection.execute(self._sql(beat), (version.version,))
            connection.execute(
                self._sql(
                    "INSERT INTO {schema}.rivet_versions (version, table_name, state, upon, built_upon) "
                    "VALUES (%s, %s, %s, %s, %s)"
                ),
                (version.version, version.table, version.state, version.upon, version.built_upon),
            )

    def change(self, connection: Connection, version: StoredVersion, state: str) -> None:
        """Store ``version``, and that it is in another state now. Raises RVT-406 if a sweep has removed it."""
        changed = replace(version, state=state)
        manifest = json.dumps(changed.manifest.as_json()) if changed.manifest is not None else None
        write = changed.write.as_json() if changed.write is not None else None
        done = connection.execute(
            self._sql(
                "UPDATE {schema}.rivet_versions SET state = %s, identity = %s, made_by = %s, manifest = %s, "
                '"write" = %s, errors = %s, upon = %s WHERE version = %s '
                "AND state IN ('building', 'staged', 'withheld')"
            ),
            (state, changed.identity, changed.made_by, manifest, write, changed.errors, changed.upon, changed.version),
        )
        if done.rowcount != 1:
            raise swept_away(version.version, version.table)

    def publish(self, connection: Connection, version: StoredVersion, upon: StoredVersion | None) -> bool:
        """Make the version the next one after ``upon``; return False if another one is, or is about to be.

        It is called in the transaction of the publication, and waits for another one of the table.
        """
        number = 1 if upon is None else (upon.number or 0) + 1
        try:
            with connection.transaction():
                connection.execute(
                    self._sql(
                        "UPDATE {schema}.rivet_versions SET number = %s, state = 'published', "
                        "published_at = {now} WHERE version = %s"
                    ),
                    (number, version.version),
                )
        except self._database.errors as error:
            if not self._database.is_duplicate(error):
                raise
            return False
        before = "SELECT version FROM {schema}.rivet_versions WHERE table_name = %s AND state = 'published' AND "
        query = self._sql(before + "number <> %s ORDER BY number DESC LIMIT 1")
        row = connection.execute(query, (version.table, number)).fetchone()
        return (row[0] if row is not None else None) == (upon.version if upon is not None else None)

    def record(self, connection: Connection, version: StoredVersion) -> None:
        """Store the facts of a version that has just been published, and forget those nobody asks for any more."""
        assert version.manifest is not None
        connection.execute(
            self._sql(
                'UPDATE {schema}.rivet_versions SET manifest = %s, "write" = NULL, identity = %s, made_by = %s, '
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
        # A DELETE by other conditions than the key would wait, in some databases, for rows of runs that wait for this.
        query = (
            "SELECT version FROM {schema}.rivet_versions WHERE table_name = %s AND state = 'published' "
            "AND version <> %s AND published_at < {now} - " + _interval(REMEMBERED)
        )
        for (old,) in connection.execute(self._sql(query), (version.table, version.version)).fetchall():
            connection.execute(self._sql("DELETE FROM {schema}.rivet_versions WHERE version = %s"), (old,))

    def beat(self, connection: Connection, version: str, seconds: float = 0.0) -> bool:
        """Send a heartbeat that lasts for ``seconds`` longer; return False if the run has none that is alive."""
        later = f"greatest(sent, {{now}} + {_interval(timedelta(seconds=seconds))})"
        query = f"UPDATE {{schema}}.rivet_heartbeats SET sent = {later} WHERE version = %s AND {_ALIVE}"
        return connection.execute(self._sql(query), (version,)).rowcount == 1

    def beat_staged(self, connection: Connection, versions: Sequence[str], seconds: float) -> frozenset[str]:
        """Send heartbeats of those of these versions that are staged and alive, as ``beat`` does, and return them."""
        if not versions:
            return frozenset()
        known = f"version IN ({', '.join(['%s'] * len(versions))})"
        staged = f"SELECT version FROM {{schema}}.rivet_versions WHERE {known} AND state = 'staged'"
        query = f"SELECT version FROM {{schema}}.rivet_heartbeats WHERE version IN ({staged}) AND {_ALIVE}"
        locked = [version for (version,) in connection.execute(self._sql(query), tuple(versions))]
        if locked:
            later = f"greatest(sent, {{now}} + {_interval(timedelta(seconds=seconds))})"
            of_found = f"version IN ({', '.join(['%s'] * len(locked))})"
            update = f"UPDATE {{schema}}.rivet_heartbeats SET sent = {later} WHERE {of_found}"
            connection.execute(self._sql(update), tuple(locked))
        return frozenset(locked)

    def is_alive(self, connection: Connection, version: str) -> bool:
        """Return whether the run that builds a version counts as alive."""
        query = f"SELECT 1 FROM {{schema}}.rivet_heartbeats WHERE version = %s AND {_ALIVE}"
        return connection.execute(self._sql(query), (version,)).fetchone() is not None

    def alive(self, connection: Connection) -> list[str]:
        """Return the versions whose runs count as alive."""
        if not self.exist(connection):
            return []
        query = f"SELECT version FROM {{schema}}.rivet_heartbeats WHERE {_ALIVE}"
        return [version for (version,) in connection.execute(self._sql(query))]

    def end_heartbeat(self, connection: Connection, version: str) -> None:
        """Remove the heartbeat of a version."""
        connection.execute(self._sql("DELETE FROM {schema}.rivet_heartbeats WHERE version = %s"), (version,))

    def add_staged(self, connection: Connection, name: Name, version: str) -> None:
        """Note a table of staged rows, before it is made."""
        query = "INSERT INTO {schema}.rivet_staged (table_schema, table_name, version) VALUES (%s, %s, %s)"
        connection.execute(self._sql(query), (*name, version))

    def stager_of(self, connection: Connection, name: Name) -> str | None:
        """Return the version whose staged rows a table holds; None if it holds none."""
        query = self._sql("SELECT version FROM {schema}.rivet_staged WHERE table_schema = %s AND table_name = %s")
        row = connection.execute(query, name).fetchone()
        return None if row is None else str(row[0])

    def forget_staged(self, connection: Connection, name: Name) -> None:
        """Have a table be no longer one of staged rows, which are dropped."""
        forget = "DELETE FROM {schema}.rivet_staged WHERE table_schema = %s AND table_name = %s"
        connection.execute(self._sql(forget), name)

    def close_staged(self, connection: Connection, name: Name) -> None:
        """Have no more rows come to a table of staged rows; waits for those that are just coming."""
        query = "UPDATE {schema}.rivet_staged SET is_open = false WHERE table_schema = %s AND table_name = %s"
        connection.execute(self._sql(query), name)

    def is_open(self, name: Name) -> str:
        """Return the query of one row as long as rows may come to a table of staged rows, which it locks."""
        query = "SELECT 1 FROM {schema}.rivet_staged WHERE table_schema = {of} AND table_name = {table} AND is_open "
        return self._sql(query + self._kind.records.share, of=name[0], table=name[1])

    def drop_staged(self, connection: Connection, version: str) -> None:
        """Drop the tables of staged rows of a version."""
        query = self._sql("SELECT table_schema, table_name FROM {schema}.rivet_staged WHERE version = %s")
        for schema, name in connection.execute(query, (version,)).fetchall():
            with connection.transaction():
                connection.execute(drop_table((schema, name), self._kind.dialect))
                self.forget_staged(connection, (schema, name))

    def remove(self, connection: Connection, version: str) -> None:
        """Remove a version that is not published, and the tables of its staged rows."""
        query = "DELETE FROM {schema}.rivet_versions WHERE version = %s AND state <> 'published'"
        connection.execute(self._sql(query), (version,))
        self.drop_staged(connection, version)
        self.end_heartbeat(connection, version)

    def building(self, connection: Connection) -> list[str]:
        """Return the versions that runs are building or have staged, each as ``table/version``."""
        if not self.exist(connection):
            return []
        query = (
            "SELECT concat(table_name, '/', version) FROM {schema}.rivet_versions WHERE state IN ('building', 'staged')"
        )
        return [name for (name,) in connection.execute(self._sql(f"{query} ORDER BY 1"))]

    def sweep(
        self,
        connection: Connection,
        table: str | None = None,
        failed: Callable[[str, Exception], None] | None = None,
    ) -> list[str]:
        """Remove what dead runs have left, of one table or of all, and return it as ``building`` does.

        ``failed`` is called with the versions that could not be removed, and why.
        """
        if not self.exist(connection):
            return []
        of_table = " AND table_name = %s" if table is not None else ""
        is_dead = (
            "state IN ('building', 'staged') AND version NOT IN "
            f"(SELECT version FROM {{schema}}.rivet_heartbeats WHERE {_ALIVE})"
        )
        find = (
            f"SELECT version, concat(table_name, '/', version) FROM {{schema}}.rivet_versions WHERE {is_dead}{of_table}"
        )
        # One by one, so as not to wait for those that are just being published.
        delete = self._sql(f"DELETE FROM {{schema}}.rivet_versions WHERE version = %s AND {is_dead}")
        dead = connection.execute(self._sql(find), (table,) if table is not None else None).fetchall()
        removed = [told for version, told in dead if connection.execute(delete, (version,)).rowcount]
        # Also those of versions whose removal was interrupted, or that have been published.
        left = (
            "SELECT DISTINCT version FROM {schema}.rivet_staged WHERE version NOT IN "
            "(SELECT version FROM {schema}.rivet_versions WHERE state IN ('building', 'staged', 'withheld'))"
        )
        for (version,) in connection.execute(self._sql(left)).fetchall():
            try:
                self.drop_staged(connection, version)
                self.end_heartbeat(connection, version)
            except self._database.errors as error:
                if failed is None:
                    raise
                failed(version, error)
        return removed

    def forget(self, connection: Connection, table: str) -> None:
        """Remove all published versions of a table."""
        query = "DELETE FROM {schema}.rivet_versions WHERE table_name = %s AND state = 'published'"
        connection.execute(self._sql(query), (table,))

    def set_watermark(self, connection: Connection, version: str, value: str | None) -> bool:
        """Store a watermark for the current version; return False if it is not the current one any more."""
        query = f"UPDATE {{schema}}.rivet_versions SET watermark = %s WHERE version = %s AND number = {_LATEST}"
        return connection.execute(self._sql(query), (json.dumps({"value": value}), version)).rowcount == 1

    def _find(self, connection: Connection, condition: str, *values: Any) -> list[StoredVersion]:
        if not self.exist(connection):
            return []
        query = self._sql(f"SELECT {_COLUMNS} FROM {{schema}}.rivet_versions WHERE {condition}")
        return [StoredVersion.of(dict(zip(_FIELDS, row, strict=True))) for row in connection.execute(query, values)]

    def _sql(self, text: str, **texts: str) -> str:
        """Return a statement with the schema, and the ``texts`` as values."""
        dialect = self._kind.dialect
        values = {key: quote_text(value, dialect) for key, value in texts.items()}
        return text.format(schema=quote_name(self.schema, dialect), now=self._kind.records.now, **values)


def _interval(duration: timedelta) -> str:
    return f"INTERVAL '{duration.total_seconds():f}' SECOND"


def swept_away(version: str, table: str) -> RivetError:
    """Return RVT-406 for a version whose run was taken for dead."""
    message = (
        f"the version {version} of '{table}' has been swept away, or its database has crashed: it cannot be published"
    )
    return RivetError("RVT-406", message)
