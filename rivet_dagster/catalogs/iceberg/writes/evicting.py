"""Removing all versions of a table, on the condition that none has been published since.

It is one commit, which fails if another snapshot is current by then, and no drop, which catalogs carry out by the name
alone: the table stays, without rows, and a run that began upon its version publishes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, branch_is_at, remove_ref
from rivet_dagster.catalogs.iceberg.opened import OpenedTable

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


def remove_versions(table: OpenedTable, snapshot: int) -> bool:
    """Remove all snapshots of a table whose current one is ``snapshot``, and their files; return False if it is not.

    The heads of branches and tags stay, with what runs have staged on the way to them.
    """
    seen: list[Table] = []

    def without_versions(found: Table) -> Changes:
        from pyiceberg.table.update import RemoveSnapshotsUpdate

        seen[:] = [found]
        if found.metadata.current_snapshot_id != snapshot:
            return Changes()
        going = [snapshot.snapshot_id for snapshot in _divided(found)[0]]
        removed = (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": going}),) if going else ()
        return Changes((remove_ref(MAIN), *removed), (branch_is_at(MAIN, snapshot),))

    commit(table.load, without_versions, str(table.name))
    (found,) = seen
    if found.metadata.current_snapshot_id != snapshot:
        return False
    _delete_files(found)
    return True


def _delete_files(found: Table) -> None:
    """Delete the files that only the removed snapshots had, unless ``gc.enabled`` is false."""
    if found.metadata.properties.get("gc.enabled", "true").lower() == "false":
        return
    going, others = (_files(found, snapshots) for snapshots in _divided(found))
    for path in sorted(going - others):
        with suppress(FileNotFoundError):
            found.io.delete(path)


def _divided(found: Table) -> tuple[list[Snapshot], list[Snapshot]]:
    """Return the snapshots that no branch or tag but the current one needs, and the others."""
    known = {snapshot.snapshot_id: snapshot for snapshot in found.metadata.snapshots}
    published = {entry.snapshot_id for entry in found.metadata.snapshot_log}
    kept: set[int] = set()
    for name, ref in found.metadata.refs.items():
        current: int | None = None if name == MAIN else ref.snapshot_id
        while current is not None and current in known and current not in kept:
            kept.add(current)
            parent = known[current].parent_snapshot_id
            current = None if parent in published else parent
    return [s for id_, s in known.items() if id_ not in kept], [s for id_, s in known.items() if id_ in kept]


def _files(found: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the paths of the data files and the metadata files of snapshots."""
    lists = {snapshot.manifest_list for snapshot in snapshots}
    manifests = {manifest.manifest_path: manifest for s in snapshots for manifest in s.manifests(found.io)}
    entries = (entry for m in manifests.values() for entry in m.fetch_manifest_entry(found.io, discard_deleted=False))
    return {*lists, *manifests, *(entry.data_file.file_path for entry in entries)}
