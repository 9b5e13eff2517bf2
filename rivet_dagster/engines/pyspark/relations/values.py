"""Frames over the values of any library that Python joints return."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.arrow_values import arrow_rows, is_a
from rivet_dagster.engines.pyspark.relations.arrow_rows import frame_of_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivet_dagster.engines.pyspark.adapter import SparkAdapter
    from rivet_dagster.engines.pyspark.spool import Spool


def frame_of(adapter: SparkAdapter, value: Any, spool: Spool) -> DataFrame | None:
    """Return a frame with the rows of ``value``; None for a type of value that is not supported.

    Naive timestamps are in the session's time zone, as everywhere in Spark; nanoseconds are cut to microseconds.
    Raises RVT-316, and RVT-505 for a value that does not fit into columns.
    """
    if is_a(value, "pyspark.sql", "DataFrame"):
        return adapter.adopted(value)
    reader = arrow_rows(value)
    if reader is None:
        return None
    from pyspark.sql.pandas.types import from_arrow_schema

    # Spark 4.2 has another default.
    return frame_of_batches(adapter, reader, from_arrow_schema(reader.schema, prefer_timestamp_ntz=False), spool)
