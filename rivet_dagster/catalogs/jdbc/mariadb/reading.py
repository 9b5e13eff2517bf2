"""Tables of MariaDB as relations that an engine reads, each by one query.

Its connections share no snapshot, so that tables are locked where several reads have to see the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rivet_dagster.catalogs.capabilities.sources import Snapshot
from rivet_dagster.catalogs.jdbc.database import LOCK_SECONDS, Connection, Database
from rivet_dagster.catalogs.jdbc.mariadb.columns import MariadbColumn, read_columns, table_columns
from rivet_dagster.catalogs.jdbc.mariadb.connection import MariaConnection, text_of
from rivet_dagster.catalogs.jdbc.options import FETCHED, SourceOptions
from rivet_dagster.catalogs.jdbc.product import ENVIRONMENT, ReadColumn, Reader
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.inputs import DatabasePosition, Position, UnknownPosition
from rivet_dagster.model.relations import JdbcTable, Unreadable
from rivet_dagster.sql.database_definitions import quote_name
from rivet_dagster.sql.database_queries import greatest_value
from rivet_dagster.sql.database_table import is_true, table_query
from rivet_dagster.sql.database_trees import Name
from rivet_dagster.sql.mariadb import DIALECT

PACKAGE = "org.mariadb.jdbc:mariadb-java-client:3.5.6"
DRIVER = "org.mariadb.jdbc.Driver"

VIEW = "VIEW"

_FIND = "SELECT table_type FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
_LIST = (
    "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN "
    "('information_schema', 'performance_schema', 'mysql', 'sys') AND left(table_name, 6) <> 'rivet_' AND table_schema "
    "NOT IN (SELECT schema_name FROM information_schema.schemata "
    f"WHERE left(schema_comment, {len(ENVIRONMENT)}) = '{ENVIRONMENT}') ORDER BY 1, 2"
)


_NOT_PUSHED = frozenset({"timestamp", "float"})
"""Types of Spark whose values it writes in another way than the database, in the conditions that it leaves to it."""

_COUNTED = (
    "SELECT coalesce(update_time, create_time), coalesce(auto_increment, 0), coalesce(table_rows, 0) "
    "FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
)
_COLUMNS = (
    "SELECT left(md5(group_concat(column_name, ' ', column_type ORDER BY ordinal_position)), 8) "
    "FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
)
_REMEDY = "Name a column in `options: {version_by: ...}` of the source whose greatest value grows with each change."


def lookup_table(connection: Connection, name: Name) -> str | None:
    """Return what the table or view of that schema and name is, as ``BASE TABLE``; None if there is none."""
    row = connection.execute(_FIND, name).fetchone()
    return None if row is None else str(row[0])


def find_table(connection: Connection, name: Name) -> str:
    """Return what the table or view of that schema and name is. Raises RVT-403 if there is none."""
    kind = lookup_table(connection, name)
    if kind is not None:
        return kind
    schema, table = name
    known = [other for of_schema, other in list_tables(connection) if of_schema == schema]
    hint = nearest(table, known) if known else ": its schema has none that this user may read"
    remedy = "Correct the source's `table`, or the catalog's `schema`; letter case matters."
    raise RivetError("RVT-403", f"there is no table or view {schema}.{table}{hint}", remediation=remedy)


def list_tables(connection: Connection) -> list[tuple[str, str]]:
    """Return schema and name of the tables and views that the user may read, in order."""
    return [(schema, name) for schema, name in connection.execute(_LIST)]


class MariaReader(Reader):
    """Reads the tables of a database, by the names that ``resolve`` returns for those of sources and targets.

    ``driver`` is the class of the JDBC driver.
    """

    def __init__(self, database: Database, resolve: Callable[[str], Name], driver: str) -> None:
        self.database = database
        self.resolve = resolve
        self.driver = driver

    def columns(self, table: str, options: Mapping[str, Any]) -> tuple[Mapping[str, str | None], dict[str, Unreadable]]:
        """Return Spark's types of the columns that can be read, and the others. Raises RVT-403."""
        with self.database.connect(f"the table {table}") as connection:
            _, readable, unreadable = read_table(connection, self.resolve(table), SourceOptions.of(options))
        return {column.selected.name: column.spark_type for column in readable}, unreadable

    def table(self, connection: Connection, table: str, options: Mapping[str, Any]) -> JdbcTable:
        """Return the relation of a table. Raises RVT-204, RVT-403."""
        source, name = SourceOptions.of(options), self.resolve(table)
        _, readable, unreadable = read_table(connection, name, source)
        query = table_query(name, [column.selected for column in readable], DIALECT)
        return self._relation(query, readable, source.fetch_size, unreadable)

    def data_version(self, connection: Connection, name: Name, version_by: str | None) -> str:
        """Return a text that changes when the data of a table changes, or its columns.

        It is the greatest value of the column ``version_by``; without one the time of the last change, in seconds,
        which the server forgets when it stops. Raises RVT-403 for a view without ``version_by``.
        """
        kind = find_table(connection, name)
        columns = connection.execute(_COLUMNS, name).fetchone() or ()
        if version_by is not None:
            known = {column.name: column for column in table_columns(connection, name)}
            if version_by not in known:
                message = f"{'.'.join(name)} has no column '{version_by}', which `version_by` names"
                raise RivetError("RVT-403", message, remediation=_REMEDY)
            query = greatest_value(name, version_by, known[version_by].is_loose, DIALECT)
            changed = connection.execute(query).fetchone() or ()
        elif kind == VIEW:
            message = f"{'.'.join(name)} is a view: the database does not know when its rows have changed"
            raise RivetError("RVT-403", message, remediation=_REMEDY)
        else:
            changed = connection.execute(_COUNTED, name).fetchone() or ()
        return "-".join("" if value is None else str(value) for value in (*changed, *columns))

    def tables(self, connection: Connection) -> list[tuple[str, str]]:
        """Return schema and name of the tables and views that the user may read, in order."""
        return list_tables(connection)

    def current_rows(self, connection: Connection, name: Name, check: str, otherwise: str) -> JdbcTable:
        """Return the relation of a table's rows, as long as the one value of the query ``check`` is true."""
        _, readable, unreadable = read_table(connection, name, SourceOptions())
        guard = is_true(check, otherwise, "SIGNED", DIALECT)
        query = table_query(name, [column.selected for column in readable], DIALECT, only_if=guard)
        return self._relation(query, readable, FETCHED, unreadable)

    def staged_rows(
        self, connection: Connection, name: Name, without: str, query: str | None = None, parts: int = 1
    ) -> JdbcTable:
        """Return the relation of the rows of a table, or of a query, but for the column ``without``."""
        _, readable, unreadable = read_table(connection, name, SourceOptions())
        read = [column for column in readable if column.selected.name != without]
        rows = table_query(name if query is None else query, [column.selected for column in read], DIALECT)
        return self._relation(rows, read, FETCHED, unreadable)

    def _relation(
        self, query: str, read: Sequence[ReadColumn], fetch_size: int, unreadable: Mapping[str, Unreadable]
    ) -> JdbcTable:
        types = ", ".join(f"`{_escaped(column.selected.name)}` {column.spark_type}" for column in read)
        pushes = not _NOT_PUSHED & {column.spark_type for column in read}
        return JdbcTable(
            self.database.url,
            query,
            {
                **self.database.properties,
                "driver": self.driver,
                "fetchsize": str(fetch_size),
                "preferTimestampNTZ": "true",
                "customSchema": types,
                "pushDownPredicate": str(pushes).lower(),
            },
            takes_limit=True,
            unreadable=unreadable,
        )


def read_table(
    connection: Connection, name: Name, source: SourceOptions
) -> tuple[list[MariadbColumn], list[ReadColumn], dict[str, Unreadable]]:
    """Return the columns of a table, how those are read that can be, and why the others cannot. Raises RVT-403."""
    find_table(connection, name)
    columns = table_columns(connection, name)
    return (columns, *read_columns(columns, source.casts, ".".join(name)))


def _escaped(name: str) -> str:
    return name.replace("`", "``")


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
