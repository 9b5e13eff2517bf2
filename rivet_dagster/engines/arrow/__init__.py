"""The engine ``arrow``: Python joints and copies, by pyarrow alone. Importing this imports no pyarrow."""

from rivet_dagster.engines.arrow.engine import ArrowEngine

__all__ = ["ArrowEngine"]
