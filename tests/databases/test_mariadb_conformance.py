"""The conformance suite of catalogs on a database of MariaDB, which does as much of it as PostgreSQL at night."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.mariadb import MariaSchema

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.testing.catalog import CatalogConformance


@pytest.fixture
def session(application: PySparkEngine) -> Iterator[EngineSession]:
    with application.session() as session:
        yield session


def options_of(database: MariaSchema) -> dict[str, Any]:
    return {"url": database.jdbc, "user": database.user, "password": database.password, "reads": "locked"}


class TestMariaDB(CatalogConformance):
    """All that the suite has, but for environments."""

    columns_keep_order = False

    @pytest.fixture(autouse=True)
    def _database(self, mariadb) -> None:
        self.database = mariadb.database()

    def new_catalog(self, folder: Path) -> JdbcCatalog:
        return JdbcCatalog(CatalogSpec("shop", "jdbc", options_of(self.database)), folder)
