"""The conformance suite of catalogs, with all write strategies, on `filesystem` by the engine ``duckdb``."""

from pathlib import Path

import pytest
from support.conformance import with_few_cases_by_day

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.engines.duckdb import DuckDBEngine
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.testing.catalog import CatalogConformance


@pytest.fixture(scope="module")
def engine():
    return DuckDBEngine(EngineSpec("duck", "duckdb", options={"threads": 1}))


@pytest.fixture
def session(engine):
    with engine.session() as session:
        yield session


@with_few_cases_by_day
class TestFilesystem(CatalogConformance):
    """The catalog of files."""

    def new_catalog(self, folder: Path) -> FilesystemCatalog:
        return FilesystemCatalog(CatalogSpec("warehouse", "filesystem", {"path": str(folder)}), folder)
