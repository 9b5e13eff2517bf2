"""Connections of this process to a database, and its errors as RivetErrors.

The rows themselves are read by the engine, through the JDBC driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from rivet_dagster.catalogs.jdbc.options import POSTGRES, TLS
from rivet_dagster.catalogs.jdbc.postgres.open_transactions import READER
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import Server, servers_in

if TYPE_CHECKING:
    import psycopg

_PORT = 5432
SECONDS = 10
"""The seconds that a connection may take."""

WRITER = "rivet_dagster writer"
"""The name of sessions that write, as the database shows it."""

LOCK_SECONDS = 30
"""For how many seconds a publication waits for a lock that another session holds."""

_EXTRA = "pip install 'rivet_dagster[postgres]'"
_REACH = "Check the catalog's `url`, and that the database accepts connections from here."
_LOG_IN = "Correct the catalog's `user` and `password`, or have the rights granted."
_LOCKED = "Find the session in pg_stat_activity; or run it again later."
_SPACE = "Free space there, and run it again."
_DEPENDENT = "Have the views that use it dropped, or keep the columns: `write_strategy: truncate_insert`."
_REFUSED = "Correct the table in the database, or the joint that is published to it."
_EXISTS = "Correct the source's `table`, or the catalog's `schema` or `url`."


@dataclass(frozen=True)
class Database:
    """A database by its JDBC URL, and how to log in."""

    catalog: str
    url: str
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, catalog: str, options: Mapping[str, Any], root: Path) -> Database:
        """Return the database of a catalog with these options, which are valid; paths are relative to ``root``."""
        login = {key: str(options[key]) for key in ("user", "password") if key in options}
        tls = {key: str(options[key]) for key in TLS if key in options}
        if "sslrootcert" in tls:
            tls["sslrootcert"] = str(root.resolve() / tls["sslrootcert"])
        return cls(catalog, str(options["url"]), login, tls)

    @property
    def hosts(self) -> str:
        """The hosts with their ports, as the URL has them; empty for this machine."""
        return self._split[0]

    @property
    def servers(self) -> tuple[Server, ...]:
        """The servers, of which the first one that answers is used."""
        return servers_in(self.hosts or "localhost", _PORT)

    @property
    def name(self) -> str:
        """The name of the database, by default that of the user."""
        return self._split[1] or self.login.get("user", "")

    @property
    def uri(self) -> str:
        """The address of the database, without a user or a password."""
        return f"postgresql://{','.join(map(str, self.servers))}/{quote(self.name)}"

    @property
    def properties(self) -> dict[str, str]:
        """The properties that the JDBC driver needs besides the URL."""
        return {**self.login, **self.tls, "ApplicationName": READER, "tcpKeepAlive": "true"}

    @property
    def _split(self) -> tuple[str, str, Mapping[str, str]]:
        """The hosts, the name of the database, and the parameters of the URL."""
        address, _, parameters = self.url.removeprefix(POSTGRES).partition("?")
        hosts, _, name = address.removeprefix("//").partition("/") if address.startswith("//") else ("", "", address)
        return hosts, name, dict(parse_qsl(parameters))

    @contextmanager
    def connect(self, what: str = "") -> Iterator[psycopg.Connection[Any]]:
        """Connect for the block, which is no transaction; errors in it are RVT-403, about ``what``. Raises RVT-123."""
        with self.translate_errors(what):
            connection = self.open()
            try:
                yield connection
            finally:
                connection.close()

    @contextmanager
    def connect_to_write(self, table: str) -> Iterator[psycopg.Connection[Any]]:
        """Connect for the block, which is no transaction; errors in it are about ``table``, as ``_refused`` says."""
        with self.translate_write_errors(table):
            connection = self.open(WRITER)
            try:
                yield connection
            finally:
                connection.close()

    def open(self, application: str = READER) -> psycopg.Connection[Any]:
        """Return a new connection, which the caller closes; errors are psycopg's. Raises RVT-123."""
        arguments = {**self.arguments, "application_name": application}
        connection: psycopg.Connection[Any] = _driver().connect(**arguments, autocommit=True)
        return connection

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``psycopg.connect``, which hold secrets."""
        servers, (_, _, parameters) = self.servers, self._split
        given = {key: value for key, value in parameters.items() if key in ("user", "password", *TLS)}
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

    @contextmanager
    def translate_errors(self, what: str = "") -> Iterator[None]:
        """Turn errors of psycopg in the block into RVT-403; ``what`` names what was asked for."""
        driver = _driver()
        try:
            yield
        except driver.Error as error:
            raise self._translated(what, error) from error

    @contextmanager
    def translate_write_errors(self, table: str) -> Iterator[None]:
        """Turn errors of psycopg in the block into RVT-404, or RVT-510 for a lost connection; none has values of rows.

        A table or a version that is gone is RVT-406: a sweep has removed it.
        """
        driver = _driver()
        try:
            yield
        except driver.Error as error:
            raise self._refused(table, error) from error

    def _refused(self, table: str, error: psycopg.Error) -> RivetError:
        from psycopg import errors

        about = f"catalog '{self.catalog}': '{table}'"
        text = error.diag.message_primary or first_line(error)
        if isinstance(error, errors.LockNotAvailable):
            message = f"{about}: another session has held a lock for more than {LOCK_SECONDS} seconds: {text}"
            return RivetError("RVT-404", message, remediation=_LOCKED)
        if isinstance(error, errors.ReadOnlySqlTransaction):
            message = f"{about}: {self.uri} can only be read, like a replica: {text}"
            return RivetError("RVT-404", message, remediation="Name the primary server in the catalog's `url`.")
        if error.sqlstate is None or error.sqlstate.startswith(("08", "57P")):
            return RivetError("RVT-510", f"{about}: the connection to {self.uri} is lost: {text}")
        if isinstance(error, errors.InsufficientPrivilege):
            return RivetError("RVT-404", f"{about}: access is refused: {text}", remediation=_LOG_IN)
        if isinstance(error, errors.DiskFull):
            return RivetError("RVT-404", f"{about}: the database's disk is full: {text}", remediation=_SPACE)
        if isinstance(error, errors.DependentObjectsStillExist):
            return RivetError("RVT-404", f"{about}: {text}", remediation=_DEPENDENT)
        if error.sqlstate.startswith(("22", "23")):
            return RivetError("RVT-527", f"{about}: the database refuses a row: {text}")
        return RivetError("RVT-404", f"{about}: the database refuses it: {text}", remediation=_REFUSED)

    def _translated(self, what: str, error: psycopg.Error) -> RivetError:
        from psycopg import errors

        about = f"catalog '{self.catalog}': {what}" if what else f"catalog '{self.catalog}'"
        text = first_line(error)
        if isinstance(error, errors.UndefinedTable | errors.InvalidSchemaName | errors.UndefinedColumn):
            return RivetError("RVT-403", f"{about}: {text}", remediation=_EXISTS)
        if isinstance(error, errors.InsufficientPrivilege) or "authentication failed" in text:
            return RivetError("RVT-403", f"{about}: access is refused: {text}", remediation=_LOG_IN)
        if error.sqlstate is None:  # no answer of the server
            return RivetError("RVT-403", f"{about}: {self.uri} cannot be reached: {text}", remediation=_REACH)
        return RivetError("RVT-403", f"{about}: the database answers: {text}", remediation=_REACH)


def first_line(error: Exception) -> str:
    """Return what a database says went wrong, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL:" in line]
    return (fatal or lines or [type(error).__name__])[0]


def _driver() -> Any:
    try:
        import psycopg
    except ImportError as error:
        message = f"a catalog of the type jdbc needs the package psycopg: {error}"
        raise RivetError("RVT-123", message, remediation=_EXTRA) from error
    return psycopg
