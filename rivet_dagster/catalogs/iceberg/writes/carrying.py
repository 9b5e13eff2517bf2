"""Publishing a branch of a table whose metadata are on a branch of the server, with the snapshots that it has there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, branch_is_at, set_branch
from rivet_dagster.catalogs.iceberg.nessie.one_commit import OneCommit
from rivet_dagster.catalogs.iceberg.writes.errors import StagedErrors
from rivet_dagster.catalogs.iceberg.writes.publishing import Release
from rivet_dagster.catalogs.iceberg.writes.staged_branch import StagedBranch, head_of
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate


def carry(release: Release, branch: StagedBranch, head: int) -> None:
    """Publish ``branch``, whose head must still be ``head``, as the snapshot of ``release``.

    The snapshots before it go along, so that readers of what a version has appended find it; not so if the table has
    snapshots by now that are numbered alike, as for a version that was withheld. Raises RVT-405 and RVT-406 as
    ``Release.of_branch`` does, and RVT-407.
    """
    source = branch.table.load_if_any()
    if source is None:
        raise RivetError("RVT-406", f"the branch {branch.key} has been removed, by a sweep or by somebody")
    if head_of(source, branch.key) != head:
        message = f"the branch {branch.key} of '{release.table.name}' has changed since it was judged"
        raise RivetError("RVT-407", message)

    def changes(found: Table) -> Changes:
        if release._is_done(found):
            return Changes()
        before, metadata = _carried(found, source, head)
        writer = SnapshotWriter(found.io, metadata, release.snapshot_id, source.snapshot_by_id(head))
        added = writer.same_rows(release.properties)
        made = Changes((*before, added, set_branch(MAIN, release.snapshot_id), *release._told(found)), (), (writer,))
        return release._required(made.updates, (branch_is_at(MAIN, release.upon),), made)

    if isinstance(release.table.catalog, OneCommit):
        release.table.catalog.carried |= {snapshot.snapshot_id for snapshot in source.metadata.snapshots}
    release._commit(changes)


def _carried(found: Table, source: Table, head: int) -> tuple[tuple[TableUpdate, ...], TableMetadata]:
    """Return the updates that add the snapshots up to ``head``, and the metadata that the next one is numbered by."""
    from pyiceberg.table.update import AddSnapshotUpdate, update_table_metadata

    new = list(reversed([*_before(found, source, head)]))
    next_number = found.metadata.next_sequence_number()
    if new and (new[0].sequence_number or 0) < next_number:
        last = max(next_number, source.metadata.next_sequence_number()) - 1
        return (), found.metadata.model_copy(update={"last_sequence_number": last})
    updates = tuple(AddSnapshotUpdate(snapshot=snapshot) for snapshot in new)
    return updates, update_table_metadata(found.metadata, updates) if updates else found.metadata


def _before(found: Table, source: Table, head: int) -> Iterator[Snapshot]:
    """Yield the snapshots of ``source`` from ``head`` back to one that ``found`` has."""
    current: int | None = head
    while current is not None and found.snapshot_by_id(current) is None:
        snapshot = source.snapshot_by_id(current)
        if snapshot is None:
            return
        yield snapshot
        current = snapshot.parent_snapshot_id


@dataclass
class ErrorsOfRun(StagedErrors):
    """The errors of a version that are staged on the branch of a run."""

    def _publish_branch(self, release: Release, branch: StagedBranch, judged: int) -> None:
        carry(release, branch, judged)
