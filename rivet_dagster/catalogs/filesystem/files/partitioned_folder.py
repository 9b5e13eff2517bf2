"""A folder of Parquet files that somebody else has written into subfolders of partitions, as ``day=2024-01-01``.

The files of a version lie in one folder, and hold all columns. So these are written anew, one after the other, with the
columns that only the names of their subfolders tell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from rivet_dagster.catalogs.filesystem.files.data_files import keep_permissions, stamp_of
from rivet_dagster.catalogs.filesystem.files.file_status import is_folder, names_in
from rivet_dagster.catalogs.filesystem.files.footer_cache import FileStamp
from rivet_dagster.catalogs.filesystem.files.footers import footer_of, is_data, spark_columns, sql_type
from rivet_dagster.catalogs.filesystem.files.parquet_folder import (
    WRITE_ANEW,
    refuse_folder,
    refuse_other_formats,
    require_same_columns,
)
from rivet_dagster.catalogs.parquet_rows import SPARK_SCHEMA
from rivet_dagster.catalogs.totals import Totals
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.storage import ExistingTable, Statistics

if TYPE_CHECKING:
    import pyarrow as pa

_NULL = "__HIVE_DEFAULT_PARTITION__"
"""The value in the name of a subfolder whose rows have none."""

_SPARK_NAMES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_PARTITION_TYPES = ("string", "date", "boolean", *_SPARK_NAMES)
"""The types whose values the names of subfolders tell without a doubt."""

_LEGACY, _VERSION = b"org.apache.spark.legacyINT96", b"org.apache.spark.version"
"""The metadata of a file by which Spark knows that instants long ago are in the Julian calendar, as it stored them."""
_LEGACY_VERSIONS = (b"2.", b"3.0.")

_NUMBER, _DATE = re.compile(r"0|-?[1-9]\d*"), re.compile(r"\d{4}-\d{2}-\d{2}")

_BATCH, _BUFFER = 32_768, 2**20
"""The rows of a batch, and the bytes of a column that are read at a time."""


@dataclass(frozen=True)
class PartitionedFolder:
    """The Parquet files in the subfolders of a folder, each with its ``values`` of the ``columns`` of partitions.

    ``stored`` are the columns in the files.
    """

    folder: Path
    columns: Schema
    files: tuple[tuple[Path, tuple[str | None, ...]], ...]
    stored: Statistics

    @classmethod
    def of(cls, folder: Path, columns: Schema) -> PartitionedFolder | None:
        """Return the files of a folder that is partitioned by ``columns``; None for one without subfolders.

        Raises RVT-404 for one that is partitioned by others, or holds what cannot be written anew as it is; OSError.
        """
        refuse_other_formats(folder)
        if not any(is_data(name) and is_folder(folder / name) for name in names_in(folder)):
            return None
        files = tuple(_files_in(folder, folder, ()))
        if not files:
            raise refuse_folder(folder, "has no Parquet file, which would tell its columns", "Move it away.")
        path, keys = files[0]
        names = [name for name, _ in keys]
        for other, others in files:
            if [name for name, _ in others] != names:
                shown = " and ".join(str(file.relative_to(folder)) for file in (path, other))
                raise refuse_folder(folder, f"has files in partitions of different columns, {shown}", WRITE_ANEW)
        texts = [{text for _, others in files if (text := others[at][1]) is not None} for at in range(len(names))]
        partitions = _declared(folder, dict(zip(names, texts, strict=True)), columns)
        footer = cache(footer_of)
        require_same_columns(folder, (file for file, _ in files), footer)
        stored = Totals.of(footer(file).statistics for file, _ in files).statistics(footer(path).statistics)
        both = {name.lower() for name, _ in stored.columns} & {name.lower() for name in names}
        if both:
            why = f"has files that hold the columns of its partitions: {', '.join(sorted(both))}"
            raise refuse_folder(folder, why, WRITE_ANEW)
        with _open(path) as opened:
            _schema(path, opened)  # that of the others is looked at when they are written
        parts = tuple((file, tuple(value for _, value in keys)) for file, keys in files)
        taken = cls(folder, partitions, parts, stored)
        for values in {values for _, values in taken.files}:
            taken._constants(values)
        return taken

    @property
    def stamps(self) -> frozenset[tuple[Path, FileStamp]]:
        """The files as they are now, by which those that others write meanwhile are noticed. Raises RVT-407."""
        return frozenset((path, stamp_of(path)) for path, _ in _files_in(self.folder, self.folder, ()))

    def describe(self, uri: str) -> ExistingTable:
        """Return the table at ``uri`` that the files make up."""
        columns = tuple((field.name, str(field.type)) for field in self.columns)
        number = len({values for _, values in self.files})
        by = ", ".join(name for name, _ in columns)
        layout = {
            "files": f"{len(self.files):,} of Parquet, which are written anew with the columns of their partitions",
            "partitions": f"{number:,} by {by}",
        }
        statistics = Statistics(self.stored.rows, self.stored.bytes, (*self.stored.columns, *columns))
        return ExistingTable(uri, statistics, layout)

    def write_flat(self, to: Path) -> None:
        """Write all files into the folder ``to``, which exists, with the columns of their partitions.

        Raises RVT-404, OSError.
        """
        written = []
        for number, (path, values) in enumerate(self.files):
            # Writers use one file name in several partitions.
            written.append(to / f"{path.stem}-{number:05}{path.suffix}")
            _write_with(path, written[-1], self._constants(values))
        keep_permissions(self.files[0][0].parent, to, written)

    def _constants(self, values: tuple[str | None, ...]) -> Mapping[Field, pa.Scalar]:
        """Return the values of a partition in the types of its columns. Raises RVT-404."""
        import pyarrow as pa

        types = {"string": pa.string(), "date": pa.date32(), "boolean": pa.bool_(), "tinyint": pa.int8()}
        types |= {"smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
        constants = {}
        for field, value in zip(self.columns, values, strict=True):
            assert field.type is not None
            try:
                constants[field] = pa.array([value], pa.string()).cast(types[field.type])[0]
            except pa.ArrowInvalid as error:
                why = f"has a partition {field.name}={value}, which is no {field.type.upper()}"
                raise refuse_folder(self.folder, why, WRITE_ANEW) from error
        return constants


def _files_in(
    root: Path, folder: Path, keys: tuple[tuple[str, str | None], ...]
) -> Iterator[tuple[Path, tuple[tuple[str, str | None], ...]]]:
    """Yield the files in a folder and its subfolders, with the columns and values of their partitions."""
    for name in names_in(folder):
        path = folder / name
        if not is_data(name):
            continue
        if not is_folder(path):
            yield path, keys
            continue
        column, equals, value = name.partition("=")
        if not equals:
            raise refuse_folder(root, f"has its files in folders, as in {path.relative_to(root)}", WRITE_ANEW)
        value = unquote(value)
        yield from _files_in(root, path, (*keys, (unquote(column), None if value == _NULL else value)))


def _declared(folder: Path, names: Mapping[str, Collection[str]], columns: Schema) -> Schema:
    """Return the columns of partitions, which have these values, with the types of the joint's. Raises RVT-404."""
    declared = {field.name.lower(): field for field in columns}
    by = f"is partitioned by {', '.join(names)}"
    if {name.lower() for name in names} != declared.keys():
        joint = f"by {', '.join(field.name for field in columns)}" if columns else "not partitioned"
        remedy = f"Have `partitions` of the joint, or its strategy's `partition_by`, name the same. Or: {WRITE_ANEW}"
        raise refuse_folder(folder, f"{by}, and the joint is {joint}", remedy)
    fields = tuple(Field(name, declared[name.lower()].type or _type_of(texts)) for name, texts in names.items())
    for field in fields:
        if field.type not in _PARTITION_TYPES:
            known = "is not known" if field.type is None else f"is {field.type}"
            remedy = f"Have the query cast it, as in CAST({field.name} AS DATE). Or: {WRITE_ANEW}"
            raise refuse_folder(folder, f"{by}, and the type of {field.name} {known}", remedy)
    return fields


def _type_of(texts: Collection[str]) -> str | None:
    """Return the type that Spark gives partitions of these values; None where another reader may give another one.

    >>> [_type_of(texts) for texts in ({"7", "-1"}, {"2147483648"}, {"2024-01-31"}, {"eu", "us"}, {"01"}, {"1", "x"})]
    ['int', 'bigint', 'date', 'string', None, None]
    """
    if texts and all(_NUMBER.fullmatch(text) for text in texts):
        size = max(abs(int(text)) for text in texts)
        return "int" if size < 2**31 else "bigint" if size < 2**63 else None
    if texts and all(_DATE.fullmatch(text) for text in texts):
        return "date"
    return "string" if all(text[:1].isalpha() for text in texts) else None


def _write_with(path: Path, to: Path, constants: Mapping[Field, pa.Scalar]) -> None:
    """Write the rows of a file to another one, with more columns that have one value each. Raises RVT-404, OSError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _open(path) as file:
        stored = _schema(path, file)
        more = [pa.field(field.name, value.type) for field, value in constants.items()]
        schema = pa.schema([*stored, *more], _with_fields(stored.metadata or {}, constants))
        with pq.ParquetWriter(to, schema) as out:
            for batch in file.iter_batches(_BATCH):
                values = [pa.repeat(value, batch.num_rows) for value in constants.values()]
                out.write_batch(pa.RecordBatch.from_arrays([*batch.cast(stored).columns, *values], schema=schema))


def _open(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER, coerce_int96_timestamp_unit="us")


def _schema(path: Path, file: Any) -> pa.Schema:
    """Return the columns of an opened file as they are written anew. Raises RVT-404 if a type would be another one."""
    import pyarrow as pa

    leaves = [file.schema.column(position) for position in range(len(file.schema))]
    instants = {leaf.path for leaf in leaves if leaf.physical_type == "INT96"}  # Spark stores TIMESTAMP so
    at = pa.timestamp("us", "UTC")
    schema = pa.schema(
        [field.with_type(at) if field.name in instants else field for field in file.schema_arrow],
        file.schema_arrow.metadata,
    )
    metadata = schema.metadata or {}
    if instants and (_LEGACY in metadata or metadata.get(_VERSION, b"").startswith(_LEGACY_VERSIONS)):
        why = "has a column of TIMESTAMP in the Julian calendar, of an earlier Spark"
        raise refuse_folder(path, why, WRITE_ANEW)
    stored = dict(spark_columns(file.metadata) or ())
    for field in schema:
        if stored and sql_type(field.type) != stored[field.name]:
            why = f"has a column '{field.name}' of the type {stored[field.name]}, which is not written anew as it is"
            raise refuse_folder(path, why, WRITE_ANEW)
    return schema


def _with_fields(metadata: Mapping[bytes, bytes], fields: Iterable[Field]) -> dict[bytes, bytes]:
    """Return the metadata of a file in which Spark's own schema, if it is there, has more fields."""
    if SPARK_SCHEMA not in metadata:
        return dict(metadata)
    known = json.loads(metadata[SPARK_SCHEMA])
    for field in fields:
        kind = _SPARK_NAMES.get(str(field.type), field.type)
        known["fields"].append({"name": field.name, "type": kind, "nullable": True, "metadata": {}})
    return {**metadata, SPARK_SCHEMA: json.dumps(known, separators=(",", ":")).encode()}
