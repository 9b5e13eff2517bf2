"""Frames over what a Python joint returned, whichever library made it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.arrow_values import arrow_rows, is_a
from rivet_dagster.engines.pyspark.relations.arrow_rows import frame_of_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivet_dagster.engines.pyspark.adapter import SparkAdapter
    from rivet_dagster.engines.pyspark.spool import Spool


def frame_of(adapter: SparkAdapter, value: Any, spool: Spool) -> DataFrame | None:
    """Return a frame with the rows of ``value``; None for a kind of value that is not known.

    Naive timestamps mean the session's time zone, as everywhere in Spark, and nanoseconds are cut to microseconds.
    Raises RVT-316 and, for a value that does not fit into columns, RVT-505.
    """
    if is_a(value, "pyspark.sql", "DataFrame"):
        return adapter.adopted(value)
    reader = arrow_rows(value)
    if reader is None:
        return None
    from pyspark.sql.pandas.types import from_arrow_schema

    return frame_of_batches(adapter, reader, from_arrow_schema(reader.schema), spool)
