"""Folders of Parquet files that somebody else has made, and what is done with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.tables import catalog


def make_folder(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write files into a folder: rows of a column ``id`` in Parquet, bytes as they are, tables of Arrow."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            table = content if isinstance(content, pa.Table) else pa.table({"id": pa.array(content, pa.int64())})
            pq.write_table(table, path)
    return folder


def adopt_orders(root: Path) -> None:
    """Take over the table ``orders`` of the catalog ``lake``."""
    assert catalog(root, "lake").adopt("orders") is not None


def give_up_orders(root: Path) -> None:
    """Give it up again."""
    assert catalog(root, "lake").give_up("orders")
