"""The interface of all databases of the catalog: connections of this process, and errors as RivetErrors.

A connection stays open for a moment after its use, since a run asks its database many short questions. The rows
themselves are read and written by engines, through the JDBC driver and in tasks of their own.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar
from urllib.parse import parse_qsl, quote

from rivet_dagster.catalogs.jdbc.options import TLS
from rivet_dagster.errors import RivetError
from rivet_dagster.machine import Server, servers_in

READER = "rivet_dagster reader"
"""The name by which sessions that read rows tell the database what they are."""

WRITER = "rivet_dagster writer"
"""The name of all other sessions, as the database shows it."""

SECONDS = 10
"""The seconds that a connection may take."""

IDLE_SECONDS = 2.0
"""For how long nobody may use an open connection."""

LOCK_SECONDS = 30
"""For how many seconds a publication waits for a lock that another session holds."""

REACH = "Check the catalog's `url`, and that the database accepts connections from here."
LOG_IN = "Correct the catalog's `user` and `password`, or have the rights granted."
SPACE = "Free space there, and run it again."
REFUSED = "Correct the table in the database, or the joint that is published to it."
EXISTS = "Correct the source's `table`, or the catalog's `schema` or `url`."


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int:
        """The number of rows that were changed."""

    def fetchone(self) -> Any:
        """Return the next row, a tuple; None behind the last."""

    def fetchall(self) -> list[Any]:
        """Return the rows."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection, each of whose statements is a transaction of its own but in a block of ``transaction``.

    Values are written ``%s`` or ``%(name)s``; a statement without values may have any ``%``.
    """

    def execute(self, query: Any, params: Any = None) -> Cursor:
        """Execute a statement."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Begin a transaction, or a part of one, which ends with the block."""

    def close(self) -> None:
        """Close the connection, which ends its transaction."""


class IdleConnection:
    """At most one open connection that nobody uses; it is closed after ``IDLE_SECONDS``. All threads share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: tuple[Connection, threading.Timer] | None = None

    def take(self) -> Connection | None:
        """Return the connection, which is the caller's from now on; None without one."""
        with self._lock:
            waiting, self._waiting = self._waiting, None
        if waiting is None:
            return None
        connection, timer = waiting
        timer.cancel()
        return connection

    def keep(self, connection: Connection) -> None:
        """Keep a connection that is in no transaction; close it if another one is kept."""
        timer = threading.Timer(IDLE_SECONDS, self._close, [connection])
        timer.daemon = True
        with self._lock:
            if self._waiting is None:
                self._waiting = connection, timer
                timer.start()
                return
        connection.close()

    def _close(self, connection: Connection) -> None:
        with self._lock:
            if self._waiting is None or self._waiting[0] is not connection:
                return
            self._waiting = None
        connection.close()


Self = TypeVar("Self", bound="Database")


@dataclass(frozen=True)
class Database(ABC):
    """A database by its JDBC URL, and how to log in."""

    catalog: str
    url: str
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: Mapping[str, str] = field(default_factory=dict)
    _idle: IdleConnection = field(init=False, default_factory=IdleConnection, repr=False, compare=False)

    prefix: ClassVar[str]
    """The beginning of the URL."""
    port: ClassVar[int]
    scheme: ClassVar[str]
    """The scheme of addresses that are shown."""

    @classmethod
    def of(cls: type[Self], catalog: str, options: Mapping[str, Any], root: Path) -> Self:
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
        return servers_in(self.hosts or "localhost", self.port)

    @property
    def name(self) -> str:
        """The name of the database, by default that of the user."""
        return self._split[1] or self.login.get("user", "")

    @property
    def parameters(self) -> Mapping[str, str]:
        """The parameters of the URL."""
        return self._split[2]

    @property
    def uri(self) -> str:
        """The address of the database, without a user or a password."""
        return f"{self.scheme}://{','.join(map(str, self.servers))}/{quote(self.name)}"

    @property
    def _split(self) -> tuple[str, str, Mapping[str, str]]:
        """The hosts, the name of the database, and the parameters of the URL."""
        address, _, parameters = self.url.removeprefix(self.prefix).partition("?")
        hosts, _, name = address.removeprefix("//").partition("/") if address.startswith("//") else ("", "", address)
        return hosts, name, dict(parse_qsl(parameters))

    @contextmanager
    def connect(self, what: str = "") -> Iterator[Connection]:
        """Connect for the block, which is no transaction; errors in it are RVT-403, about ``what``. Raises RVT-123."""
        with self.translate_errors(what), self._connected() as connection:
            yield connection

    @contextmanager
    def connect_to_write(self, table: str) -> Iterator[Connection]:
        """Connect for the block, which is no transaction; errors are those of ``translate_write_errors``."""
        with self.translate_write_errors(table), self._connected() as connection:
            yield connection

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        connection = self._reused() or self.open(WRITER)
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        self._idle.keep(connection)

    def _reused(self) -> Connection | None:
        """Return the connection that was used a moment ago, if the server still answers on it."""
        connection = self._idle.take()
        if connection is None:
            return None
        try:
            connection.execute("SELECT 1")
        except self.errors:
            connection.close()
            return None
        return connection

    @contextmanager
    def translate_errors(self, what: str = "") -> Iterator[None]:
        """Turn errors of the database in the block into RVT-403; ``what`` names what was asked for."""
        try:
            yield
        except self.errors as error:
            about = f"catalog '{self.catalog}': {what}" if what else f"catalog '{self.catalog}'"
            raise self.translated(about, error) from error

    @contextmanager
    def translate_write_errors(self, table: str) -> Iterator[None]:
        """Turn errors of the database in the block into RVT-404, RVT-510 for a lost connection, RVT-527 for a row.

        No text has values of rows.
        """
        try:
            yield
        except self.errors as error:
            raise self.refused(f"catalog '{self.catalog}': '{table}'", error) from error

    @property
    @abstractmethod
    def properties(self) -> dict[str, str]:
        """The properties that the JDBC driver needs besides the URL."""

    @property
    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """The arguments with which the Python driver connects, which hold secrets."""

    @property
    @abstractmethod
    def errors(self) -> type[Exception]:
        """The class of the errors of the Python driver. Raises RVT-123."""

    @abstractmethod
    def open(self, application: str = READER) -> Connection:
        """Return a new connection, which the caller closes; errors are the driver's. Raises RVT-123."""

    @abstractmethod
    def is_lost(self, error: Exception) -> bool:
        """Return whether an error may be that of a lost connection, so that nobody knows what has become of it."""

    @abstractmethod
    def is_duplicate(self, error: Exception) -> bool:
        """Return whether an error is that of a row whose key is there already."""

    @abstractmethod
    def translated(self, about: str, error: Any) -> RivetError:
        """Return an error of reading as RVT-403."""

    @abstractmethod
    def refused(self, about: str, error: Any) -> RivetError:
        """Return an error of writing as RVT-404, RVT-510 or RVT-527."""


def first_line(error: Exception) -> str:
    """Return what a database says went wrong, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    fatal = [line for line in lines if "FATAL:" in line]
    return (fatal or lines or [type(error).__name__])[0]


def missing_driver(package: str, extra: str, error: ImportError) -> RivetError:
    """Return RVT-123 for a Python driver that is not installed."""
    message = f"a catalog of the type jdbc with this `url` needs the package {package}: {error}"
    return RivetError("RVT-123", message, remediation=f"pip install 'rivet_dagster[{extra}]'")
