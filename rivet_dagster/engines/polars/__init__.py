"""The engine ``polars``: Polars, embedded in the process. Importing this imports no polars."""

from rivet_dagster.engines.polars.engine import PolarsEngine

__all__ = ["PolarsEngine"]
