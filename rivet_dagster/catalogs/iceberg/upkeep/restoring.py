"""Facts of a version whose files were rewritten: they are added to its new snapshot, since the old one will expire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter, new_snapshot_id
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, branch_is_at, set_branch
from rivet_dagster.catalogs.iceberg.metadata.history import published_at
from rivet_dagster.catalogs.iceberg.metadata.same_rows import (
    PUBLISHED_AT,
    ROWS_OF,
    facts_of,
    only_rewrites,
    version_of,
    with_facts,
)
from rivet_dagster.catalogs.iceberg.metadata.summary import TEXT_BOUNDS
from rivet_dagster.catalogs.iceberg.metadata.text_bounds import (
    recorded_bounds,
    sequence_number_of,
    together,
    written_bounds,
)
from rivet_dagster.catalogs.iceberg.opened import OpenedTable

if TYPE_CHECKING:
    from pyiceberg.table import Table


def restore_facts(table: OpenedTable, since: int | None = None) -> None:
    """Put a snapshot with the same files and the version's facts on one that only rewrote files, if it is current.

    Until then, and if this process dies before, readers of the facts find them through the snapshot's parents. Files
    that were rewritten after the snapshot ``since`` are known to be written by us.
    """

    def changes(found: Table) -> Changes:
        current = found.current_snapshot()
        if current is None or not only_rewrites(current):
            return Changes()
        first = with_facts(found, current)
        facts = {key: value or "" for key, value in facts_of(first).items() if key.startswith("rivet.")}
        if not facts:
            return Changes()
        after, bounds = sequence_number_of(found, since), recorded_bounds(found, first.snapshot_id)
        if after >= sequence_number_of(found, first.snapshot_id):
            bounds = together(bounds, written_bounds(found, after))
        facts[TEXT_BOUNDS] = json.dumps(bounds, separators=(",", ":"))
        same = {ROWS_OF: str(version_of(found, current)), PUBLISHED_AT: published_at(found, current)}
        snapshot_id = new_snapshot_id()
        writer = SnapshotWriter(found.io, found.metadata, snapshot_id, current)
        added = writer.same_rows(facts | same)
        at_head = branch_is_at(MAIN, current.snapshot_id)
        return Changes((added, set_branch(MAIN, snapshot_id)), (at_head,), (writer,))

    commit(table.load, changes, str(table.name))
