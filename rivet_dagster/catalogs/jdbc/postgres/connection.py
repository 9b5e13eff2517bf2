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

_EXTRA = "pip install 'rivet_dagster[postgres]'"
_REACH = "Check the catalog's `url`, and that the database accepts connections from here."
_LOG_IN = "Correct the catalog's `user` and `password`, or have the rights granted."
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

    def open(self) -> psycopg.Connection[Any]:
        """Return a new connection, which the caller closes; errors are psycopg's. Raises RVT-123."""
        driver = _driver()
        servers, (_, _, parameters) = self.servers, self._split
        given = {key: value for key, value in parameters.items() if key in ("user", "password", *TLS)}
        connection: psycopg.Connection[Any] = driver.connect(
            host=",".join(server.host for server in servers),
            port=",".join(str(server.port) for server in servers),
            dbname=self.name or given.get("user", ""),
            connect_timeout=SECONDS,
            application_name=READER,
            autocommit=True,
            keepalives_idle=30,
            keepalives_interval=10,
            keepalives_count=3,
            tcp_user_timeout=60_000,
            prepare_threshold=None,  # a pooler may give each transaction another session
            **{**given, **self.login, **self.tls},
        )
        return connection

    @contextmanager
    def translate_errors(self, what: str = "") -> Iterator[None]:
        """Turn errors of psycopg in the block into RVT-403; ``what`` names what was asked for."""
        driver = _driver()
        try:
            yield
        except driver.Error as error:
            raise self._translated(what, error) from error

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
