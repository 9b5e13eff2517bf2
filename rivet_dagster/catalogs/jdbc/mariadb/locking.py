"""How several reads of MariaDB see the same rows: its connections share no snapshot, so tables are locked instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.catalogs.capabilities.sources import Snapshot
from rivet_dagster.catalogs.jdbc.database import LOCK_SECONDS
from rivet_dagster.catalogs.jdbc.mariadb.connection import MariaConnection, text_of
from rivet_dagster.catalogs.jdbc.mariadb.reading import MariaReader
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import DatabasePosition, Position, UnknownPosition
from rivet_dagster.model.relations import JdbcTable
from rivet_dagster.sql.database_definitions import quote_name
from rivet_dagster.sql.mariadb import DIALECT


class MariaReads(Snapshot):
    """The tables of a database while they are read: locked against changes, or ``apart``, each at its own moment.

    A lock waits for the transactions that have changed the table, and keeps others from changing it: once the last of
    the tables is locked, the rows of all are those of that moment, in however many queries they are read.
    """

    def __init__(self, reader: MariaReader, locks: bool) -> None:
        self._reader = reader
        self._locks = locks
        self._relations: dict[tuple[str, str], JdbcTable] = {}
        self._locked: dict[str, MariaConnection] = {}
        self._end: str | None = None
        self.id = datetime.now(UTC).isoformat(timespec="milliseconds")

    def relation(self, table: str, options: Mapping[str, Any]) -> JdbcTable:
        """Return the table, after it has been locked. Raises RVT-403."""
        key = (table, repr(sorted(options.items())))
        if key not in self._relations:
            database = self._reader.database
            with database.connect(f"the table {table}") as connection:
                relation = self._reader.table(connection, table, options)
            if self._locks and table not in self._locked:
                self._lock(table)
            self._relations[key] = relation
        return self._relations[key]

    def position(self, table: str, options: Mapping[str, Any]) -> Position:
        """Return the time since which the tables have been locked; unknown if they are not."""
        if not self._locks:
            return UnknownPosition()
        schema, name = self._reader.resolve(table)
        return DatabasePosition(self._reader.database.catalog, f"{schema}.{name}", self.id)

    def lost(self) -> RivetError | None:
        """Return RVT-510 if a lock has been lost before it was released."""
        for connection in self._locked.values():
            try:
                connection.execute("SELECT 1")
            except self._reader.database.errors as error:
                self._end = self._end or text_of(error)
        if self._end is None:
            return None
        message = f"the connection that held the lock on a table of {self._reader.database.uri} has ended: {self._end}"
        return RivetError("RVT-510", message)

    def broken(self) -> RivetError | None:
        """Return RVT-510 if a lock has been lost: the reads themselves do not notice."""
        return self.lost()

    def close(self) -> None:
        """Release the locks."""
        while self._locked:
            self._locked.popitem()[1].close()

    def _lock(self, table: str) -> None:
        schema, name = self._reader.resolve(table)
        database = self._reader.database
        with database.translate_errors(f"the lock of the table {table}"):
            connection: Any = database.open()
            with _closed_after_error(connection):
                connection.execute(f"SET SESSION lock_wait_timeout = {LOCK_SECONDS}, wait_timeout = 2147483")
                quoted = ".".join(quote_name(part, DIALECT) for part in (schema, name))
                connection.execute(f"LOCK TABLES {quoted} READ")
            self._locked[table] = connection


@contextmanager
def _closed_after_error(connection: MariaConnection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise
