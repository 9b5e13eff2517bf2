"""Trying whether a run could commit to a warehouse of folders."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


def try_to_commit(catalog: Catalog) -> None:
    """Try the file operations of a commit in the warehouse, or where it will be; do nothing in other catalogs.

    Raises OSError.
    """
    from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog

    if isinstance(catalog, HadoopCatalog):
        existing = next(path for path in (catalog.folder, *catalog.folder.parents) if path.exists())
        with TemporaryDirectory(prefix=".rivet-doctor-", dir=existing) as name:
            probe = Path(name)
            (probe / "file").touch()
            os.link(probe / "file", probe / "linked")
