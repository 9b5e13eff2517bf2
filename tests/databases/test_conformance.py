"""The conformance suite of catalogs on a database of PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.databases import profiles
from support.postgres import Database

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.testing.catalog import CatalogConformance


@pytest.fixture
def database(postgres) -> Database:
    return postgres.database()


@pytest.fixture
def session(application: PySparkEngine) -> Iterator[EngineSession]:
    with application.session() as session:
        yield session


def options_of(database: Database) -> dict[str, Any]:
    declared = dict(profiles(database)["default"]["catalogs"]["shop"])
    del declared["type"]
    return declared


class TestPostgres(CatalogConformance):
    """All that the suite has."""

    columns_keep_order = False

    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def new_catalog(self, folder: Path) -> JdbcCatalog:
        return JdbcCatalog(CatalogSpec("shop", "jdbc", options_of(self.database)), folder)
