"""Connections of this process to a database of MariaDB, and its errors as RivetErrors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, ClassVar

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
    missing_driver,
)
from rivet_dagster.catalogs.jdbc.options import MARIADB
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    import pymysql

MODES = "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
"""The modes of all sessions.

Engines quote names with double quotes, which MariaDB would read as texts, and know no escapes in texts.
"""

SETTINGS = f"sql_mode = '{MODES}', time_zone = '+00:00'"
"""The settings of sessions, on which the meaning of statements and the text of values depend."""

_TLS_OF_DRIVER = {
    "disable": "disable",
    "require": "trust",
    "verify-ca": "verify-ca",
    "verify-full": "verify-full",
}
"""The JDBC driver's names of modes of libpq; the other modes encrypt if the server can, or not."""

_LOCKED = "Find the session by SHOW PROCESSLIST; or run it again later."

_LOST = frozenset({2002, 2003, 2005, 2006, 2013, 2055, 1053, 1080, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 0})
_LOCKS = frozenset({1205, 1020})
_DEADLOCK = 1213
_RIGHTS = frozenset({1044, 1045, 1142, 1143, 1227, 1370, 1698})
_READ_ONLY = frozenset({1290, 1836, 1792})
_FULL = frozenset({1021, 1114, 3})
ROWS = frozenset({1048, 1062, 1264, 1265, 1292, 1364, 1366, 1406, 1451, 1452, 1526, 1690, 1906, 3819, 4025, 1022, 1118})
"""The numbers of errors about the values of a row."""
_MISSING = frozenset({1146, 1049, 1054})
_DUPLICATE = 1062


class MariaConnection:
    """A connection of PyMySQL with the methods of ``database.Connection``."""

    def __init__(self, connection: pymysql.connections.Connection[Any]) -> None:
        self._connection = connection

    @property
    def is_open(self) -> bool:
        """Whether nobody has closed it, and the driver knows of no error that has."""
        return bool(self._connection.open)

    def execute(self, query: str, params: Any = None) -> Any:
        """Execute a statement."""
        cursor = self._connection.cursor()
        cursor.execute(query, params)
        return cursor

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction, or a part of one."""
        begin, end, undo = "BEGIN", "COMMIT", "ROLLBACK"
        if self._in_transaction:
            begin, end, undo = "SAVEPOINT rivet", "RELEASE SAVEPOINT rivet", "ROLLBACK TO SAVEPOINT rivet"
        self.execute(begin)
        try:
            yield
        except BaseException:
            if self.is_open and self._in_transaction:
                with suppress(_driver().err.Error):  # a deadlock has ended the transaction, with its savepoints
                    self.execute(undo)
            raise
        self.execute(end)

    def close(self) -> None:
        """Close the connection."""
        if self.is_open:
            self._connection.close()

    @property
    def _in_transaction(self) -> bool:
        from pymysql.constants import SERVER_STATUS

        return bool(self._connection.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)


class MariaDatabase(Database):
    """A database of MariaDB."""

    prefix: ClassVar[str] = MARIADB
    port: ClassVar[int] = 3306
    scheme: ClassVar[str] = "mariadb"

    @property
    def properties(self) -> dict[str, str]:
        """The properties that the JDBC driver needs besides the URL."""
        mode = _TLS_OF_DRIVER.get(self.tls.get("sslmode", ""))
        tls = {"sslMode": mode} if mode is not None else {}
        if "sslrootcert" in self.tls:
            tls["serverSslCert"] = self.tls["sslrootcert"]
        return {
            **self.login,
            **tls,
            "sessionVariables": SETTINGS.replace(" = ", "=").replace(", time", ",time"),
            # Times come as they are in UTC, whatever the zones of the JVM and of the session.
            "preserveInstants": "true",
            "connectionTimeZone": "UTC",
            "yearIsDateType": "false",
            "tinyInt1isBit": "false",
            "tcpKeepAlive": "true",
        }

    @property
    def errors(self) -> type[Exception]:
        """The class of PyMySQL's errors. Raises RVT-123."""
        error: type[Exception] = _driver().err.Error
        return error

    def open(self, application: str = READER) -> MariaConnection:
        """Return a new connection, which the caller closes; errors are PyMySQL's. Raises RVT-123."""
        driver, arguments = _driver(), self.arguments
        attributes = {"program_name": application}
        *others, last = self.servers
        for server in others:
            try:
                connection = driver.connect(
                    **{**arguments, "host": server.host, "port": server.port}, program_name=attributes["program_name"]
                )
                return MariaConnection(connection)
            except driver.err.OperationalError as error:
                if error.args[0] not in _LOST:
                    raise
        connection = driver.connect(**{**arguments, "host": last.host, "port": last.port}, program_name=application)
        return MariaConnection(connection)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``pymysql.connect``, which hold secrets; the host is the first one."""
        from pymysql.constants import CLIENT

        server = self.servers[0]
        given = {key: self.parameters[key] for key in ("user", "password") if key in self.parameters}
        return {
            "host": server.host,
            "port": server.port,
            "database": self.name or None,
            "charset": "utf8mb4",
            "connect_timeout": SECONDS,
            "autocommit": True,
            # Every statement sees what has been committed before it, and rows that match count as changed.
            "init_command": f"SET {SETTINGS}, tx_isolation = 'READ-COMMITTED', lock_wait_timeout = {LOCK_SECONDS}",
            "client_flag": CLIENT.FOUND_ROWS,
            **given,
            **self.login,
            **self._tls_arguments,
        }

    @property
    def _tls_arguments(self) -> Mapping[str, Any]:
        mode = self.tls.get("sslmode", "")
        if mode == "disable":
            return {"ssl_disabled": True}
        if mode not in ("require", "verify-ca", "verify-full"):
            return {}
        if mode == "require":
            return {"ssl_verify_cert": False, "ssl": {"check_hostname": False, "verify_mode": "none"}}
        certificate = self.tls.get("sslrootcert")
        return {"ssl_ca": certificate, "ssl_verify_cert": True, "ssl_verify_identity": mode == "verify-full"}

    def is_lost(self, error: Exception) -> bool:
        """Return whether the server has not answered."""
        return code_of(error) in _LOST

    def is_duplicate(self, error: Exception) -> bool:
        """Return whether it is a duplicate entry."""
        return code_of(error) == _DUPLICATE

    def refused(self, about: str, error: Exception) -> RivetError:
        """Return an error of writing."""
        code, text = code_of(error), text_of(error)
        if code == _DEADLOCK:
            message = f"{about}: another session and this one have waited for each other: {text}"
            return RivetError("RVT-404", message, remediation=_LOCKED)
        if code in _LOCKS:
            message = f"{about}: another session has held a lock for more than {LOCK_SECONDS} seconds: {text}"
            return RivetError("RVT-404", message, remediation=_LOCKED)
        if code in _READ_ONLY:
            message = f"{about}: {self.uri} can only be read, like a replica: {text}"
            return RivetError("RVT-404", message, remediation="Name the primary server in the catalog's `url`.")
        if code in _LOST:
            return RivetError("RVT-510", f"{about}: the connection to {self.uri} is lost: {text}")
        if code in _RIGHTS:
            return RivetError("RVT-404", f"{about}: access is refused: {text}", remediation=LOG_IN)
        if code in _FULL:
            return RivetError("RVT-404", f"{about}: the database's disk is full: {text}", remediation=SPACE)
        if code in ROWS:
            return RivetError("RVT-527", f"{about}: the database refuses a row: {without_values(text)}")
        return RivetError("RVT-404", f"{about}: the database refuses it: {text}", remediation=REFUSED)

    def translated(self, about: str, error: Exception) -> RivetError:
        """Return an error of reading."""
        code, text = code_of(error), text_of(error)
        if code in _MISSING:
            return RivetError("RVT-403", f"{about}: {text}", remediation=EXISTS)
        if code in _RIGHTS:
            return RivetError("RVT-403", f"{about}: access is refused: {text}", remediation=LOG_IN)
        if code in _LOST:
            return RivetError("RVT-403", f"{about}: {self.uri} cannot be reached: {text}", remediation=REACH)
        return RivetError("RVT-403", f"{about}: the database answers: {text}", remediation=REACH)


def code_of(error: Exception) -> int:
    """Return the number of an error of PyMySQL; 0 for one of its own, as on a connection that is closed."""
    first = error.args[0] if error.args else 0
    return first if isinstance(first, int) else 0


def text_of(error: Exception) -> str:
    """Return the text of an error of PyMySQL in one line."""
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    return " ".join(text.split()) or "the connection is closed"


def without_values(text: str) -> str:
    """Return the text of an error about a row without the value that it quotes.

    >>> without_values("Duplicate entry 'secret' for key 'PRIMARY'")
    "Duplicate entry for key 'PRIMARY'"
    """
    import re

    text = re.sub(r"^(Duplicate entry) '.*' (for key)", r"\1 \2", text)
    return re.sub(r"^(Incorrect \S+ value): '.*' (for column)", r"\1 \2", text)


def _driver() -> Any:
    try:
        import pymysql
    except ImportError as error:
        raise missing_driver("PyMySQL", "mariadb", error) from error
    return pymysql
