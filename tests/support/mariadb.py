"""A MariaDB server on this machine, from Debian's package."""

from __future__ import annotations

import copy
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.certificates import make_certificate
from support.folders import PROFILES, Files
from support.maven import missing

if TYPE_CHECKING:
    import pymysql

USER, PASSWORD = "rivet", "pass/word"
_SECONDS = 60
_NO_SETTINGS: Mapping[str, str] = {}
_NO_OPTIONS: Mapping[str, Any] = {}


@dataclass(frozen=True)
class MariaSchema:
    """A database of the server."""

    name: str
    port: int
    user: str = USER
    password: str = PASSWORD

    @property
    def jdbc(self) -> str:
        """The JDBC URL, without user and password."""
        return f"jdbc:mariadb://127.0.0.1:{self.port}/{self.name}"

    def connect(self) -> pymysql.connections.Connection[Any]:
        """Return a connection, in UTC, with the server's own modes."""
        settings: dict[str, Any] = {"autocommit": True, "init_command": "SET time_zone = '+00:00'"}
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user=self.user,
            password=self.password,
            database=self.name,
            charset="utf8mb4",
            **settings,
        )

    def execute(self, *statements: str) -> None:
        """Execute statements, each in a transaction of its own."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def of_own_user(self) -> MariaSchema:
        """Return the database as a new user has it, who has rights to it and to its environments alone."""
        user = f"'{self.name}'@'127.0.0.1'"
        # An underscore in the name of a grant stands for any character.
        self.execute(
            f"CREATE USER {user} IDENTIFIED BY '{self.password}'",
            f"GRANT ALL ON `{self.name}`.* TO {user}",
            f"GRANT ALL ON `{self.name}\\_\\_%`.* TO {user}",
        )
        return replace(self, user=self.name)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())


@dataclass
class MariaDB:
    """A running server that ends with the tests; it listens on this machine alone."""

    port: int
    _command: Sequence[str | Path]
    _folder: Path
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def database(self) -> MariaSchema:
        """Create a database without tables."""
        database = MariaSchema(f"db{next(self._numbers)}", self.port)
        MariaSchema("mysql", self.port).execute(f"CREATE DATABASE {database.name} CHARACTER SET utf8mb4")
        return database

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        log = self._folder / "server.log"
        with log.open("a") as output:
            self._process = subprocess.Popen(
                self._command, cwd=self._folder, stdout=output, stderr=output, start_new_session=True
            )
        _wait_for(MariaSchema("mysql", self.port), self._process, log)

    def crash(self) -> None:
        """Kill the server, and start it again."""
        self._process.kill()
        self._process.wait(60)
        self.start()

    def stop(self) -> None:
        """Stop the server."""
        self._process.terminate()
        self._process.wait(60)


@contextmanager
def mariadb_server(further: Mapping[str, str] = _NO_SETTINGS) -> Iterator[MariaDB]:
    """Yield a server with ``further`` settings; skip where MariaDB is not installed, and fail in CI."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin"
    server, install = (shutil.which(name, path=path) for name in ("mariadbd", "mariadb-install-db"))
    if server is None or install is None:
        missing("no MariaDB on this machine (Debian: apt-get install mariadb-server)")
    # Not in a folder of pytest's, which nobody else may enter, and the server refuses to run as root.
    with tempfile.TemporaryDirectory(prefix="rivet-mariadb-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        as_user = _as_other_user(folder)
        data, first = folder / "data", folder / "first.sql"
        # A server that starts removes temporary tables from its folder for them; another that uses these crashes.
        temporary = folder / "temporary"
        subprocess.run([*as_user, "mkdir", str(temporary)], check=True)
        command = [
            install,
            "--no-defaults",
            f"--datadir={data}",
            f"--tmpdir={temporary}",
            "--skip-test-db",
            "--auth-root-authentication-method=normal",
            *(f"--{key}={value}" for key, value in further.items() if key.startswith("innodb")),
        ]
        subprocess.run([*as_user, *command], check=True, capture_output=True, cwd=folder)
        first.write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'127.0.0.1' WITH GRANT OPTION;\n"
        )
        first.chmod(0o644)
        port = _free_port()
        settings = {
            "datadir": str(data),
            "tmpdir": str(temporary),
            "port": str(port),
            "bind-address": "127.0.0.1",
            "socket": str(folder / "socket"),
            "pid-file": str(folder / "pid"),
            "init-file": str(first),
            "innodb-flush-log-at-trx-commit": "0",
            "innodb-log-file-size": "32M",
            "innodb-flush-method": "nosync",
            "skip-name-resolve": "1",
            **further,
        }
        command = [server, "--no-defaults", *(f"--{key}={value}" for key, value in settings.items())]
        running = MariaDB(port, [*as_user, *command], folder)
        try:
            running.start()
            yield running
        finally:
            running.stop()


@contextmanager
def tls_server() -> Iterator[tuple[MariaDB, Path]]:
    """Yield a server that takes encrypted connections alone, and the file of its certificate."""
    with tempfile.TemporaryDirectory(prefix="rivet-mariadb-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        certificate, key = make_certificate(folder, "mysql" if _as_other_user(folder) else None)
        settings = {"ssl-cert": str(certificate), "ssl-key": str(key), "require-secure-transport": "ON"}
        with mariadb_server(settings) as server:
            yield server, certificate


def _as_other_user(folder: Path) -> Sequence[str]:
    """Return what a command of root begins with, so that the owner of ``folder`` runs it."""
    if os.geteuid() != 0:
        return ()
    shutil.chown(folder, "mysql", "mysql")
    return ("setpriv", "--reuid=mysql", "--regid=mysql", "--init-groups", "--pdeathsig=TERM")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(database: MariaSchema, server: subprocess.Popen[bytes], log: Path) -> None:
    import pymysql

    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            database.connect().close()
            return
        except pymysql.err.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)


def profiles(database: MariaSchema, **options: Any) -> dict[str, Any]:
    """Return profiles with a catalog `shop`, the database, beside the usual ones."""
    found = copy.deepcopy(PROFILES)
    shop = {"type": "jdbc", "url": database.jdbc, "user": database.user, "password": database.password}
    found["default"]["catalogs"]["shop"] = {**shop, "reads": "locked", **options}
    found["default"]["engines"][0]["catalogs"].append("shop")
    return found


def reading(database: MariaSchema, query: str, sources: Mapping[str, Mapping[str, Any]], **options: Any) -> Files:
    """Return a project that publishes the rows of a query of sources as the table `read` of folders."""
    files = {f"sources/{name}.yaml": content for name, content in sources.items()}
    return {
        "profiles.yaml": profiles(database, **options),
        "joints/read.sql": f"-- rivet:catalog: lake\n{query}",
        **files,
    }


def publishing(database: MariaSchema, query: str, /, catalog: Mapping[str, Any] = _NO_OPTIONS, **fields: Any) -> Files:
    """Return a project that publishes the rows of a query as the table `orders` of the database."""
    sink = {"type": "sink", "catalog": "shop", "table": "orders", "upstream": ["made"], **fields}
    return {"profiles.yaml": profiles(database, **catalog), "joints/made.sql": query, "sinks/orders.yaml": sink}
