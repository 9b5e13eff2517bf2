"""The conformance suite on the engine that stands for those of plugins."""

from support.duckdb_engine import ArrowOnlyEngine, DuckDBEngine

from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.testing.engine import EngineConformance


class TestDuckDB(EngineConformance):
    tells_lines = False  # its errors refer to a translated query
    # Waited for once, by the engine ``duckdb``.
    test_what_takes_too_long_is_stopped = None
    test_an_interrupt_stops_what_runs = None

    def new_engine(self, check_interrupt=None):
        return DuckDBEngine(EngineSpec("duck", "duckdb"), check_interrupt=check_interrupt)


class TestArrowOnly(TestDuckDB):
    def new_engine(self, check_interrupt=None):
        return ArrowOnlyEngine(EngineSpec("duck", "arrow_only"), check_interrupt=check_interrupt)
