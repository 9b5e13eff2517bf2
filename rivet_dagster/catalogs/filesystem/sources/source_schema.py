"""The columns of a source's files as Spark would name and type them, as far as one footer or header proves that.

Spark starts a job to read a footer of each table that it opens, and need not do so if it is given the schema. What only
Spark can determine stays unknown rather than being guessed: what depends on its settings (binary read as strings,
timestamps without time zone, old timestamps) or on more than one file, inferred types, JSON, partition folders.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any

from rivet_dagster.catalogs.filesystem.files.footers import spark_columns, spark_schema, sql_type
from rivet_dagster.catalogs.filesystem.sources.file_tree import FileTree, LocalTree, is_ignored
from rivet_dagster.catalogs.filesystem.sources.table_files import TableFiles
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.model.schema import Field, Schema

_CERTAIN = frozenset({"boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date"})


def with_schema(relation: Files, table: TableFiles) -> Files:
    """Return the relation with the option ``schema``, or unchanged if that is not certain. Raises RVT-403."""
    given = {key.lower() for key in relation.options}
    if relation.format != "parquet" or given & {"schema", "mergeschema", "datetimerebasemode", "int96rebasemode"}:
        return relation
    with table.tree.looking(table.paths[0]):
        first = _first_file(table)
    schema = _schema(table.tree, first) if first is not None else None
    return (
        relation if schema is None else Files(relation.format, relation.paths, {**relation.options, "schema": schema})
    )


def _first_file(table: TableFiles) -> PurePath | None:
    """Return the file whose footer Spark would read; None if there are subfolders, which may be partitions."""
    tree = table.tree
    files: list[PurePath] = []
    for path in table.paths:
        if not tree.is_folder(path):
            files.append(path)
            continue
        below = [path / name for name in tree.names_in(path) if not is_ignored(name)]
        if any(map(tree.is_folder, below)):
            return None
        files += below
    return min((file for file in files if not is_ignored(file.name)), key=str, default=None)


def _schema(tree: FileTree, file: PurePath) -> str | None:
    try:
        if isinstance(tree, LocalTree):
            status = os.stat(file)
            return _schema_then(str(file), (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns))
        with tree.open(file) as opened:
            return _schema_in(opened)
    except OSError:
        return None  # Spark reports what is wrong with it


# Each run of a process reads the same sources, of which few change.
@lru_cache(maxsize=1024)
def _schema_then(file: str, _: tuple[int, ...]) -> str | None:
    with open(file, "rb") as opened:
        return _schema_in(opened)


def _schema_in(file: Any) -> str | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        footer = pq.read_metadata(file)
        schema = spark_schema(footer)
        if schema is not None:
            return schema if '"udt"' not in schema else None
        # The types of the Parquet file itself: Spark ignores the schema that Arrow stores beside them.
        fields = [(field.name, _certain_type(field.type)) for field in footer.schema.to_arrow_schema()]
    except pa.ArrowException:
        return None
    names = {name.lower() for name, _ in fields}
    if not fields or len(names) < len(fields) or any(kind is None for _, kind in fields):
        return None
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in fields)


def _certain_type(type_: Any) -> str | None:
    kind = sql_type(type_)
    return kind if kind in _CERTAIN or (kind or "").startswith("decimal(") else None


def parquet_in(folder: Path, table: str) -> Files:
    """Return the Parquet files in a folder of this machine, those of ``table``, with their schema."""
    return with_schema(Files("parquet", (str(folder),)), TableFiles(LocalTree(folder), "parquet", (folder,), table))


_DECOMPRESSED: dict[str, Callable[[Any], Any]] = {".gz": lambda file: gzip.GzipFile(fileobj=file), ".bz2": bz2.BZ2File}
_ORC_UNSURE = re.compile(r"\b(timestamp|bigint|int)\b")
"""ORC types that Spark also uses to store timestamps without a time zone and intervals."""

_HARMLESS = frozenset({
    "header", "sep", "delimiter", "enforceschema", "inferschema", "nullvalue", "emptyvalue", "nanvalue", "dateformat",
    "timestampformat", "samplingratio", "locale", "mode",
})  # fmt: skip
"""Options of a CSV reader that do not change how the header is read."""


def source_columns(table: TableFiles, options: Mapping[str, str]) -> Schema | None:
    """Return the columns of the first file, given the engine's reader options; None if it does not name all of them.

    Raises RVT-403 if it cannot be read.
    """
    read = {"parquet": _parquet, "orc": _orc, "csv": _csv}.get(table.format)
    tree = table.tree
    with tree.looking(table.paths[0]):
        files = [tree.folder / file.path for file in tree.data_files(table.paths)]
    spelled = {key.lower(): value for key, value in options.items()}
    if read is None or not files or "schema" in spelled or _has_folders(table, files):
        return None
    # Spark, too, takes the schema from the first file.
    first = min(files, key=str)
    try:
        with tree.open(first) as file:
            return read(file, first.suffix.lower(), spelled)
    except (OSError, ValueError, csv.Error) as error:  # pyarrow's errors are among these
        raise RivetError(
            "RVT-403", f"{first.name} cannot be read as {table.format}: {tree.trouble(error)[0]}"
        ) from error


def _has_folders(table: TableFiles, files: list[PurePath]) -> bool:
    """Return whether there are subfolders, which may be partitions, whose columns Spark adds."""
    return any(file not in table.paths and file.parent not in table.paths for file in files)


def _parquet(file: Any, suffix: str, options: Mapping[str, str]) -> Schema | None:
    import pyarrow.parquet as pq

    if options.get("mergeschema") == "true":
        return None
    footer = pq.read_metadata(file)
    columns = spark_columns(footer)
    return tuple(Field(*column) for column in columns) if columns else _fields(footer.schema.to_arrow_schema())


def _orc(file: Any, suffix: str, options: Mapping[str, str]) -> Schema | None:
    from pyarrow import orc

    if options.get("mergeschema") == "true":
        return None
    fields = _fields(orc.ORCFile(file).schema)
    return tuple(replace(field, type=None) if _ORC_UNSURE.search(field.type or "") else field for field in fields)


def _fields(schema: Any) -> Schema:
    return tuple(Field(field.name, sql_type(field.type)) for field in schema)


def _csv(file: Any, suffix: str, options: Mapping[str, str]) -> Schema | None:
    separator = options.get("sep", options.get("delimiter", ","))
    if options.get("header") != "true" or not options.keys() <= _HARMLESS or len(separator) != 1:
        return None
    plain = _DECOMPRESSED[suffix](file) if suffix in _DECOMPRESSED else file
    with io.TextIOWrapper(plain, encoding="utf-8-sig", newline="") as lines:
        header = next((line for line in lines if line.strip()), "")
    # Spark escapes quotes with a backslash, and does not take a doubled quote for an escaped one.
    if not header or "\\" in header or '""' in header:
        return None
    names = next(csv.reader([header], delimiter=separator))
    kind = None if options.get("inferschema") == "true" else "string"
    return tuple(Field(name, kind) for name in _safe(names, options.get("nullvalue", "")))


def _safe(names: list[str], null: str) -> list[str]:
    """Return the names that Spark gives: with their positions if they are empty or repeated.

    >>> _safe(["a", "", "b", "A"], null="")
    ['a0', '_c1', 'b', 'A3']
    """
    counted = Counter(name.lower() for name in names)
    return [
        f"_c{position}" if name in ("", null) else f"{name}{position}" if counted[name.lower()] > 1 else name
        for position, name in enumerate(names)
    ]
