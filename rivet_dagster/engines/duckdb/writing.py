"""Writing Parquet files that Spark reads with the same columns and values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

from rivet_dagster.engines.contract import cannot_write
from rivet_dagster.engines.duckdb.frames import DuckDBFrame
from rivet_dagster.engines.duckdb.types import literal, quoted, schema_json
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files

FILE_BYTES = 128 * 2**20
"""The size at which another file is begun: a task of Spark reads as much."""

SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
"""The key of a footer under which Spark looks for its own schema of the file."""

CODECS = {
    "none": "uncompressed",
    "uncompressed": "uncompressed",
    "snappy": "snappy",
    "gzip": "gzip",
    "zstd": "zstd",
    "brotli": "brotli",
    "lz4_raw": "lz4_raw",
}
"""DuckDB's names of the codecs, by Spark's."""


def write_parquet(connection: Any, frame: DuckDBFrame, target: Files, split_by: str | None) -> str:
    """Add the rows to the one folder of ``target``: in one file, or in several of about FILE_BYTES.

    The rows of each value of ``split_by`` go into a subfolder, whose name alone holds that column. Return the profile
    of the query, as JSON.
    """
    folder = local_path(target.paths[0])
    if folder is None:
        raise cannot_write("duckdb", target)
    options = [
        "FORMAT parquet",
        f"COMPRESSION {codec_of(target.options, 'duckdb')}",
        f"KV_METADATA {{{literal(SPARK_SCHEMA)}: {literal(_schema(frame, split_by))}}}",
    ]
    if split_by is not None:
        column = next(name for name in frame.names if name.lower() == split_by.lower())
        options += [f"PARTITION_BY ({quoted(column)})", "APPEND true", "FILENAME_PATTERN 'part-{uuid}'"]
        return _copy(connection, frame.rows, folder, options)
    several = [f"FILE_SIZE_BYTES {FILE_BYTES}", "APPEND true", "FILENAME_PATTERN 'part-{uuid}'"]
    before = set(Path(folder).glob("part-*"))
    profile = _copy(connection, frame.rows, folder, options + several)
    if not set(Path(folder).glob("part-*")) - before:
        _copy(connection, f"SELECT * FROM ({frame.rows}) LIMIT 0", f"{folder}/part-{uuid4()}.parquet", options)
    return profile


def local_path(path: str) -> str | None:
    """Return the path of a file of this machine, None for a URI of something else.

    >>> local_path("file:///data/a%20b"), local_path("/data"), local_path("s3a://lake/t")
    ('/data/a b', '/data', None)
    """
    if path.startswith("file:"):
        return unquote(urlsplit(path).path)
    return None if "://" in path else path


def _copy(connection: Any, query: str, path: str, options: list[str]) -> str:
    connection.execute(f"COPY ({query}) TO {literal(path)} ({', '.join(options)})")
    return str(connection.get_profiling_information("json"))


def _schema(frame: DuckDBFrame, split_by: str | None) -> str:
    return schema_json(
        tuple((name, kind) for name, kind in frame.columns if split_by is None or name.lower() != split_by.lower())
    )


def codec_of(options: Mapping[str, str], engine: str) -> str:
    """Return the codec that writer options name, by DuckDB's name. Raises RVT-204 for others, and other options."""
    codec = "snappy"
    for key, value in options.items():
        if key.lower() != "compression":
            message = f"`{key}` is no option of the engine {engine} for Parquet files: it has `compression`"
            raise RivetError("RVT-204", message)
        if value.lower() not in CODECS:
            message = f"`compression` cannot be {value} on the engine {engine}; it can be {', '.join(CODECS)}"
            raise RivetError("RVT-204", message)
        codec = CODECS[value.lower()]
    return codec
