"""Parquet files: the columns that Spark finds in them, and the query that reads them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rivet_dagster.engines.arrow_values import storable
from rivet_dagster.engines.duckdb.relations.paths import DataFile, list_of
from rivet_dagster.engines.duckdb.types import duckdb_type, literal, parse_json, quoted
from rivet_dagster.engines.duckdb.writing import SPARK_SCHEMA
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType
from rivet_dagster.sql.write_strategies.alignment import wider

_OPTIONS = frozenset({"schema", "compression", "datetimerebasemode", "int96rebasemode"})
_OLD = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_SPARK = "Run the joint on Spark, which reads such files by rules of its own."

Columns = Sequence[tuple[str, SparkType]]


def parquet_query(
    files: Sequence[DataFile], declared: Columns | None, in_folders: Columns, options: frozenset[str]
) -> tuple[str, Columns]:
    """Return the query that reads files with the columns ``declared``, or those of their footers, and ``in_folders``.

    With it come all these columns. Raises RVT-519 as ``parquet_columns`` does.
    """
    stored_files = _read_footers(files, options, "duckdb")
    declared, found = _agreed_columns(files, stored_files, declared)
    if not files:
        items = [f"CAST(NULL AS {duckdb_type(kind)}) AS {quoted(name)}" for name, kind in declared]
        return f"SELECT {', '.join(items)} WHERE false", declared
    if not in_folders and _are_read_whole(stored_files, declared):
        return f"SELECT * FROM read_parquet({list_of(files)}, hive_partitioning=false)", declared
    stored = {name.lower(): name for columns in reversed(found) for name, _ in columns}
    items = []
    for name, kind in (*declared, *in_folders):
        value = quoted(stored.get(name.lower(), name))
        if name.lower() not in stored and (name, kind) not in in_folders:
            value = "NULL"
        items.append(f"CAST({value} AS {duckdb_type(kind)}) AS {quoted(name)}")
    reader = [list_of(files), f"hive_partitioning={'true' if in_folders else 'false'}"]
    if in_folders:
        types = ", ".join(f"{literal(name)}: {duckdb_type(kind)}" for name, kind in in_folders)
        reader.append(f"hive_types={{{types}}}")
    if not _are_alike(found):
        reader.append("union_by_name=true")
    return f"SELECT {', '.join(items)} FROM read_parquet({', '.join(reader)})", [*declared, *in_folders]


def parquet_columns(
    files: Sequence[DataFile], declared: Columns | None, options: frozenset[str], engine: str = "duckdb"
) -> tuple[Columns, list[Columns]]:
    """Return the columns with which files are read, ``declared`` or those of their footers, and those of each file.

    A declared column that a file does not have is NULL, and one that is narrower there is widened; what else Spark may
    do, is refused: RVT-519.
    """
    return _agreed_columns(files, _read_footers(files, options, engine), declared)


def _read_footers(files: Sequence[DataFile], options: frozenset[str], engine: str) -> list[_Stored]:
    if others := options - _OPTIONS:
        message = f"the engine {engine} has no reader option {', '.join(sorted(others))} for Parquet"
        raise RivetError("RVT-519", message)
    return [_stored(file) for file in files]


def _agreed_columns(
    files: Sequence[DataFile], stored: Sequence[_Stored], declared: Columns | None
) -> tuple[Columns, list[Columns]]:
    found: list[Columns] = [each.columns for each in stored]
    if declared is None:
        declared = found[0] if found else ()
        if found and not _are_alike(found):
            message = f"the files have different columns, of which Spark takes those of one: {files[0].path} and others"
            raise RivetError(
                "RVT-519", message, remediation="Declare the source's `schema`, or run the joint on Spark."
            )
    wanted = {name.lower(): kind for name, kind in declared}
    for name, kind in (column for columns in found for column in columns):
        meant = wanted.get(name.lower(), kind)
        if not _is_read_as(kind, meant):
            message = f"the column {name} is {kind} in a file, and {meant} is wanted"
            raise RivetError("RVT-519", message, remediation=_SPARK)
    return declared, found


def _are_alike(found: Sequence[Columns]) -> bool:
    return len({frozenset((name.lower(), kind) for name, kind in columns) for columns in found}) == 1


def _are_read_whole(stored: Sequence[_Stored], declared: Columns) -> bool:
    """Return whether DuckDB itself reads files with the columns ``declared``: it binds 16 casts in a millisecond."""
    names, columns = {name.lower() for name, _ in declared}, tuple(declared)
    return len(names) == len(columns) and all(each.is_plain and each.columns == columns for each in stored)


@dataclass(frozen=True)
class _Stored:
    """The columns of a file, and whether DuckDB gives each of them its type by the file alone."""

    columns: tuple[tuple[str, SparkType], ...]
    is_plain: bool


def _stored(file: DataFile) -> _Stored:
    """Return the columns of a file, as Spark finds them. Raises RVT-519 for those that it reads by its settings."""
    try:
        status = os.stat(file.path)
        return _stored_then(file.path, (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
    except (OSError, pa.ArrowException) as error:
        raise RivetError("RVT-503", f"{file.path} cannot be read: {str(error).strip()}") from error


# Each run of a process reads the same sources, of which few change.
@lru_cache(maxsize=1024)
def _stored_then(path: str, _: tuple[int, ...]) -> _Stored:
    footer = pq.read_metadata(path)
    metadata = footer.metadata or {}
    if any(key in metadata for key in _OLD):
        raise RivetError("RVT-519", f"{path} has dates of an old Spark's calendar", remediation=_SPARK)
    try:
        return _columns_of(_Schema(footer))
    except (TypeError, ValueError) as error:
        raise RivetError("RVT-519", f"{path}: {error}", remediation=_SPARK) from error


class _Schema:
    """The schema of a footer; those of two files are equal if their columns have the same names and types."""

    def __init__(self, footer: Any) -> None:
        self.parquet = footer.schema
        self.paths = tuple(self.parquet.column(position).path for position in range(len(self.parquet)))
        spark = (footer.metadata or {}).get(SPARK_SCHEMA.encode())
        self.meant = self.parquet.to_arrow_schema() if spark is None else spark.decode()

    def __hash__(self) -> int:
        return hash(self.paths)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Schema)
            and self.meant == other.meant
            and self.paths == other.paths
            and bool(self.parquet.equals(other.parquet))
        )


# The many files of a table have few schemas, and are read anew in each process.
@lru_cache(maxsize=64)
def _columns_of(schema: _Schema) -> _Stored:
    """Return the columns of a schema. Raise TypeError or ValueError for those that Spark reads by its settings."""
    stored = [schema.parquet.column(position) for position in range(len(schema.parquet))]
    if any(column.physical_type == "INT96" for column in stored):
        raise ValueError("timestamps of the old type INT96")
    if isinstance(schema.meant, str):
        columns = tuple(parse_json(schema.meant))
    else:
        columns = tuple((field.name, type_of_arrow(field.type)) for field in schema.meant)
    plain = [(column.path, _plain_type(column)) for column in stored]
    return _Stored(columns, plain == [(name, str(kind)) for name, kind in columns])


def _plain_type(column: Any) -> str | None:
    if column.logical_type.type == "DECIMAL" and column.physical_type != "BYTE_ARRAY":
        return f"decimal({column.precision},{column.scale})"
    return _PLAIN.get((column.physical_type, str(column.logical_type)))


_PLAIN = {
    ("BOOLEAN", "None"): "boolean",
    ("INT32", "None"): "int",
    ("INT32", "Int(bitWidth=32, isSigned=true)"): "int",
    ("INT64", "None"): "bigint",
    ("INT64", "Int(bitWidth=64, isSigned=true)"): "bigint",
    ("FLOAT", "None"): "float",
    ("DOUBLE", "None"): "double",
    ("BYTE_ARRAY", "String"): "string",
    ("INT32", "Date"): "date",
}
"""Spark's type of a column, by those of the Parquet file, where DuckDB has the same for it."""


def type_of_arrow(type_: Any) -> SparkType:
    """Return Spark's type of an Arrow type, as in a footer. Raise ValueError for what Spark refuses or interprets."""
    if pa.types.is_timestamp(type_) and type_.unit == "ns":
        raise ValueError("timestamps in nanoseconds, which Spark refuses")
    type_ = storable(type_)
    if pa.types.is_struct(type_):
        parts = tuple(type_of_arrow(field.type) for field in type_.fields)
        return SparkType("struct", parts, tuple(field.name for field in type_.fields))
    if pa.types.is_map(type_):
        return SparkType("map", (type_of_arrow(type_.key_type), type_of_arrow(type_.item_type)))
    if pa.types.is_list(type_):
        return SparkType("array", (type_of_arrow(type_.value_type),))
    if pa.types.is_decimal(type_):
        return SparkType("decimal", precision=type_.precision, scale=type_.scale)
    if pa.types.is_timestamp(type_):
        return SparkType("timestamp_ntz" if type_.tz is None else "timestamp")
    plain = {
        pa.bool_(): "boolean",
        pa.int8(): "tinyint",
        pa.int16(): "smallint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.string(): "string",
        pa.large_string(): "string",
        pa.binary(): "binary",
        pa.large_binary(): "binary",
        pa.date32(): "date",
    }
    if type_ not in plain:
        raise ValueError(f"columns of the type {type_}")
    return SparkType(plain[type_])


def _is_read_as(kind: SparkType, meant: SparkType) -> bool:
    return kind == meant or wider(str(kind), str(meant)) == str(meant)
