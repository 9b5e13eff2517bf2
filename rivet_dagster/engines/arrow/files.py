"""Parquet files: reading them as batches with Spark's types, and writing files that Spark reads with the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rivet_dagster.engines.arrow.frames import ArrowFrame, Columns, Names, cast, readable_columns
from rivet_dagster.engines.arrow_types import arrow_schema
from rivet_dagster.engines.contract import cannot_write
from rivet_dagster.engines.duckdb.relations.files import declared_columns
from rivet_dagster.engines.duckdb.relations.parquet import parquet_columns
from rivet_dagster.engines.duckdb.relations.paths import data_files, folder_columns
from rivet_dagster.engines.duckdb.types import schema_json
from rivet_dagster.engines.duckdb.writing import FILE_BYTES, SPARK_SCHEMA, codec_of, local_path
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files

_BATCH, _BUFFER = 65_536, 2**20
_GROUP_BYTES = 32 * 2**20
"""The size of rows in memory at which a row group is written."""

_CODECS = {"uncompressed": "none", "lz4_raw": "lz4"}
"""Arrow's names of codecs, by DuckDB's, where they differ."""

_SPARK = "Run the joint on Spark or DuckDB."


@dataclass(frozen=True)
class ParquetTable:
    """Files of this machine with the ``columns`` of the table, and for each file the columns that it has."""

    columns: Columns
    files: tuple[tuple[str, Columns], ...]


def parquet_table(files: Files, engine: str) -> ParquetTable:
    """Return the files of a relation, as their footers describe them. Raises RVT-503, RVT-519."""
    if files.format != "parquet":
        message = f"the engine {engine} reads Parquet, and no files of the format {files.format}"
        raise RivetError("RVT-519", message, remediation=_SPARK)
    declared = None if files.schema is None else declared_columns(files.schema, engine)
    paths = data_files(files.paths, engine)
    if folder_columns(paths, {}):
        message = f"the engine {engine} reads no files in folders like `day=1`"
        raise RivetError("RVT-519", message, remediation=_SPARK)
    options = frozenset(key.lower() for key in files.options)
    columns, of_files = parquet_columns(paths, declared, options, engine)
    files_with_columns = tuple((file.path, tuple(each)) for file, each in zip(paths, of_files, strict=True))
    return ParquetTable(readable_columns(columns, engine), files_with_columns)


def files_frame(files: Files, engine: str) -> ArrowFrame:
    """Return a frame that reads files in place, a few batches in memory at a time. Raises RVT-503, RVT-519."""
    table = parquet_table(files, engine)

    def batches(names: Names) -> Iterator[pa.RecordBatch]:
        wanted = [(name, kind) for name, kind in table.columns if names is None or name.lower() in names]
        schema = arrow_schema(wanted)
        for path, stored_columns in table.files:
            stored = {name.lower(): name for name, _ in stored_columns}
            present = [stored[name.lower()] for name, _ in wanted if name.lower() in stored]
            try:
                with pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER) as opened:
                    for batch in opened.iter_batches(_BATCH, columns=present):
                        yield _with_all(batch, stored, schema)
            except (OSError, pa.ArrowException) as error:
                raise RivetError("RVT-503", f"{path} cannot be read: {str(error).strip()}") from error

    return ArrowFrame(table.columns, batches)


def _with_all(batch: pa.RecordBatch, stored: dict[str, str], schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the columns of ``schema``; those that the file does not have are NULL."""
    if not schema.names:
        return batch
    arrays = [
        batch.column(stored[field.name.lower()]) if field.name.lower() in stored else pa.nulls(batch.num_rows)
        for field in schema
    ]
    return cast(pa.RecordBatch.from_arrays(arrays, names=schema.names), schema)


def write_files(
    batches: Iterable[pa.RecordBatch], columns: Columns, target: Files, engine: str, split_by: str | None
) -> None:
    """Add rows to the one folder of ``target``, in files of about FILE_BYTES; without rows, in one file.

    The rows of each value of ``split_by`` go into a subfolder, whose name alone holds that column. Raises RVT-204.
    """
    folder = target_folder(target, engine)
    codec = codec_of(target.options, engine)
    stored = tuple((name, kind) for name, kind in columns if split_by is None or name.lower() != split_by.lower())
    schema = stored_schema(stored)
    writers: dict[str, _Writer] = {}

    def writer_of(folder: Path) -> _Writer:
        return writers.setdefault(str(folder), _Writer(folder, schema, _CODECS.get(codec, codec)))

    try:
        for batch in batches:
            for part, rows in _parts(batch, split_by):
                writer_of(folder if part is None else folder / part).write(rows)
        if not writers and split_by is None:
            writer_of(folder).write(pa.RecordBatch.from_pylist([], schema=schema))
        for writer in writers.values():
            writer.close()
    finally:
        for writer in writers.values():
            writer.abandon()


def target_folder(target: Files, engine: str) -> Path:
    """Return the folder that files are added to. Raises RVT-519 for one of another machine."""
    folder = local_path(target.paths[0])
    if folder is None:
        raise cannot_write(engine, target)
    return Path(folder)


def stored_schema(columns: Columns) -> pa.Schema:
    """Return the schema of files with these columns, and with Spark's own schema in its metadata."""
    return arrow_schema(columns).with_metadata({SPARK_SCHEMA: schema_json(columns)})


def _parts(batch: pa.RecordBatch, split_by: str | None) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    if split_by is None:
        yield None, batch
        return
    index = next(i for i, name in enumerate(batch.schema.names) if name.lower() == split_by.lower())
    values = batch.column(index)
    rows = batch.remove_column(index)
    for value in pc.unique(values):
        is_part = pc.is_null(values) if not value.is_valid else pc.fill_null(pc.equal(values, value), False)
        yield f"{split_by}={value.as_py()}", rows.filter(is_part)


class _Writer:
    """Writes rows into files of one folder; another one is begun when a file is large enough."""

    def __init__(self, folder: Path, schema: pa.Schema, codec: str) -> None:
        self._folder = folder
        self._schema = schema
        self._codec = codec
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: pq.ParquetWriter | None = None
        self._sink: pa.NativeFile | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows, which are written when they are enough for a row group."""
        self._waiting.append(batch)
        self._bytes += batch.nbytes
        if self._bytes >= _GROUP_BYTES:
            self._write_group()

    def close(self) -> None:
        """Write what is left, and end the file."""
        if self._waiting:
            self._write_group()
        self._end()

    def abandon(self) -> None:
        """Close the file of a write that has failed; of one that has ended nothing is open."""
        if self._sink is not None:
            self._sink.close()

    def _write_group(self) -> None:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._sink = pa.OSFile(str(self._folder / f"part-{uuid4()}.parquet"), "wb")
            self._file = pq.ParquetWriter(
                self._sink, self._schema, compression=self._codec, store_decimal_as_integer=True
            )
        table = pa.Table.from_batches(self._waiting, self._waiting[0].schema)
        self._file.write_table(table.cast(self._schema), row_group_size=max(table.num_rows, 1))
        self._waiting, self._bytes = [], 0
        assert self._sink is not None
        if self._sink.tell() >= FILE_BYTES:
            self._end()

    def _end(self) -> None:
        if self._file is not None and self._sink is not None:
            self._file.close()
            self._sink.close()
        self._file = self._sink = None
