"""Fixtures: servers that start with the first test that needs them and end with the last of all tests."""

from collections.abc import Iterator

import pytest

from support.iceberg_rest import IcebergRest, iceberg_rest_server
from support.mariadb import MariaDB, mariadb_server
from support.nessie import Nessie, nessie_server
from support.postgres import Database, Postgres, postgres_server
from support.s3 import S3, s3_server


@pytest.fixture(scope="session")
def iceberg_rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergRest]:
    """Yield a JVM for REST catalogs; ``catalog(folder)`` makes one without tables and returns its URI."""
    with iceberg_rest_server(tmp_path_factory.mktemp("rest")) as server:
        yield server


@pytest.fixture(scope="session")
def nessie(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nessie]:
    """Yield a server of Nessie; ``catalog(folder)`` declares a catalog without tables."""
    with nessie_server(tmp_path_factory.mktemp("nessie")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Yield a PostgreSQL server; ``database()`` makes a database without tables."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> Database:
    """Return a database for the tests of one module."""
    return postgres.database()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    """Yield a MariaDB server; ``database()`` makes a database without tables."""
    with mariadb_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """Yield an S3 server; ``bucket()`` makes a bucket without objects."""
    with s3_server() as server:
        yield server
