"""The conformance suite of catalogs on a database of PostgreSQL, and on an environment of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.conformance import READ_BY_ENGINES, ROWS, TESTS, only, with_few_cases_by_day
from support.databases import DatabaseSession, profiles
from support.postgres import Database

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.error_tables import ErrorTableConformance
from rivet_dagster.testing.staging import StagingConformance

LAZY = "test_a_version_that_is_read_stays_as_it_is"
"""About an engine whose frames are computed when they are read."""


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


class TestEnvironment(OnDuckDB, ErrorTableConformance, StagingConformance):
    """The suites of error tables and of ``publish: run``, in an environment."""

    def new_catalog(self, folder: Path) -> Any:
        catalog = super().new_catalog(folder)
        catalog.use_environment("pr-7", "default")
        return catalog.in_environment("pr-7")

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> Any:
        return self.new_catalog(tmp_path)
