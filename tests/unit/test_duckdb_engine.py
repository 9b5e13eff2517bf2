"""The conformance suite on an engine other than Spark."""

from support.duckdb_engine import ArrowOnlyEngine, DuckDBEngine

from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.testing.engine import EngineConformance


class TestDuckDB(EngineConformance):
    tells_lines = False  # its errors refer to a translated query

    def new_engine(self, check_interrupt=None):
        return DuckDBEngine(EngineSpec("duck", "duckdb"), check_interrupt=check_interrupt)


class TestArrowOnly(TestDuckDB):
    def new_engine(self, check_interrupt=None):
        return ArrowOnlyEngine(EngineSpec("duck", "arrow_only"), check_interrupt=check_interrupt)
