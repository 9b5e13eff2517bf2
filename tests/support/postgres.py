"""A PostgreSQL server on this machine, from Debian's package."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg2

from support.maven import missing

USER, PASSWORD = "rivet", "pass/word"
_SECONDS = 60


@dataclass(frozen=True)
class Database:
    """A database of the server, and how each library names it."""

    name: str
    port: int
    user: str = USER
    password: str = PASSWORD

    @property
    def jdbc(self) -> str:
        """The JDBC URL, without user and password."""
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{self.name}"

    @property
    def dsn(self) -> str:
        """The connection string of psycopg2 and DuckDB."""
        return f"host=127.0.0.1 port={self.port} dbname={self.name} user={self.user} password='{self.password}'"


@dataclass
class Postgres:
    """A running server that ends with the tests; it listens on this machine alone."""

    port: int
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def database(self) -> Database:
        """Create a database without tables."""
        database = Database(f"db{next(self._numbers)}", self.port)
        with _closing(Database("postgres", self.port).dsn) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {database.name}")
        return database


@contextmanager
def postgres_server() -> Iterator[Postgres]:
    """Yield a server; skip where PostgreSQL is not installed, and fail in CI."""
    programs = _programs()
    if programs is None:
        missing("no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    # Not in a folder of pytest's, which nobody else may enter, and the server refuses to run as root.
    with tempfile.TemporaryDirectory(prefix="rivet-postgres-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        as_user = _as_other_user(folder)
        password, data, log = folder / "password", folder / "data", folder / "server.log"
        password.write_text(PASSWORD)
        initialize = [f"{programs}/initdb", "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        initialize += [f"--pgdata={data}", f"--username={USER}", f"--pwfile={password}"]
        subprocess.run([*as_user, *initialize], check=True, capture_output=True, cwd=folder)
        port = _free_port()
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        command = [f"{programs}/postgres", f"-D{data}", *(f"-c{key}={value}" for key, value in settings.items())]
        with log.open("w") as output:
            server = subprocess.Popen(
                [*as_user, *command], cwd=folder, stdout=output, stderr=output, start_new_session=True
            )
        try:
            _wait_for(port, server, log)
            yield Postgres(port)
        finally:
            server.send_signal(signal.SIGINT)  # "fast": it ends its connections
            server.wait(30)


def _programs() -> Path | None:
    """Return the folder of the server's programs, which Debian does not have on PATH."""
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("postgres")
    return newest[-1].parent if newest else Path(on_path).parent if on_path else None


def _as_other_user(folder: Path) -> Sequence[str]:
    """Return what a command of root begins with, so that the owner of ``folder`` runs it."""
    if os.geteuid() != 0:
        return ()
    shutil.chown(folder, "postgres", "postgres")
    return ("setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--pdeathsig=TERM")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_for(port: int, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            psycopg2.connect(Database("postgres", port).dsn).close()
            return
        except psycopg2.OperationalError:
            assert server.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)


@contextmanager
def _closing(dsn: str) -> Iterator[psycopg2.extensions.connection]:
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    try:
        yield connection
    finally:
        connection.close()
