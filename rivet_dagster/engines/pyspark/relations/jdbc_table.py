"""Tables of databases, read and written through JDBC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.engines.pyspark.relations.files import apply_projection
from rivet_dagster.model.relations import JdbcTable
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_jdbc_table(spark: SparkSession, table: JdbcTable, projection: Projection | None = None) -> DataFrame:
    """Return a frame that reads the table in place, with a source's inline transforms.

    Spark leaves columns and simple conditions to the database. A limit behind no other condition is left to it, too:
    Spark's reader would have it compute all rows.
    """
    name, conditions = table.table, list(table.conditions)
    if table.takes_limit and projection is not None and projection.limit is not None and projection.filter is None:
        name, conditions = f"(SELECT * FROM {name} LIMIT {projection.limit}) rivet_first_rows", []
    properties = dict(table.properties)
    if table.before_reading:
        properties["sessionInitStatement"] = table.before_reading
    if conditions:
        frame = spark.read.jdbc(table.url, name, predicates=conditions, properties=properties)
    else:
        frame = spark.read.jdbc(table.url, name, properties=properties)
    if table.hidden:
        frame = frame.drop(*table.hidden)
    return frame if projection is None else apply_projection(frame, projection)


def write_jdbc_table(frame: DataFrame, table: JdbcTable) -> None:
    """Append the rows to the table; Spark creates it if it does not exist."""
    frame.write.mode("append").jdbc(table.url, table.table, properties=dict(table.properties))
