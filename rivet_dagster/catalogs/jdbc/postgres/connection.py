"""Connections of this process to a database of PostgreSQL, and its errors as RivetErrors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlencode

from rivet_dagster.catalogs.jdbc.database import (
    EXISTS,
    LOCK_SECONDS,
    LOG_IN,
    REACH,
    READER,
    REFUSED,
    SECONDS,
    SPACE,
    Database,
    first_line,
    missing_driver,
)
from rivet_dagster.catalogs.jdbc.options import POSTGRES, TLS
from rivet_dagster.errors import RivetError
from rivet_dagster.model.database_limits import exceeded_limit

if TYPE_CHECKING:
    import psycopg

_WITH_TRANSACTION_TIMEOUT = 170_000
_LOCKED = "Find the session in pg_stat_activity; or run it again later."
_NO_SCHEMA = "Have it made (CREATE SCHEMA), with the right to create tables there; or correct `table`."
_DEPENDENT = "Have the views that use it dropped, or keep the columns: `write_strategy: truncate_insert`."


class PostgresDatabase(Database):
    """A database of PostgreSQL."""

    prefix: ClassVar[str] = POSTGRES
    port: ClassVar[int] = 5432
    scheme: ClassVar[str] = "postgresql"

    @property
    def properties(self) -> dict[str, str]:
        """The properties that the JDBC driver needs besides the URL."""
        return {**self.login, **self.tls}

    def reading_url(self, in_binary: bool) -> str:
        """Return the URL with settings of the JDBC driver for reading, unless it has other ones.

        They are no properties, since Spark writes the names of these in lower case where a table is read in parts.
        ``in_binary`` has values sent as numbers, not as texts, by prepared statements, which a pooler confuses.
        """
        settings = {"ApplicationName": READER, "tcpKeepAlive": "true"}
        if in_binary:
            settings["prepareThreshold"] = "-1"
        added = {name: value for name, value in settings.items() if name not in self.parameters}
        address, _, given = self.url.partition("?")
        return f"{address}?{'&'.join(filter(None, (given, urlencode(added, quote_via=quote))))}"

    @property
    def errors(self) -> type[Exception]:
        """The class of psycopg's errors. Raises RVT-123."""
        error: type[Exception] = _driver().Error
        return error

    def open(self, application: str = READER) -> psycopg.Connection[Any]:
        """Return a new connection, which the caller closes; errors are psycopg's. Raises RVT-123."""
        arguments = {**self.arguments, "application_name": application}
        connection: psycopg.Connection[Any] = _driver().connect(**arguments, autocommit=True)
        return connection

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``psycopg.connect``, which hold secrets."""
        servers = self.servers
        given = {key: value for key, value in self.parameters.items() if key in ("user", "password", *TLS)}
        return {
            "host": ",".join(server.host for server in servers),
            "port": ",".join(str(server.port) for server in servers),
            "dbname": self.name or given.get("user", ""),
            "connect_timeout": SECONDS,
            "keepalives_idle": 30,
            "keepalives_interval": 10,
            "keepalives_count": 3,
            "tcp_user_timeout": 60_000,
            "prepare_threshold": None,  # a pooler may give each transaction another session
            **given,
            **self.login,
            **self.tls,
        }

    def is_lost(self, error: Exception) -> bool:
        """Return whether it is an OperationalError, as those of connections are."""
        return isinstance(error, _driver().OperationalError)

    def is_duplicate(self, error: Exception) -> bool:
        """Return whether it is a UniqueViolation."""
        return isinstance(error, _driver().errors.UniqueViolation)

    def limited(self, about: str, text: str) -> RivetError | None:
        """Return the error of a limit that the text of another one names, RVT-528 or RVT-510; None without one."""
        limit = exceeded_limit(text)
        if limit is None:
            return None
        return RivetError(limit.code, f"{about}: {limit.told}: {text}", remediation=limit.remedy)

    def refused(self, about: str, error: psycopg.Error) -> RivetError:
        """Return an error of writing."""
        from psycopg import errors

        text = error.diag.message_primary or first_line(error)
        if isinstance(error, errors.LockNotAvailable):
            message = f"{about}: another session has held a lock for more than {LOCK_SECONDS} seconds: {text}"
            return RivetError("RVT-404", message, remediation=_LOCKED)
        if (limited := self.limited(about, text)) is not None:
            return limited
        if isinstance(error, errors.ReadOnlySqlTransaction):
            message = f"{about}: {self.uri} can only be read, like a replica: {text}"
            return RivetError("RVT-404", message, remediation="Name the primary server in the catalog's `url`.")
        if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
            return RivetError("RVT-510", f"{about}: the connection to {self.uri} is lost: {text}")
        if isinstance(error, errors.InsufficientPrivilege):
            return RivetError("RVT-404", f"{about}: access is refused: {text}", remediation=LOG_IN)
        if isinstance(error, errors.InvalidSchemaName):
            return RivetError("RVT-404", f"{about}: {text}", remediation=_NO_SCHEMA)
        if isinstance(error, errors.DiskFull):
            return RivetError("RVT-404", f"{about}: the database's disk is full: {text}", remediation=SPACE)
        if isinstance(error, errors.DependentObjectsStillExist):
            return RivetError("RVT-404", f"{about}: {text}", remediation=_DEPENDENT)
        if error.sqlstate.startswith(("22", "23")):
            return RivetError("RVT-527", f"{about}: the database refuses a row: {text}")
        return RivetError("RVT-404", f"{about}: the database refuses it: {text}", remediation=REFUSED)

    def translated(self, about: str, error: psycopg.Error) -> RivetError:
        """Return an error of reading."""
        from psycopg import errors

        text = first_line(error)
        if (limited := self.limited(about, text)) is not None:
            return limited
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName | errors.UndefinedColumn):
            return RivetError("RVT-403", f"{about}: {text}", remediation=EXISTS)
        if isinstance(error, errors.InsufficientPrivilege) or "authentication failed" in text:
            return RivetError("RVT-403", f"{about}: access is refused: {text}", remediation=LOG_IN)
        if error.sqlstate is None:  # no answer of the server
            return RivetError("RVT-403", f"{about}: {self.uri} cannot be reached: {text}", remediation=REACH)
        return RivetError("RVT-403", f"{about}: the database answers: {text}", remediation=REACH)


def is_direct(connection: Any) -> bool:
    """Return whether a connection is one to the server, not to a pooler, which gives connections numbers of its own."""
    (number,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    return bool(number == connection.info.backend_pid)


def unlimited_waits(connection: Any) -> str:
    """Return the statements by which a transaction stays open as long as an engine needs it.

    They are no query of ``pg_settings``: the JDBC driver would have one described before a snapshot is set, which has
    to come first.
    """
    names = ["idle_in_transaction_session_timeout"]
    if connection.info.server_version >= _WITH_TRANSACTION_TIMEOUT:
        names.append("transaction_timeout")
    return "; ".join(f"SET LOCAL {name} = 0" for name in names)


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise missing_driver("psycopg", "postgres", error) from error
    return psycopg
