"""A snapshot of PostgreSQL that a run reads, and the transactions that are open while it is taken.

A row has the time at which its transaction began, and is seen when that has ended: whoever reads the rows with times
after the greatest one that he knows misses those of a transaction that took longer than another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.sources import Snapshot
from rivet_dagster.catalogs.jdbc.database import READER, first_line
from rivet_dagster.catalogs.jdbc.options import SourceOptions
from rivet_dagster.catalogs.jdbc.postgres.connection import unlimited_waits
from rivet_dagster.catalogs.jdbc.postgres.reading import PostgresReader
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import DatabasePosition, Position
from rivet_dagster.model.relations import JdbcTable

if TYPE_CHECKING:
    import psycopg

_BEGIN = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_EXPORT = "SELECT pg_export_snapshot(), pg_current_snapshot()::text"
_MARGIN = 5
"""Seconds: a transaction takes its time a little before it is listed."""

_OPEN = """
SELECT least(clock_timestamp(), min(xact_start)) - make_interval(secs => %s),
       count(*) FILTER (WHERE query = '<insufficient privilege>'),
       (SELECT min(prepared) FROM pg_catalog.pg_prepared_xacts WHERE database = current_database()),
       pg_is_in_recovery()
FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
AND application_name NOT IN (%s, 'pg_dump') AND backend_type IS DISTINCT FROM 'autovacuum worker'
"""


@dataclass(frozen=True)
class OpenTransactions:
    """Facts about the transactions that are open.

    ``oldest`` is before the time of each that the user may see; ``hidden`` is the number of sessions that he may not,
    ``prepared`` the time of the oldest one that waits for its second phase. On a replica nothing is known of them.
    """

    oldest: datetime
    hidden: int
    prepared: datetime | None
    on_replica: bool

    def all_before(self) -> str:
        """Return the time of ISO 8601 before which a snapshot that is taken later has all rows. Raises RVT-403."""
        remedy = "Leave `changed_at` out: then a row may be missed whose transaction takes longer than another."
        why = None
        if self.on_replica:
            why = "a replica does not know of them"
        elif self.hidden:
            why = f"the user may not see {self.hidden} sessions of others"
            remedy = f"Grant the user the role pg_read_all_stats. {remedy}"
        elif self.prepared is not None:
            why = f"one is prepared, since {self.prepared.isoformat()}, and does not tell when it began"
        if why is not None:
            message = f"`changed_at` needs the times of all open transactions of the database, and {why}"
            raise RivetError("RVT-403", message, remediation=remedy)
        return self.oldest.isoformat()


def open_transactions(connection: psycopg.Connection[Any]) -> OpenTransactions:
    """Return what is known of the transactions that are open now; ``connection`` has none."""
    row = connection.execute(_OPEN, (_MARGIN, READER)).fetchone()
    assert row is not None
    return OpenTransactions(*row)


class PostgresSnapshot(Snapshot):
    """A transaction that holds a snapshot of the database, which the transactions of the engine's connections share.

    ``tables`` tables are read at it, by at most ``connections`` connections altogether, this one included.
    """

    def __init__(self, reader: PostgresReader, tables: int, connections: int) -> None:
        self._reader = reader
        self._parts = max(1, (connections - 1) // max(1, tables))
        self._relations: dict[tuple[str, str], JdbcTable] = {}
        self._end: str | None = None
        database = reader.database
        with database.translate_errors("its snapshot"):
            self._connection = database.open()
            try:
                self._open = open_transactions(self._connection)  # before the snapshot: they may end in between
                self._connection.execute(_BEGIN)
                self._connection.execute(unlimited_waits(self._connection))
                row = self._connection.execute(_EXPORT).fetchone()
            except BaseException:
                self._connection.close()
                raise
        assert row is not None
        self._exported, self.id = row

    def relation(self, table: str, options: Mapping[str, Any]) -> JdbcTable:
        """Return the table at the snapshot."""
        key = (table, repr(sorted(options.items())))
        if key not in self._relations:
            with self._reader.database.translate_errors(f"the table {table}"), self._remembered_end():
                self._relations[key] = self._reader.relation(
                    self._connection, table, options, self._exported, self._parts, self._before(options)
                )
        return self._relations[key]

    def position(self, table: str, options: Mapping[str, Any]) -> Position:
        """Return the snapshot, and the time from which on changes are left for a later one."""
        schema, name = self._reader.resolve(table)
        return DatabasePosition(self._reader.database.catalog, f"{schema}.{name}", self.id, self._before(options))

    def _before(self, options: Mapping[str, Any]) -> str | None:
        """Return the time before which all changes are in the snapshot, if the source asks for it. Raises RVT-403."""
        return self._open.all_before() if SourceOptions.of(options).changed_at is not None else None

    def lost(self) -> RivetError | None:
        """Return RVT-510 if the transaction has ended before it was closed, which says why."""
        import psycopg

        with suppress(psycopg.Error), self._remembered_end():
            self._connection.execute("SELECT 1")
        if self._end is None:
            return None
        about = f"the transaction that held the snapshot of {self._reader.database.uri} has ended"
        return self._reader.database.limited(about, self._end) or RivetError("RVT-510", f"{about}: {self._end}")

    def close(self) -> None:
        """End the transaction; readers that have begun keep the snapshot."""
        self._connection.close()

    @contextmanager
    def _remembered_end(self) -> Iterator[None]:
        """Remember why the connection ends in the block, if it does: only the first error tells it."""
        import psycopg

        try:
            yield
        except psycopg.Error as error:
            if self._connection.closed:
                self._end = self._end or first_line(error)
            raise
