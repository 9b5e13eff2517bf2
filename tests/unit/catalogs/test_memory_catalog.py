"""The conformance suite for catalogs without a JVM: tables in memory, on DuckDB."""

from pathlib import Path

import pytest
from support.conformance import with_some_cases
from support.duckdb_engine import DuckDBEngine

from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.memory import MemoryCatalog


@pytest.fixture
def session():
    with DuckDBEngine(EngineSpec("duck", "duckdb")).session() as session:
        yield session


@with_some_cases
class TestMemory(CatalogConformance):
    """The catalog in memory."""

    def new_catalog(self, folder: Path) -> MemoryCatalog:
        return MemoryCatalog(CatalogSpec(str(folder), "memory"), folder)
