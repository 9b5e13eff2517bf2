"""The rows of the snapshots of a table: as relations that an engine reads, and in numbers by their metadata."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    """The ``snapshot`` of the table ``name``, by its metadata ``found``.

    ``start`` is the snapshot upon which a run that is not published yet has written it.
    """

    name: TableName
    found: Table
    snapshot: int
    start: int | None = None

    def whole(self) -> StoredRows:
        """Return all rows."""
        relation = CatalogTable(self.name.parts, snapshot=self.snapshot)
        return StoredRows(relation, statistics_of(self.found, self.snapshot, self._schema, self._written_after))

    def appended(self, after: int) -> StoredRows:
        """Return the rows that it has appended to its parent, ``after``."""
        relation = CatalogTable(self.name.parts, snapshot=self.snapshot, after=after)
        return StoredRows(relation, added_statistics_of(self.found, self.snapshot, self._schema, self._written_after))

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
        return None if self.start is None else sequence_number_of(self.found, self.start)

    @property
    def _schema(self) -> Schema:
        return schema_of(self.found, self.snapshot)

    def _since(self, start: int) -> Iterator[Snapshot]:
        current: int | None = self.snapshot
        while current is not None and current != start:
            snapshot = self._known(current)
            yield snapshot
            current = snapshot.parent_snapshot_id

    def _known(self, snapshot: int) -> Snapshot:
        found = self.found.snapshot_by_id(snapshot)
        assert found is not None, f"the snapshot {snapshot} was just made"
        return found


_ELSEWHERE = "Have the engine write to the tables that it is told to: without `spark.wap.*` in Spark's configuration."


def refuse_other_writes(found: Table, head: int | None, before: int | None, written_to: str, adds: bool = True) -> None:
    """Raise RVT-407 unless ``head`` is the one snapshot that a statement of an engine has added upon ``before``.

    Without ``adds`` the statement may have found nothing to do. Spark's client sends one again if the server does not
    know it any more, as after a sleep of the machine.
    """
    if head == before and not adds:
        return
    snapshot = found.snapshot_by_id(head) if head is not None and head != before else None
    if snapshot is None:
        message = f"the engine has written nothing to {written_to}"
        raise RivetError("RVT-407", message, remediation=_ELSEWHERE)
    if snapshot.parent_snapshot_id != before:
        message = f"{written_to} has other snapshots than the one statement of this run that wrote to it made"
        raise RivetError("RVT-407", message, remediation="Run it again: the engine may have written the rows twice.")


def stored_rows(table: OpenedTable, snapshot: int | None = None) -> StoredRows:
    """Return all rows of a snapshot, by default of the current one; a table without snapshots has none."""
    found = table.load()
    wanted = found.metadata.current_snapshot_id if snapshot is None else snapshot
    if wanted is not None:
        return StoredSnapshot(table.name, found, wanted).whole()
    return StoredRows(CatalogTable(table.name.parts), Statistics(0, 0, sql_columns(found.schema())))


def _summary(snapshot: Snapshot) -> dict[str, str]:
    return snapshot.summary.additional_properties if snapshot.summary is not None else {}
