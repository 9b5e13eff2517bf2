"""The choice of the adapter: Spark in this process, or Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.engines.pyspark.adapter import SparkAdapter
from rivet_dagster.engines.pyspark.classic import ClassicAdapter
from rivet_dagster.engines.pyspark.connect import ConnectAdapter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def adapter_of(spark: SparkSession) -> SparkAdapter:
    """Return the adapter of a session, by its kind."""
    return ConnectAdapter(spark) if ".connect." in type(spark).__module__ else ClassicAdapter(spark)
