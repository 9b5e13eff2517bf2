"""The table ``orders`` that tests publish in MariaDB: its catalog, its content, and the locks of others."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import ArrowRows, JdbcTable
from support.duckdb_engine import DuckDBSession
from support.mariadb import MariaSchema
from support.publications import (
    SEEN,
)


def engine() -> DuckDBSession:
    """Return a session without a JVM."""
    return DuckDBSession(frozenset({ArrowRows, JdbcTable}), lambda: None)


def catalog_of(database: MariaSchema, port: int | None = None) -> JdbcCatalog:
    """Return the catalog of a database, which may be behind a proxy at another port."""
    url = f"jdbc:mariadb://127.0.0.1:{port or database.port}/{database.name}"
    options = {"url": url, "user": database.user, "password": database.password, "reads": "locked"}
    return JdbcCatalog(CatalogSpec("shop", "jdbc", options), Path())


def leftovers(database: MariaSchema) -> list[str]:
    """Return the tables of staged rows."""
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = database() AND table_name REGEXP "
    return [name for (name,) in database.rows(f"{query} '^rivet_[0-9a-f]{{12}}'")]


def content(database: MariaSchema) -> tuple[Any, ...]:
    """Return the number of rows, and the least and the greatest value."""
    return database.rows(SEEN)[0]


def waiting(database: MariaSchema) -> int:
    """Wait until the DELETE of a publication waits for a lock, and return its connection."""
    query = (
        "SELECT id FROM information_schema.processlist "
        "WHERE info LIKE 'DELETE%orders%' AND state <> '' AND db = database()"
    )
    deadline = time.monotonic() + 20
    while not (found := database.rows(query)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    connection: int = found[0][0]
    return connection


@contextmanager
def holding(database: MariaSchema, statement: str) -> Iterator[None]:
    """Hold the locks of a statement for the block."""
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute(statement)
        try:
            yield
        finally:
            connection._force_close()  # the server may be gone, or have killed it
