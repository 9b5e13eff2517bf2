"""The engine ``duckdb``: DuckDB, embedded in the process. Importing this imports no duckdb."""

from rivet_dagster.engines.duckdb.engine import DuckDBEngine

__all__ = ["DuckDBEngine"]
