"""Publishing tables without an engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.storage import Published


def catalog(root: Path, path: str = "warehouse", **options: Any) -> FilesystemCatalog:
    """Return a filesystem catalog of a project in ``root``."""
    return FilesystemCatalog(CatalogSpec(path, "filesystem", {"path": path, **options}), root)


def fill(staged: FilesystemTransaction, values: list[int]) -> FilesystemTransaction:
    """Write a column ``id`` like an engine, with the other files that Spark leaves."""
    folder = Path(staged.target.paths[0])
    pq.write_table(pa.table({"id": pa.array(values, pa.int64())}), folder / "part-0.snappy.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.snappy.parquet.crc").write_bytes(b"crc")
    return staged


def publish(warehouse: FilesystemCatalog, values: list[int], table: str = "orders", run: str = "run") -> Published:
    """Publish a table with these ids."""
    return fill(warehouse.begin(table), values).commit(run)


def ids(path: str | Path) -> list[int]:
    """Return the column ``id`` of a table as a Parquet reader sees it."""
    return pq.read_table(path).column("id").to_pylist()


def tree(path: Path) -> list[str]:
    """Return all files and folders below ``path``."""
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def refused(call: Callable[..., Any], *arguments: Any, **options: Any) -> RivetError:
    """Return the error that a call raises."""
    with pytest.raises(RivetError) as caught:
        call(*arguments, **options)
    return caught.value


def recorded_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the inodes passed to fsync from now on, in order; nothing is really synced."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    return synced
