"""Frames over Arrow rows of this process, and over values of any library that Python joints return.

Rows that do not fit into memory: temporary files of a session, and a queue of Arrow batches that is never full.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from itertools import chain
from pathlib import Path
from queue import Empty
from threading import Condition
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.arrow_values import arrow_rows, is_a
from rivet_dagster.engines.pyspark.relations.files import quote_identifier, readable
from rivet_dagster.model.relations import ArrowRows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from rivet_dagster.engines.pyspark.adapter import SparkAdapter


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
    return frame[quote_identifier(field.name)].cast(field.dataType).alias(field.name)


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


class BatchQueue:
    """Batches of one schema, from one thread to another; at most ``ahead`` of them are in memory.

    >>> import pyarrow as pa, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     queue = BatchQueue(Path(folder) / "batches.arrow", ahead=1)
    ...     for number in range(3):
    ...         queue.put(pa.record_batch({"n": [number]}))
    ...     [queue.get_nowait().to_pylist() for _ in range(3)]
    [[{'n': 0}], [{'n': 1}], [{'n': 2}]]
    """

    def __init__(self, path: Path, ahead: int = 2) -> None:
        self._path = path
        self._ahead = ahead
        self._batches: deque[pa.RecordBatch | None] = deque()
        """None stands for the next batch in the file."""
        self._in_memory = 0
        self._changed = Condition()
        self._writer: Any = None
        self._reader: Any = None

    def put(self, item: pa.RecordBatch, timeout: float | None = None) -> None:
        """Add a batch; this never waits."""
        with self._changed:
            if self._in_memory < self._ahead:
                self._batches.append(item)
                self._in_memory += 1
            else:
                self._write(item)
                self._batches.append(None)
            self._changed.notify()

    def get(self, timeout: float | None = None) -> pa.RecordBatch:
        """Remove and return the first batch. Raises Empty if there is none for ``timeout`` seconds."""
        with self._changed:
            if not self._batches:
                self._changed.wait(timeout)
            return self.get_nowait()

    def get_nowait(self) -> pa.RecordBatch:
        """Remove and return the first batch. Raises Empty."""
        with self._changed:
            if not self._batches:
                raise Empty
            batch = self._batches.popleft()
            if batch is None:
                return self._read()
            self._in_memory -= 1
            return batch

    def close(self) -> None:
        """Remove the file."""
        with self._changed:
            for opened in (self._writer, self._reader):
                if opened is not None:
                    opened.close()
            with suppress(FileNotFoundError):
                self._path.unlink()

    def _write(self, batch: pa.RecordBatch) -> None:
        import pyarrow as pa

        if self._writer is None:
            self._writer = pa.ipc.new_stream(str(self._path), batch.schema)
        self._writer.write_batch(batch)

    def _read(self) -> pa.RecordBatch:
        import pyarrow as pa

        if self._reader is None:
            self._reader = pa.ipc.open_stream(pa.OSFile(str(self._path)))
        return self._reader.read_next_batch()


class Spool:
    """A temporary folder that is made when it is first needed."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._files = 0

    def new_file(self) -> Path:
        """Return a unique path for a file of rows."""
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="rivet-spool-"))
        self._files += 1
        return self._root / f"{self._files}.parquet"

    def close(self) -> None:
        """Remove the folder and all files in it."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self._root = None
