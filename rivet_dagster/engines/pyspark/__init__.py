"""The engine ``pyspark``: Spark SQL, embedded or on a cluster. Importing this imports no pyspark."""

from rivet_dagster.engines.pyspark.engine import PySparkEngine

__all__ = ["PySparkEngine"]
