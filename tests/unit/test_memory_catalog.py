"""The suite for catalogs without a JVM: tables in memory, and rows that DuckDB computes."""

from pathlib import Path

import pytest
from support.duckdb_engine import DuckDBEngine

from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.memory import MemoryCatalog


@pytest.fixture
def session():
    with DuckDBEngine(EngineSpec("duck", "duckdb")).session() as session:
        yield session


class TestMemory(CatalogConformance):
    """No file at all."""

    def new_catalog(self, place: Path) -> MemoryCatalog:
        return MemoryCatalog(CatalogSpec(str(place), "memory"), place)
