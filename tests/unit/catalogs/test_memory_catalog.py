"""The conformance suite for catalogs without a JVM: tables in memory, on DuckDB."""

from pathlib import Path

import pytest
from support.conformance import with_some_cases
from support.duckdb_engine import DuckDBEngine

from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.write_plan import Append
from rivet_dagster.testing.catalog import CatalogConformance
from rivet_dagster.testing.memory import MemoryCatalog
from rivet_dagster.testing.plan_cases import CASES


@pytest.fixture
def session():
    with DuckDBEngine(EngineSpec("duck", "duckdb")).session() as session:
        yield session


@with_some_cases
class TestMemory(CatalogConformance):
    """The catalog in memory."""

    def new_catalog(self, folder: Path) -> MemoryCatalog:
        return MemoryCatalog(CatalogSpec(str(folder), "memory"), folder)


class Appending(MemoryCatalog):
    """A catalog that only appends."""

    write_plans = frozenset({Append})


def test_plans_that_a_catalog_does_not_list_are_skipped(session, tmp_path):
    catalog = Appending(CatalogSpec(str(tmp_path), "memory"), tmp_path)
    case = next(case for case in CASES if not isinstance(case.plan, Append))
    with pytest.raises(pytest.skip.Exception, match=f"does not carry out {type(case.plan).__name__}"):
        CatalogConformance().test_the_meaning_of_a_write_plan(catalog, session, case)
