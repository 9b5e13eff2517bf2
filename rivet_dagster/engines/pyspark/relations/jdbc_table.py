"""Tables of databases, read and written through JDBC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.model.relations import JdbcTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_jdbc_table(spark: SparkSession, table: JdbcTable) -> DataFrame:
    """Return a frame that reads the table in place."""
    return spark.read.jdbc(table.url, table.table, properties=dict(table.properties))


def write_jdbc_table(frame: DataFrame, table: JdbcTable) -> None:
    """Append the rows to the table; Spark creates it if it does not exist."""
    frame.write.mode("append").jdbc(table.url, table.table, properties=dict(table.properties))
