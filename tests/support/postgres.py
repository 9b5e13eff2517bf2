"""A PostgreSQL server on this machine, from Debian's package."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg2

from support.certificates import make_certificate
from support.maven import missing

NO_SETTINGS: Mapping[str, str] = {}

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
def postgres_server(settings: Mapping[str, str] = NO_SETTINGS) -> Iterator[Postgres]:
    """Yield a server with these ``settings``; skip where PostgreSQL is not installed, and fail in CI."""

    def initialize(folder: Path, data: Path) -> list[str]:
        password = folder / "password"
        password.write_text(PASSWORD)
        command = [f"{_need_programs()}/initdb", "--no-sync", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        return [*command, f"--pgdata={data}", f"--username={USER}", f"--pwfile={password}"]

    with _server(initialize, settings) as port:
        yield Postgres(port)


@contextmanager
def tls_server() -> Iterator[tuple[Postgres, Path]]:
    """Yield a server with a certificate for this machine, and the file of the certificate."""
    with tempfile.TemporaryDirectory(prefix="rivet-postgres-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        certificate, key = make_certificate(folder, "postgres" if _as_other_user(folder) else None)
        settings = {"ssl": "on", "ssl_cert_file": str(certificate), "ssl_key_file": str(key)}
        with postgres_server(settings) as server:
            yield server, certificate


@contextmanager
def standby_of(postgres: Postgres) -> Iterator[Postgres]:
    """Yield a server that replays what ``postgres`` does, and can only be read."""
    primary = Database("postgres", postgres.port).dsn

    def initialize(folder: Path, data: Path) -> list[str]:
        command = [f"{_need_programs()}/pg_basebackup", "--no-sync", "--write-recovery-conf", "--checkpoint=fast"]
        return [*command, f"--pgdata={data}", f"--dbname={primary}"]

    with _server(initialize) as port:
        yield Postgres(port)


@contextmanager
def pooler_of(database: Database, **settings: str) -> Iterator[Database]:
    """Yield a database behind PgBouncer with these ``settings``; by default it gives each transaction any session."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        missing("no PgBouncer on this machine (Debian: apt-get install pgbouncer)")
    with tempfile.TemporaryDirectory(prefix="rivet-pgbouncer-", ignore_cleanup_errors=True) as place:
        folder, port = Path(place), _free_port()
        as_user = _as_other_user(folder)
        users, file, log = folder / "users", folder / "pgbouncer.ini", folder / "pooler.log"
        users.write_text(f'"{database.user}" "{database.password}"\n')
        usual = {"listen_addr": "127.0.0.1", "listen_port": str(port), "auth_type": "plain", "auth_file": str(users)}
        usual |= {"unix_socket_dir": "", "ignore_startup_parameters": "extra_float_digits", "pool_mode": "transaction"}
        lines = "".join(f"{key} = {value}\n" for key, value in {**usual, **settings}.items())
        place_of = f"host=127.0.0.1 port={database.port}"
        file.write_text(f"[databases]\n{database.name} = {place_of}\n[pgbouncer]\n{lines}")
        with log.open("w") as output:
            pooler = subprocess.Popen([*as_user, program, str(file)], cwd=folder, stdout=output, stderr=output)
        try:
            _wait_for(Database(database.name, port), pooler, log)
            yield Database(database.name, port)
        finally:
            pooler.send_signal(signal.SIGINT)
            pooler.wait(30)


@contextmanager
def _server(initialize: Callable[[Path, Path], list[str]], further: Mapping[str, str] = NO_SETTINGS) -> Iterator[int]:
    """Yield the port of a server, whose data ``initialize``, a command, makes in a folder."""
    programs = _need_programs()
    # Not in a folder of pytest's, which nobody else may enter, and the server refuses to run as root.
    with tempfile.TemporaryDirectory(prefix="rivet-postgres-", ignore_cleanup_errors=True) as place:
        folder = Path(place)
        as_user = _as_other_user(folder)
        data, log = folder / "data", folder / "server.log"
        subprocess.run([*as_user, *initialize(folder, data)], check=True, capture_output=True, cwd=folder)
        port = _free_port()
        settings = {"port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off"}
        settings |= further
        command = [f"{programs}/postgres", f"-D{data}", *(f"-c{key}={value}" for key, value in settings.items())]
        with log.open("w") as output:
            server = subprocess.Popen(
                [*as_user, *command], cwd=folder, stdout=output, stderr=output, start_new_session=True
            )
        try:
            _wait_for(Database("postgres", port), server, log)
            yield port
        finally:
            server.send_signal(signal.SIGINT)  # "fast": it ends its connections
            server.wait(30)


def _need_programs() -> Path:
    programs = _programs()
    if programs is None:
        missing("no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    return programs


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


def _wait_for(database: Database, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            psycopg2.connect(database.dsn).close()
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
