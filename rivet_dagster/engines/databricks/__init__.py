"""The engine ``databricks``: a cluster over Spark Connect, or a SQL warehouse over its connector."""

from rivet_dagster.engines.databricks.engine import DatabricksEngine

__all__ = ["DatabricksEngine"]
