"""Frames over what a Python joint returned, whichever library made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.arrow_values import arrow_rows, is_a
from rivet_dagster.engines.pyspark.jobs import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def frame_of(spark: SparkSession, value: Any) -> DataFrame | None:
    """A frame of ``spark`` with the rows of ``value``; None for a kind of value that is not known.

    Naive timestamps mean the session's time zone, as everywhere in Spark, and nanoseconds are cut to microseconds.
    Raises RVT-316 and, for a value that does not fit into columns, RVT-505.
    """
    if is_a(value, "pyspark.sql", "DataFrame"):
        return adopted(spark, value)
    rows = arrow_rows(value)
    return spark.createDataFrame(rows.read_all()) if rows is not None else None


def adopted(spark: SparkSession, frame: Any) -> DataFrame:
    """``frame`` as one of ``spark``'s own, so that its queries can use it; user code may have made it elsewhere."""
    if frame.sparkSession is spark:
        return frame  # type: ignore[no-any-return]
    if is_connect(spark):
        # A Connect server keeps sessions apart: only the rows themselves can cross.
        if frame.sparkSession.session_id == spark.session_id:  # type: ignore[attr-defined]
            return frame  # type: ignore[no-any-return]
        return spark.createDataFrame(frame.toArrow())
    from pyspark.sql.classic.dataframe import DataFrame

    # The analyzed plan holds what the other session's views stood for.
    dataset = getattr(getattr(spark._jvm, "org.apache.spark.sql.classic.Dataset$"), "MODULE$")
    return DataFrame(dataset.ofRows(spark._jsparkSession, frame._jdf.queryExecution().analyzed()), spark)
