"""Projects on disk whose catalog ``lake`` is one of Iceberg, with folders for tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from support.folders import PROFILES, Files, ProjectFolder

NAMESPACE = "shop"
OPTIONS = {"catalog": "hadoop", "warehouse": "lake"}


def profiles(**options: Any) -> dict[str, Any]:
    """Return the profiles of all projects, with ``lake`` as an Iceberg catalog; ``options`` are those of its kind."""
    own = {"type": "iceberg", **(options or OPTIONS), "default-namespace": NAMESPACE}
    default: dict[str, Any] = PROFILES["default"]
    return {"default": {**default, "catalogs": {**default["catalogs"], "lake": own}}}


class IcebergFolder(ProjectFolder):
    """A project whose published tables are read by PyIceberg."""

    def __init__(self, root: Path, files: Files) -> None:
        super().__init__(root, {"profiles.yaml": profiles(), **files})

    def plain(self, name: str) -> Table:
        """Return a table as readers without rivet_dagster see it."""
        return connect_catalog("plain", OPTIONS, self.root).load_table((NAMESPACE, name))

    def table(self, name: str, catalog: str = "lake") -> pa.Table:
        """Return the rows of a published table, or of a file that is no table."""
        return self.plain(name).scan().to_arrow() if catalog == "lake" else super().table(name, catalog)

    def bytes_of(self, name: str, catalog: str = "lake") -> dict[str, bytes]:
        """Return the data files of a published table."""
        files = [task.file.file_path for task in self.plain(name).scan().plan_files()]
        return {path: Path(path.removeprefix("file:")).read_bytes() for path in files}

    def state(self, name: str) -> tuple[Any, ...]:
        """Return the branches of a table, its properties, its published snapshots, and the tables beside it."""
        found = self.plain(name)
        published = [entry.snapshot_id for entry in found.metadata.snapshot_log]
        tables = connect_catalog("plain", OPTIONS, self.root).list_tables(NAMESPACE)
        beats = [path.name for path in self.root.rglob("*.heartbeat")]
        return dict(found.metadata.refs), dict(found.metadata.properties), published, tables, beats
