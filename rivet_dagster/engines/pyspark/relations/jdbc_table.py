"""Tables of databases, read and written through JDBC."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.engines.pyspark.relations.files import apply_projection
from rivet_dagster.model.relations import JdbcTable
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_UTC = ("UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Etc/Zulu", "UCT", "Etc/UCT", "Universal", "Etc/Universal")


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
    frame = _read(spark, table.url, name, conditions, properties)
    if table.is_in_utc and "timestamp" in dict(frame.dtypes).values() and not _is_in_utc(spark):
        # Spark writes a TIMESTAMP into a condition for the database as a text without a zone, in that of its JVM.
        frame = _read(spark, table.url, name, conditions, {**properties, "pushDownPredicate": "false"})
    if table.hidden:
        frame = frame.drop(*table.hidden)
    return frame if projection is None else apply_projection(frame, projection)


def _read(spark: SparkSession, url: str, name: str, conditions: list[str], properties: dict[str, str]) -> DataFrame:
    if conditions:
        return spark.read.jdbc(url, name, predicates=conditions, properties=properties)
    return spark.read.jdbc(url, name, properties=properties)


def _is_in_utc(spark: SparkSession) -> bool:
    """Return whether the JVM of Spark is known to be in the zone UTC, which that of a server is not."""
    jvm = getattr(spark, "_jvm", None)
    return jvm is not None and jvm.java.util.TimeZone.getDefault().getID() in _UTC


def write_jdbc_table(frame: DataFrame, table: JdbcTable) -> None:
    """Append the rows to the table; Spark creates it if it does not exist."""
    frame.write.mode("append").jdbc(table.url, table.table, properties=dict(table.properties))
