"""The engine ``pyspark``: Spark SQL in the process, on a cluster or a server, or on Sail. This imports no pyspark."""

from rivet_dagster.engines.pyspark.engine import PySparkEngine
from rivet_dagster.engines.pyspark.sail.engine import SailEngine

__all__ = ["PySparkEngine", "SailEngine"]
