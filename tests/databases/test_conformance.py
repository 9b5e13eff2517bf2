"""The conformance suite of catalogs on a database of PostgreSQL, and on an environment of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from support.conformance import READ_BY_ENGINES, ROWS, TESTS, by_day, only, with_few_cases_by_day
from support.databases import DatabaseSession, profiles
from support.postgres import Database

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.engines.postgres.session import PostgresFrame, PostgresSession
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.project_tests.values import spark_type
from rivet_dagster.sql.postgres.spark_statements import postgres_type
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.error_tables import ErrorTableConformance
from rivet_dagster.testing.staging import StagingConformance

LAZY = "test_a_version_that_is_read_stays_as_it_is"
"""About an engine whose frames are computed when they are read."""
IN_SPARKS_SQL = "test_columns_without_null_take_null_later"
"""With rows that are queries of Spark's SQL, which are no statements of write strategies."""


@pytest.fixture
def database(postgres) -> Database:
    return postgres.database()


def options_of(database: Database) -> dict[str, Any]:
    declared = dict(profiles(database)["default"]["catalogs"]["shop"])
    del declared["type"]
    return declared


class InDatabase:
    """A catalog in a database without tables."""

    columns_keep_order = False

    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def new_catalog(self, folder: Path) -> JdbcCatalog:
        return JdbcCatalog(CatalogSpec("shop", "jdbc", options_of(self.database)), folder)


class OnDuckDB(InDatabase):
    """Sessions without a JVM."""

    @pytest.fixture
    def session(self, database: Database) -> Iterator[EngineSession]:
        with DatabaseSession(database) as session:
            yield session


@by_day(
    "test_the_meaning_of_a_write_plan",
    "test_errors_are_staged_with_their_rows",
    "test_what_is_written_is_seen_when_it_is_committed",
    "test_a_staged_version_is_read_by_its_run_alone",
    LAZY,
)
@with_few_cases_by_day
@only([*ROWS, *READ_BY_ENGINES], TESTS)
class TestPostgres(InDatabase, CatalogConformance):
    """All that Spark's tasks write, and Spark reads."""

    @pytest.fixture
    def session(self, application: PySparkEngine) -> Iterator[EngineSession]:
        with application.session() as session:
            yield session


@with_few_cases_by_day
@only([name for name in TESTS if name != LAZY])
class TestPostgresOnDuckDB(OnDuckDB, CatalogConformance):
    """All of the suite."""


class _Uploading(PostgresSession):
    """A session of queries in the database, to which the suite brings its rows in tables."""

    def __init__(self, catalog: JdbcCatalog, database: Database) -> None:
        (queries,) = catalog.session_needs("postgres").databases.values()
        super().__init__(queries, {"TimeZone": "UTC"})
        self._own = database
        self._uploaded = itertools.count(1)

    def from_value(self, value: Any) -> PostgresFrame | None:
        if isinstance(value, PostgresFrame):
            return value
        rows = pa.table(value)
        columns = [(field.name, str(spark_type(field.type))) for field in rows.schema]
        table = f"given.rivet_rows_{next(self._uploaded)}"
        types = ", ".join(f'"{name}" {postgres_type(kind)}' for name, kind in columns)
        insert = f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(columns))})"
        with psycopg.connect(self._own.dsn) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE SCHEMA IF NOT EXISTS given")
            cursor.execute(f"CREATE TABLE {table} ({types})")
            cursor.executemany(insert, [tuple(row.values()) for row in rows.to_pylist()])
        return PostgresFrame(f"SELECT * FROM {table}")


@with_few_cases_by_day
@only(ROWS, [name for name in TESTS if name not in (LAZY, IN_SPARKS_SQL)])
class TestQueriesInPostgres(InDatabase, CatalogConformance):
    """All of the suite, by statements of the database that writes."""

    @pytest.fixture
    def session(self, database: Database, tmp_path: Path) -> Iterator[EngineSession]:
        with _Uploading(self.new_catalog(tmp_path), database) as session:
            yield session


class TestEnvironment(OnDuckDB, ErrorTableConformance, StagingConformance):
    """The suites of error tables and of ``publish: run``, in an environment."""

    def new_catalog(self, folder: Path) -> Any:
        catalog = super().new_catalog(folder)
        catalog.use_environment("pr-7", "default")
        return catalog.in_environment("pr-7")

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Any:
        return self.new_catalog(tmp_path)
