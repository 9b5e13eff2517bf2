"""The rows that a run has staged in a snapshot, and the branch on which Iceberg's own statements write them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter, new_snapshot_id
from rivet_dagster.catalogs.iceberg.commits.updates import branch_is_at, remove_properties, remove_ref, set_branch
from rivet_dagster.catalogs.iceberg.metadata.statistics import added_statistics_of, statistics_of
from rivet_dagster.catalogs.iceberg.metadata.text_bounds import sequence_number_of
from rivet_dagster.catalogs.iceberg.metadata.types import schema_of, sql_columns
from rivet_dagster.catalogs.iceberg.names import TableName
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.storage import Record, Statistics, StoredRows

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


_MERGED = "spark.merge-into.num-target-rows-"


@dataclass(frozen=True)
class StoredSnapshot:
    """The ``snapshot`` of the table ``name``, by its metadata ``iceberg_table``.

    ``start`` is the snapshot upon which a run that is not published yet has written it.
    """

    name: TableName
    iceberg_table: Table
    snapshot: int
    start: int | None = None

    def whole(self) -> StoredRows:
        """Return all rows."""
        relation = CatalogTable(self.name.parts, snapshot=self.snapshot)
        return StoredRows(relation, statistics_of(self.iceberg_table, self.snapshot, self._schema, self._written_after))

    def appended(self, after: int) -> StoredRows:
        """Return the rows that it has appended to its parent, ``after``."""
        relation = CatalogTable(self.name.parts, snapshot=self.snapshot, after=after)
        return StoredRows(
            relation, added_statistics_of(self.iceberg_table, self.snapshot, self._schema, self._written_after)
        )

    def merged(self) -> Record | None:
        """Return what the MERGE that made it did, by its summary; None if that does not say."""
        known = _summary(self._known(self.snapshot))
        if f"{_MERGED}inserted" not in known:
            return None
        return Record(
            inserted=int(known[f"{_MERGED}inserted"]),
            updated=int(known[f"{_MERGED}updated"]),
            deleted=int(known[f"{_MERGED}deleted"]),
        )

    def bytes_since(self, start: int) -> int:
        """Return the bytes of the files that it and the snapshots before it, up to ``start``, have added."""
        return sum(int(_summary(snapshot).get("added-files-size") or 0) for snapshot in self._since(start))

    @property
    def _written_after(self) -> int | None:
        return None if self.start is None else sequence_number_of(self.iceberg_table, self.start)

    @property
    def _schema(self) -> Schema:
        return schema_of(self.iceberg_table, self.snapshot)

    def _since(self, start: int) -> Iterator[Snapshot]:
        current: int | None = self.snapshot
        while current is not None and current != start:
            snapshot = self._known(current)
            yield snapshot
            current = snapshot.parent_snapshot_id

    def _known(self, snapshot: int) -> Snapshot:
        known = self.iceberg_table.snapshot_by_id(snapshot)
        assert known is not None, f"the snapshot {snapshot} was just made"
        return known


_ELSEWHERE = "Have the engine write to the tables that it is told to: without `spark.wap.*` in Spark's configuration."


def refuse_other_writes(
    iceberg_table: Table, head: int | None, before: int | None, written_to: str, adds: bool = True
) -> None:
    """Raise RVT-407 unless ``head`` is the one snapshot that a statement of an engine has added upon ``before``.

    Without ``adds`` the statement may have found nothing to do. Spark's client sends one again if the server does not
    know it any more, as after a sleep of the machine.
    """
    if head == before and not adds:
        return
    snapshot = iceberg_table.snapshot_by_id(head) if head is not None and head != before else None
    if snapshot is None:
        message = f"the engine has written nothing to {written_to}"
        raise RivetError("RVT-407", message, remediation=_ELSEWHERE)
    if snapshot.parent_snapshot_id != before:
        message = f"{written_to} has other snapshots than the one statement of this run that wrote to it made"
        raise RivetError("RVT-407", message, remediation="Run it again: the engine may have written the rows twice.")


def stored_rows(table: OpenedTable, snapshot: int | None = None) -> StoredRows:
    """Return all rows of a snapshot, by default of the current one; a table without snapshots has none."""
    iceberg_table = table.load()
    wanted = iceberg_table.metadata.current_snapshot_id if snapshot is None else snapshot
    if wanted is not None:
        return StoredSnapshot(table.name, iceberg_table, wanted).whole()
    return StoredRows(CatalogTable(table.name.parts), Statistics(0, 0, sql_columns(iceberg_table.schema())))


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary is not None else {}


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
        iceberg_table = self.table.load()
        head = head_of(iceberg_table, self.key)
        refuse_other_writes(iceberg_table, head, before, f"the branch {self.key} of '{self.name}'", adds)
        self._checked = StoredSnapshot(self.name, iceberg_table, head, self.start)

    def head(self) -> int:
        """Return the snapshot at the head of the branch. Raises RVT-406 if the branch has been removed."""
        return self.look().snapshot

    def look(self) -> StoredSnapshot:
        """Return what the branch holds after the last statement. Raises RVT-406 if it has been removed."""
        if self._checked is not None:
            return self._checked
        iceberg_table = self.table.load()
        return StoredSnapshot(self.name, iceberg_table, head_of(iceberg_table, self.key), self.start)

    def remove(self) -> None:
        """Remove the branch; do nothing if it does not exist any more."""
        remove_branch(self.table, self.key)


def begin_branch(table: OpenedTable, key: str, base: int | None, emptied: bool = False) -> StagedBranch:
    """Make the branch ``key`` at the snapshot ``base``; without one, or ``emptied``, at a new one without rows."""
    start = base

    def changes(iceberg_table: Table) -> Changes:
        nonlocal start
        # PyIceberg takes a requirement of another branch than main for unmet where there is no snapshot yet.
        free = (branch_is_at(key, None),) if iceberg_table.metadata.snapshots else ()
        if base is not None and iceberg_table.snapshot_by_id(base) is None:
            raise RivetError("RVT-405", f"the version of '{table.name}' that this run began upon has been removed")
        if base is not None and not emptied:
            return Changes((set_branch(key, base),), free)
        start = new_snapshot_id()
        parent = iceberg_table.snapshot_by_id(base) if base is not None else None
        writer = SnapshotWriter(iceberg_table.io, iceberg_table.metadata, start, parent)
        added = writer.replaced([], iceberg_table.schema(), iceberg_table.metadata.default_spec_id, {})
        return Changes((added, set_branch(key, start)), free, (writer,))

    commit(table.load, changes, str(table.name))
    assert start is not None
    return StagedBranch(table, key, start)


def remove_branch(table: OpenedTable, key: str) -> None:
    """Remove a branch, and the properties that were kept for it; do nothing if there is none."""

    def changes(iceberg_table: Table) -> Changes:
        marks = [mark for mark in (withheld_mark(key),) if mark in iceberg_table.metadata.properties]
        gone = (remove_ref(key),) if key in iceberg_table.metadata.refs else ()
        return Changes((*gone, *remove_properties(marks)))

    iceberg_table = table.load_if_any()
    if iceberg_table is not None and changes(iceberg_table).updates:
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
