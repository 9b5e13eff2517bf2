"""Versions with error tables, written without an engine."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Published
from support.tables import fill

ERRORS = "orders__errors"

COLUMNS = ("joint", "code", "expression", "file", "line", "message", "row", "key", "run_id", "version", "found_at")
TYPES = {"line": pa.int32(), "found_at": pa.timestamp("us", "UTC")}
SCHEMA = pa.schema([(name, TYPES.get(name, pa.string())) for name in COLUMNS])


class Writer:
    """A session that writes Arrow tables as Spark writes frames: a file with a new name, and others beside it."""

    def write(self, frame: pa.Table, target: Files, progress: Any = None, split_by: Any = None) -> None:
        """Write a file."""
        folder, name = Path(target.paths[0]), f"part-{uuid.uuid4()}.snappy.parquet"
        pq.write_table(frame, folder / name)
        (folder / "_SUCCESS").touch()
        (folder / f".{name}.crc").write_bytes(b"crc")


def errors(messages: Sequence[str]) -> pa.Table:
    """Return errors with these messages."""
    rows = [dict.fromkeys(COLUMNS, "x") | {"line": 7, "message": message, "found_at": None} for message in messages]
    return pa.Table.from_pylist(rows, SCHEMA)


def staged(
    warehouse: FilesystemCatalog, values: list[int], messages: Sequence[str] | None = (), name: str = ERRORS
) -> FilesystemTransaction:
    """Stage a version with these ids and errors; None is no error table."""
    transaction = fill(warehouse.begin("orders", Writer()), values)  # type: ignore[arg-type]
    if messages is not None:
        transaction.write_errors(name, errors(messages))
    return transaction


def publish(
    warehouse: FilesystemCatalog, values: list[int], messages: Sequence[str] | None = (), name: str = ERRORS
) -> Published:
    """Publish such a version."""
    return staged(warehouse, values, messages, name).commit("run")


def messages(path: str | Path) -> list[str]:
    """Return the messages of an error table as a Parquet reader sees them."""
    return sorted(pq.read_table(path)["message"].to_pylist())
