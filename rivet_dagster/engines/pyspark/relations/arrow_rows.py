"""Frames over Arrow rows of this process, and over values of any library that Python joints return."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.arrow_values import arrow_rows, is_a
from rivet_dagster.engines.pyspark.relations.files import quoted, readable
from rivet_dagster.model.relations import ArrowRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from rivet_dagster.engines.pyspark.adapter import SparkAdapter
    from rivet_dagster.engines.pyspark.batch_queue import Spool

CHUNK = 32 * 2**20
"""The bytes that are in this process's memory at a time; rows of up to this size are passed without a file."""


def read_arrow_rows(adapter: SparkAdapter, rows: ArrowRows, spool: Spool) -> DataFrame:
    """Return a frame over the rows, which are read now; a timestamp without a time zone is a TIMESTAMP_NTZ."""
    from pyspark.sql.pandas.types import from_arrow_schema

    reader = arrow_rows(rows.batches())
    assert reader is not None
    return frame_of_batches(adapter, reader, from_arrow_schema(reader.schema, prefer_timestamp_ntz=True), spool)


def frame_of_batches(
    adapter: SparkAdapter, reader: pa.RecordBatchReader, schema: StructType, spool: Spool
) -> DataFrame:
    """Return a frame over the rows of ``reader``, with columns of the types of ``schema``."""
    chunks = _chunks(reader)
    first, second = next(chunks), next(chunks, None)
    if second is None:
        return _created(adapter, first, schema)
    chunks = chain([first, second], chunks)
    del first, second
    if adapter.sees_local_files:
        return _spooled(adapter, reader.schema, chunks, schema, spool)
    # Each chunk becomes a view on the server, so that its rows need not stay in this process.
    frames = [adapter.analyzed(_created(adapter, chunk, schema)) for chunk in chunks]
    return reduce(lambda frame, other: frame.union(other), frames)


def _chunks(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Yield tables of about CHUNK bytes; if there are no rows, one empty table."""
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    some, size = False, 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size >= CHUNK:
            some = True
            yield pa.Table.from_batches(batches, reader.schema)
            batches, size = [], 0
    if batches or not some:
        yield pa.Table.from_batches(batches, reader.schema)


def _created(adapter: SparkAdapter, chunk: pa.Table, schema: StructType) -> DataFrame:
    # A server of Spark Connect 4.0.0 takes the first batch of a table alone, and drops the rest.
    return adapter.spark.createDataFrame(chunk.combine_chunks(), schema)


def _spooled(
    adapter: SparkAdapter, arrow_schema: pa.Schema, chunks: Iterator[pa.Table], schema: StructType, spool: Spool
) -> DataFrame:
    import pyarrow.parquet as pq
    from pyspark.sql.pandas.types import from_arrow_schema

    path = spool.new_file()
    with pq.ParquetWriter(path, arrow_schema) as writer:
        for chunk in chunks:
            writer.write_table(chunk)
    stored = from_arrow_schema(arrow_schema, prefer_timestamp_ntz=True)
    frame = adapter.spark.read.schema(stored).parquet(readable(str(path)))
    return frame if stored == schema else frame.select([_cast(frame, field) for field in schema.fields])


def _cast(frame: DataFrame, field: Any) -> Any:
    return frame[quoted(field.name)].cast(field.dataType).alias(field.name)


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
