"""The schema of a source's Parquet files, if one footer proves what Spark would infer, so that Spark need not do so.

Spark starts a job to read a footer of each table that it opens. Whatever depends on its settings (binary read as
strings, timestamps without time zone, old timestamps) or on more than one file is left to Spark.
"""

from __future__ import annotations

from pathlib import Path, PurePath
from typing import Any

from rivet_dagster.catalogs.filesystem.files.arrow_types import sql_type
from rivet_dagster.catalogs.filesystem.files.footers import spark_schema
from rivet_dagster.catalogs.filesystem.sources.file_tree import FileTree, is_ignored
from rivet_dagster.catalogs.filesystem.sources.local_tree import LocalTree
from rivet_dagster.catalogs.filesystem.sources.table_files import TableFiles
from rivet_dagster.model.relations import Files

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
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with tree.open(file) as opened:
            footer = pq.read_metadata(opened)
        schema = spark_schema(footer)
        if schema is not None:
            return schema if '"udt"' not in schema else None
        # The types of the Parquet file itself: Spark ignores the schema that Arrow stores beside them.
        fields = [(field.name, _certain_type(field.type)) for field in footer.schema.to_arrow_schema()]
    except (OSError, pa.ArrowException):
        return None  # Spark reports what is wrong with it
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
