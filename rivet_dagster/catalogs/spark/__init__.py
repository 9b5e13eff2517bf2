"""The session's own catalog, such as Hive's, as a catalog of the project."""

from rivet_dagster.catalogs.spark.catalog import SparkCatalog

__all__ = ["SparkCatalog"]
