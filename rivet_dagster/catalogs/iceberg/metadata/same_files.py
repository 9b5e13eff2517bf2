"""Comparison of snapshots by the files in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.metadata.types import schema_of

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

File = tuple[str, int | None]


def same_files(table: Table, one: int | None, other: int | None) -> bool:
    """Return whether two snapshots have the same columns and the same files, so that their rows are the same.

    Manifests that both have are not read. Snapshots that do not exist, or have expired, have no files to compare.
    """
    snapshots = [table.snapshot_by_id(id_ or 0) for id_ in (one, other)]
    if None in snapshots or schema_of(table, one).fields != schema_of(table, other).fields:
        return False
    if one == other:
        return True
    mine, others = ({manifest.manifest_path for manifest in _manifests(table, s)} for s in snapshots)
    both = mine & others
    return _files(table, snapshots[0], both) == _files(table, snapshots[1], both)


def _files(table: Table, snapshot: Snapshot | None, leave_out: set[str]) -> set[File]:
    """Return the data and delete files of manifests; what a delete file concerns depends on sequence numbers."""
    manifests = [manifest for manifest in _manifests(table, snapshot) if manifest.manifest_path not in leave_out]
    entries = (manifest.fetch_manifest_entry(table.io, discard_deleted=True) for manifest in manifests)
    return {(entry.data_file.file_path, entry.sequence_number) for of_one in entries for entry in of_one}


def _manifests(table: Table, snapshot: Snapshot | None) -> list[ManifestFile]:
    return snapshot.manifests(table.io) if snapshot is not None else []
