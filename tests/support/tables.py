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
from rivet_dagster.catalogs.filesystem.transaction import FilesystemTransaction
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.storage import Published


def catalog(root: Path, path: str = "warehouse", **options: Any) -> FilesystemCatalog:
    """A filesystem catalog of a project in ``root``."""
    return FilesystemCatalog(CatalogSpec(path, "filesystem", {"path": path, **options}), root)


def fill(staged: FilesystemTransaction, values: list[int]) -> FilesystemTransaction:
    """What an engine would write for a column ``id``, with what Spark leaves beside it."""
    folder = Path(staged.target.paths[0])
    pq.write_table(pa.table({"id": pa.array(values, pa.int64())}), folder / "part-0.snappy.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.snappy.parquet.crc").write_bytes(b"crc")
    return staged


def publish(warehouse: FilesystemCatalog, values: list[int], table: str = "orders", run: str = "run") -> Published:
    """A table with these ids."""
    return fill(warehouse.begin(table), values).commit(run)


def ids(path: str | Path) -> list[int]:
    """The column ``id`` of a table, as a plain reader sees it."""
    return pq.read_table(path).column("id").to_pylist()


def tree(path: Path) -> list[str]:
    """All that lies below ``path``."""
    return sorted(str(p.relative_to(path)) for p in path.rglob("*"))


def refused(call: Callable[..., Any], *arguments: Any, **options: Any) -> RivetError:
    """The error that a call ends with."""
    with pytest.raises(RivetError) as caught:
        call(*arguments, **options)
    return caught.value


def recorded_syncs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The inodes of what is put on disk for good from now on, in order; the disk itself is spared."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    return synced
