"""Rows of a SQL warehouse as Parquet files of this machine, which Spark reads with the same columns and values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from rivet_dagster.engines.arrow_types import arrow_schema
from rivet_dagster.engines.contract import cannot_write
from rivet_dagster.engines.duckdb.types import schema_json
from rivet_dagster.engines.duckdb.writing import FILE_BYTES, SPARK_SCHEMA, local_path
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.model.schema import SparkType

if TYPE_CHECKING:
    import pyarrow as pa

CODECS = ("none", "uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw")
"""The codecs of Parquet files, by Spark's names."""
_ARROW = {"uncompressed": "none", "lz4_raw": "lz4"}


def write_files(
    batches: Iterable[pa.RecordBatch],
    columns: Sequence[tuple[str, SparkType]],
    target: Files,
    split_by: str | None = None,
) -> None:
    """Add rows to the one folder of ``target``, a few batches in memory at a time; without rows, in one file.

    No file has more than about FILE_BYTES, nor two values of ``split_by``, which is not
    stored. Raises RVT-204, RVT-519.
    """
    import pyarrow as pa

    folder = local_path(target.paths[0])
    if folder is None or target.format != "parquet":
        raise cannot_write("databricks", target)
    codec = _codec(target)
    stored = tuple((name, kind) for name, kind in columns if split_by is None or name.lower() != split_by.lower())
    schema = arrow_schema(stored).with_metadata({SPARK_SCHEMA: schema_json(stored)})
    parts: dict[Any, _Part] = {}
    try:
        for batch in batches:
            for value, rows in _split(batch, split_by):
                part = parts.setdefault(value, _Part(Path(folder), schema, codec))
                part.write(rows.select(schema.names).cast(schema))
        if not parts and split_by is None:
            parts[None] = _Part(Path(folder), schema, codec)
            parts[None].write(pa.table({field.name: pa.array([], field.type) for field in schema}).cast(schema))
    finally:
        for part in parts.values():
            part.close()


def _split(batch: pa.RecordBatch, split_by: str | None) -> Iterator[tuple[Any, pa.Table]]:
    """Yield the rows of each value of a column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = pa.Table.from_batches([batch])
    if split_by is None:
        yield None, table
        return
    column = next(table[name] for name in table.column_names if name.lower() == split_by.lower())
    for value in pc.unique(column):
        rows = pc.is_null(column) if value.as_py() is None else pc.fill_null(pc.equal(column, value), False)
        yield value.as_py(), table.filter(rows)


class _Part:
    """The files of the rows that stand together."""

    def __init__(self, folder: Path, schema: pa.Schema, codec: str) -> None:
        self._folder, self._schema, self._codec = folder, schema, codec
        self._path = folder
        self._writer: Any = None

    def write(self, rows: pa.Table) -> None:
        import pyarrow.parquet as pq

        if self._writer is None:
            self._path = self._folder / f"part-{uuid4()}.parquet"
            self._writer = pq.ParquetWriter(self._path, self._schema, compression=self._codec)
        self._writer.write_table(rows)
        if self._path.stat().st_size >= FILE_BYTES:
            self.close()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _codec(target: Files) -> str:
    codec = "snappy"
    for key, value in target.options.items():
        if key.lower() != "compression" or value.lower() not in CODECS:
            message = f"the engine databricks does not take `{key}: {value}` for Parquet files"
            raise RivetError("RVT-204", message, remediation=f"`compression` is one of {', '.join(CODECS)}.")
        codec = value.lower()
    return _ARROW.get(codec, codec)
