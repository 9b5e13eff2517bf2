"""Reading files in place."""

from __future__ import annotations

from functools import lru_cache

from rivet_dagster.engines.duckdb.relations.csv import csv_query
from rivet_dagster.engines.duckdb.relations.parquet import Columns, parquet_query
from rivet_dagster.engines.duckdb.relations.paths import data_files, folder_columns
from rivet_dagster.engines.duckdb.types import parse_json, quoted
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.model.schema import SparkType, parse_type
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.columns.type_names import parse_ddl

_SPARK = "Run the joint on Spark, which reads such files by rules of its own."


def files_query(files: Files, projection: Projection | None) -> tuple[str, Columns | None]:
    """Return the query of DuckDB's SQL that reads ``files`` with the columns and values that Spark finds in them.

    With it come its columns, None where only DuckDB tells them. Columns in the names of folders stand behind the
    others. Raises RVT-519 where the meaning is not certain. With a
    projection, a declared schema names all columns.
    """
    declared = None if files.schema is None else declared_columns(files.schema)
    paths = data_files(files.paths)
    options = {key.lower(): value for key, value in files.options.items()}
    in_folders = folder_columns(paths, dict(declared or ()))
    columns: Columns | None
    if files.format == "parquet":
        query, columns = parquet_query(paths, _without(declared, in_folders), in_folders, frozenset(options))
    elif files.format == "csv" and not in_folders:
        query, columns = csv_query(paths, declared, options), None
    else:
        kind = "CSV files in folders like `day=1`" if in_folders else f"files of the format {files.format}"
        message = f"the engine duckdb reads Parquet and CSV, and no {kind}"
        raise RivetError("RVT-519", message, remediation=_SPARK)
    if declared is not None and projection is not None and in_folders:
        return f"SELECT {', '.join(quoted(name) for name, _ in declared)} FROM ({query})", declared
    return query, columns


def _without(declared: Columns | None, in_folders: Columns) -> Columns | None:
    names = {name.lower() for name, _ in in_folders}
    return None if declared is None else [(name, kind) for name, kind in declared if name.lower() not in names]


# A source has the same schema in each run of a process.
@lru_cache(maxsize=256)
def declared_columns(schema: str, engine: str = "duckdb") -> tuple[tuple[str, SparkType], ...]:
    """Return the columns of the option ``schema`` of ``Files``. Raises RVT-519."""
    try:
        if schema.startswith("{"):
            return tuple(parse_json(schema))
        columns = parse_ddl(schema)
        if columns is not None and all(column.type is not None for column in columns):
            return tuple((column.name, parse_type(str(column.type))) for column in columns)
    except ValueError as error:
        raise RivetError("RVT-519", f"the engine {engine} cannot read columns of the schema: {error}") from error
    raise RivetError("RVT-519", f"the engine {engine} cannot read the schema {schema!r}", remediation=_SPARK)
