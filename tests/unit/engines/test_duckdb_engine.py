"""The conformance suite on an engine other than Spark."""

from support.duckdb_engine import ArrowOnlyEngine, DuckDBEngine

from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.testing.engine import EngineConformance


class TestDuckDB(EngineConformance):
    tells_lines = False  # its errors refer to a translated query

    def new_engine(self, check_interrupt=None):
        return DuckDBEngine(EngineSpec("duck", "duckdb"), check_interrupt=check_interrupt)


class TestArrowOnly(TestDuckDB):
    # how long a query takes has nothing to do with what it reads
    test_what_takes_too_long_is_stopped = None
    test_an_interrupt_stops_what_runs = None

    def new_engine(self, check_interrupt=None):
        return ArrowOnlyEngine(EngineSpec("duck", "arrow_only"), check_interrupt=check_interrupt)
