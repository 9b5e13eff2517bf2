"""The conformance suite on the engine ``duckdb``."""

from rivet_dagster.engines.duckdb import DuckDBEngine
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.testing.engine import EngineConformance


class TestDuckDB(EngineConformance):
    def new_engine(self, check_interrupt=None):
        return DuckDBEngine(EngineSpec("duck", "duckdb", options={"threads": 1}), check_interrupt=check_interrupt)
