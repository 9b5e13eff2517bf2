"""What the snapshots of a table hold: as relations that an engine reads, and in numbers by their metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.statistics import added_statistics_of, statistics_of
from rivet_dagster.catalogs.iceberg.types import sql_columns
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.storage import Record, Statistics, StoredRows

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

_MERGED = "spark.merge-into.num-target-rows-"


@dataclass(frozen=True)
class Stored:
    """The rows of the snapshots of ``table``."""

    table: OpenedTable

    def whole(self, snapshot: int) -> StoredRows:
        """Return all rows of a snapshot."""
        return self._all(self.table.load(), snapshot)

    def now(self) -> StoredRows:
        """Return all rows of the current snapshot; of a table without one, which has none, by its name."""
        found = self.table.load()
        head = found.metadata.current_snapshot_id
        if head is not None:
            return self._all(found, head)
        return StoredRows(CatalogTable(self.table.name.parts), Statistics(0, 0, sql_columns(found.schema())))

    def _all(self, found: Table, snapshot: int) -> StoredRows:
        relation = CatalogTable(self.table.name.parts, snapshot=snapshot)
        return StoredRows(relation, statistics_of(found, snapshot, schema_of(found, snapshot)))

    def appended(self, after: int, snapshot: int) -> StoredRows:
        """Return the rows that ``snapshot`` has appended to its parent, ``after``."""
        found = self.table.load()
        relation = CatalogTable(self.table.name.parts, snapshot=snapshot, after=after)
        return StoredRows(relation, added_statistics_of(found, snapshot, schema_of(found, snapshot)))

    def merged(self, snapshot: int) -> Record | None:
        """Return what the MERGE that made a snapshot did by its summary; None if that does not say."""
        known = self._snapshot(self.table.load(), snapshot).summary
        counts = known.additional_properties if known is not None else {}
        if f"{_MERGED}inserted" not in counts:
            return None
        return Record(
            inserted=int(counts[f"{_MERGED}inserted"]),
            updated=int(counts[f"{_MERGED}updated"]),
            deleted=int(counts[f"{_MERGED}deleted"]),
        )

    def bytes_since(self, start: int, head: int) -> int:
        """Return the bytes of the files that were added by the snapshots after ``start``, up to ``head``."""
        return sum(_added_bytes(snapshot) for snapshot in self._since(start, head))

    def _since(self, start: int, head: int) -> Iterator[Snapshot]:
        found = self.table.load()
        current: int | None = head
        while current is not None and current != start:
            snapshot = self._snapshot(found, current)
            yield snapshot
            current = snapshot.parent_snapshot_id

    @staticmethod
    def _snapshot(table: Table, snapshot: int) -> Snapshot:
        found = table.snapshot_by_id(snapshot)
        assert found is not None, f"the snapshot {snapshot} was just made"
        return found


def _added_bytes(snapshot: Snapshot) -> int:
    known = snapshot.summary.additional_properties if snapshot.summary is not None else {}
    return int(known.get("added-files-size") or 0)


def schema_of(table: Table, snapshot: int | None) -> Schema:
    """Return the columns of a snapshot; without one, or where it does not say, those of the table."""
    found = table.snapshot_by_id(snapshot) if snapshot is not None else None
    if found is None or found.schema_id is None:
        return table.schema()
    return table.schemas()[found.schema_id]
