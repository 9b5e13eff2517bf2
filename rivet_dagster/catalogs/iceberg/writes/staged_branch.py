"""A branch of a table on which a run writes with Iceberg's own statements."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter, new_snapshot_id
from rivet_dagster.catalogs.iceberg.commits.updates import branch_is_at, remove_properties, remove_ref, set_branch
from rivet_dagster.catalogs.iceberg.names import TableName
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.writes.stored import StoredSnapshot, refuse_other_writes
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable

if TYPE_CHECKING:
    from pyiceberg.table import Table


@dataclass
class StagedBranch:
    """The branch ``key`` of ``table``, which begins at ``start``; statements move its head."""

    table: OpenedTable
    key: str
    start: int
    _checked: StoredSnapshot | None = None

    @property
    def name(self) -> TableName:
        """The name of the table."""
        return self.table.name

    @property
    def target(self) -> CatalogTable:
        """The relation that an engine writes to."""
        return CatalogTable(self.name.parts, branch=self.key)

    @property
    def written_to(self) -> tuple[str, ...]:
        """The parts of the name by which statements write to the branch."""
        return (*self.name.parts, f"branch_{self.key}")

    @contextmanager
    def statement(self, adds: bool) -> Iterator[None]:
        """Have an engine carry out one statement in the block, which ``adds`` a snapshot even without any row.

        Raises RVT-406 if the branch has been removed, RVT-407 unless it has one new snapshot after the block.
        """
        before = self._checked.snapshot if self._checked is not None else self.start
        yield
        found = self.table.load()
        head = head_of(found, self.key)
        refuse_other_writes(found, head, before, f"the branch {self.key} of '{self.name}'", adds)
        self._checked = StoredSnapshot(self.name, found, head, self.start)

    def head(self) -> int:
        """Return the snapshot at the head of the branch. Raises RVT-406 if the branch has been removed."""
        return self.look().snapshot

    def look(self) -> StoredSnapshot:
        """Return what the branch holds after the last statement. Raises RVT-406 if it has been removed."""
        if self._checked is not None:
            return self._checked
        found = self.table.load()
        return StoredSnapshot(self.name, found, head_of(found, self.key), self.start)

    def remove(self) -> None:
        """Remove the branch; do nothing if it does not exist any more."""
        remove_branch(self.table, self.key)


def begin_branch(table: OpenedTable, key: str, base: int | None, emptied: bool = False) -> StagedBranch:
    """Make the branch ``key`` at the snapshot ``base``; without one, or ``emptied``, at a new one without rows."""
    start = base

    def changes(found: Table) -> Changes:
        nonlocal start
        # PyIceberg takes a requirement of another branch than main for unmet where there is no snapshot yet.
        free = (branch_is_at(key, None),) if found.metadata.snapshots else ()
        if base is not None and found.snapshot_by_id(base) is None:
            raise RivetError("RVT-405", f"the version of '{table.name}' that this run began upon has been removed")
        if base is not None and not emptied:
            return Changes((set_branch(key, base),), free)
        start = new_snapshot_id()
        parent = found.snapshot_by_id(base) if base is not None else None
        writer = SnapshotWriter(found.io, found.metadata, start, parent)
        added = writer.replaced([], found.schema(), found.metadata.default_spec_id, {})
        return Changes((added, set_branch(key, start)), free, (writer,))

    commit(table.load, changes, str(table.name))
    assert start is not None
    return StagedBranch(table, key, start)


def remove_branch(table: OpenedTable, key: str) -> None:
    """Remove a branch, and the properties that were kept for it; do nothing if there is none."""

    def changes(found: Table) -> Changes:
        marks = [mark for mark in (withheld_mark(key),) if mark in found.metadata.properties]
        gone = (remove_ref(key),) if key in found.metadata.refs else ()
        return Changes((*gone, *remove_properties(marks)))

    found = table.load_if_any()
    if found is not None and changes(found).updates:
        commit(table.load, changes, str(table.name))


def head_of(table: Table, key: str) -> int:
    """Return the head of the branch ``key``. Raises RVT-406 if there is none."""
    ref = table.metadata.refs.get(key)
    if ref is None:
        message = f"the branch {key} of '{'.'.join(table.name())}' has been removed, by a sweep or by somebody"
        raise RivetError("RVT-406", message)
    return int(ref.snapshot_id)


def withheld_mark(key: str) -> str:
    """Return the table property that says that the version ``key`` is withheld.

    >>> withheld_mark("rivet_1f_orders")
    'rivet.withheld.rivet_1f_orders'
    """
    return f"rivet.withheld.{key}"
