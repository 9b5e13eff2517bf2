"""The version whose rows a snapshot has: rewriting files makes new snapshots of the same version.

A version has the id of the snapshot that published it. Iceberg says of a snapshot that only rewrote files, by whoever,
that its operation is ``replace``; upkeep then adds one with the facts of the version, which names it in ``ROWS_OF``.

The manifests of snapshots and the entries in them, as PyIceberg reads them; a damaged file is named.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from rivet_dagster.catalogs.iceberg.metadata.types import schema_of
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


T = TypeVar("T")


def manifests_of(snapshot: Snapshot | None, io: FileIO) -> list[ManifestFile]:
    """Return the manifests that the list of a snapshot names, none without a snapshot.

    Raises OSError for a list that cannot be read, RVT-407 for a damaged one.
    """
    return [] if snapshot is None else _read(snapshot.manifest_list, lambda: snapshot.manifests(io))


def entries_of(manifest: ManifestFile, io: FileIO, discard_deleted: bool = True) -> list[ManifestEntry]:
    """Return the entries of a manifest, by default without those of files that its snapshot has removed.

    Raises OSError for a file that cannot be read, RVT-407 for a damaged one.
    """
    return _read(manifest.manifest_path, lambda: manifest.fetch_manifest_entry(io, discard_deleted))


def _read(path: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except (OSError, RivetError):
        raise
    except Exception as error:  # PyIceberg's decoder trusts the bytes: EOFError, UnicodeDecodeError, SystemError, ...
        remedy = "Restore the file, or have Spark expire the snapshots that need it."
        raise RivetError("RVT-407", f"the metadata file {path} is damaged: {error!r}", remediation=remedy) from error


ROWS_OF, PUBLISHED_AT = "rivet.rows-of", "rivet.published-at"
"""Properties of a snapshot with the rows of an earlier one: the id of that, and when it was published."""


def facts_of(snapshot: Snapshot) -> dict[str, str | None]:
    """Return the properties of a snapshot."""
    return dict(snapshot.summary.additional_properties) if snapshot.summary is not None else {}


def with_facts(table: Table, snapshot: Snapshot) -> Snapshot:
    """Return the snapshot that has the facts about these rows: the one before those that only rewrote files."""
    while only_rewrites(snapshot) and snapshot.parent_snapshot_id is not None:
        parent = table.snapshot_by_id(snapshot.parent_snapshot_id)
        if parent is None:
            break
        snapshot = parent
    return snapshot


def version_of(table: Table, snapshot: Snapshot) -> int:
    """Return the version whose rows a snapshot has."""
    published = with_facts(table, snapshot)
    return int(facts_of(published).get(ROWS_OF) or published.snapshot_id)


def current_version(table: Table) -> int | None:
    """Return the version that is current; None for a table without snapshots."""
    current = table.current_snapshot()
    return None if current is None else version_of(table, current)


def snapshot_of(table: Table, version: int) -> Snapshot | None:
    """Return the newest snapshot that has the rows of a version; None if all have expired."""
    newest_first = reversed(table.metadata.snapshots)
    return next((snapshot for snapshot in newest_first if version_of(table, snapshot) == version), None)


def only_rewrites(snapshot: Snapshot) -> bool:
    """Return whether a snapshot has the rows of its parent, in other files."""
    from pyiceberg.table.snapshots import Operation

    return snapshot.summary is not None and snapshot.summary.operation is Operation.REPLACE


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
    mine, others = ({manifest.manifest_path for manifest in manifests_of(s, table.io)} for s in snapshots)
    both = mine & others
    return _files(table, snapshots[0], both) == _files(table, snapshots[1], both)


def _files(table: Table, snapshot: Snapshot | None, leave_out: set[str]) -> set[File]:
    """Return the data and delete files of manifests; what a delete file concerns depends on sequence numbers."""
    manifests = [manifest for manifest in manifests_of(snapshot, table.io) if manifest.manifest_path not in leave_out]
    entries = (entries_of(manifest, table.io) for manifest in manifests)
    return {(entry.data_file.file_path, entry.sequence_number) for of_one in entries for entry in of_one}
