"""Publication: one commit that makes a staged version the table's current one, or makes the table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit, create
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter, live_files
from rivet_dagster.catalogs.iceberg.commits.updates import (
    MAIN,
    branch_is_at,
    new_schema,
    remove_properties,
    remove_ref,
    set_branch,
    set_properties,
)
from rivet_dagster.catalogs.iceberg.heartbeat import Heartbeat
from rivet_dagster.catalogs.iceberg.metadata.last_publication import CONTINUES, remembering
from rivet_dagster.catalogs.iceberg.metadata.layout import Layout, layout_updates, table_properties
from rivet_dagster.catalogs.iceberg.metadata.summary import OVERRIDE
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.reaching import OTHER_NAME
from rivet_dagster.catalogs.iceberg.writes.staged_branch import head_of, withheld_mark
from rivet_dagster.catalogs.iceberg.writes.staged_table import Place, creation
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.update import TableRequirement, TableUpdate


@dataclass(frozen=True)
class Release:
    """A publication upon ``upon``, the snapshot that was current when the version was begun: its id and properties.

    ``layout`` is the declared one; ``marks`` are properties of the table to be set with it.
    """

    table: OpenedTable
    upon: int | None
    snapshot_id: int
    properties: Mapping[str, str]
    layout: Layout = field(default_factory=Layout)
    marks: Mapping[str, str] = field(default_factory=dict)

    def of_branch(self, key: str, head: int) -> None:
        """Publish the branch ``key``, whose head must still be ``head``, and remove it.

        Raises RVT-405 if another snapshot has been published since, RVT-406 if the branch is gone.
        """

        def changes(found: Table) -> Changes:
            if self._is_done(found):
                return Changes()
            if head_of(found, key) != head:
                raise RivetError("RVT-407", f"the branch {key} of '{self.table.name}' has changed since it was judged")
            made = self._same_rows(found, head)
            updates = (*made.updates, remove_ref(key), *self._told(found, key))
            return Changes(updates, (*made.requirements, branch_is_at(key, head)), made.writers)

        commit(self.table.load, changes, str(self.table.name))

    def of_snapshot(self, snapshot: int) -> None:
        """Publish an older snapshot of the table again."""

        def changes(found: Table) -> Changes:
            if self._is_done(found):
                return Changes()
            made = self._same_rows(found, snapshot)
            return Changes((*made.updates, *self._told(found)), made.requirements, made.writers)

        commit(self.table.load, changes, str(self.table.name))

    def of_table(self, staged: OpenedTable, place: Place, heartbeat: Heartbeat) -> None:
        """Publish the data files of a staging table as all rows of the table, which is made if it does not exist.

        Raises RVT-405 if another snapshot has been published, or the table been made, since; RVT-406 without a
        heartbeat, since a sweep then removes the files.
        """
        heartbeat.require()
        source = staged.load_if_any()
        if source is None:
            raise RivetError("RVT-406", f"the staging table {staged.name} has been removed, by a sweep or by somebody")
        files = live_files(source.current_snapshot(), source.io)
        if self.table.load_if_any() is None and place.existing is None:
            self._make(source, place, files, heartbeat)
            return

        def changes(found: Table) -> Changes:
            if self._is_done(found):
                return Changes()
            adopted = self._adopted(found, source, files)
            heartbeat.require()
            return adopted

        commit(self.table.load, changes, str(self.table.name))

    def _make(self, source: Table, place: Place, files: list[DataFile], heartbeat: Heartbeat) -> None:
        from pyiceberg.table import Table

        of = source.metadata
        empty = of.model_copy(update={"location": place.location, "last_sequence_number": 0, "properties": {}})
        writer = SnapshotWriter(place.io, empty, self.snapshot_id, None)
        added = writer.replaced(files, of.schema(), of.default_spec_id, self.properties)
        marked = {**table_properties(self.layout), **self.marks, **remembering(self.snapshot_id, self.properties)}
        updates = (
            *creation(of.schema(), of.spec(), of.sort_order(), place.location, marked),
            added,
            set_branch(MAIN, self.snapshot_id),
        )
        new = Table(self.table.name.identifier, empty, "", place.io, self.table.catalog)
        heartbeat.require()
        if not create(self.table.catalog, new, updates):
            writer.discard()
            found = self.table.load_if_any()
            if found is None:
                message = f"the catalog has something of the name '{self.table.name}' that is no table"
                raise RivetError("RVT-404", message, remediation=OTHER_NAME)
            if not self._is_done(found):
                raise RivetError("RVT-405", f"'{self.table.name}' has been made by another run since")

    def _adopted(self, found: Table, source: Table, files: list[DataFile]) -> Changes:
        """Return the changes by which the files, and the columns and the layout of ``source``, are the table's."""
        from pyiceberg.table.update import update_table_metadata

        columns = source.schema()
        schema: tuple[TableUpdate, ...] = ()
        if columns.fields != found.schema().fields:
            schema = new_schema(columns.model_copy(update={"schema_id": max(found.schemas()) + 1}))
        with_schema = update_table_metadata(found.metadata, schema) if schema else found.metadata
        layout = layout_updates(self.layout, with_schema)
        metadata = update_table_metadata(with_schema, layout) if layout else with_schema
        parent = found.snapshot_by_id(self.upon) if self.upon is not None else None
        writer = SnapshotWriter(found.io, metadata, self.snapshot_id, parent)
        added = writer.replaced(files, metadata.schema(), metadata.default_spec_id, self.properties)
        updates = (*schema, *layout, added, set_branch(MAIN, self.snapshot_id), *self._told(found, laid_out=True))
        return Changes(updates, self._required(), (writer,))

    def _same_rows(self, found: Table, snapshot: int) -> Changes:
        parent = found.snapshot_by_id(snapshot)
        if parent is None:
            raise RivetError("RVT-401", f"the snapshot {snapshot} of '{self.table.name}' has expired")
        writer = SnapshotWriter(found.io, found.metadata, self.snapshot_id, parent)
        added = writer.same_rows(self.properties)
        return Changes((added, set_branch(MAIN, self.snapshot_id)), self._required(), (writer,))

    def _required(self) -> tuple[TableRequirement, ...]:
        return (branch_is_at(MAIN, self.upon),)

    def _is_done(self, found: Table) -> bool:
        """Return whether the version is published. Raises RVT-405 if another one is current than when it was begun."""
        if found.metadata.current_snapshot_id == self.snapshot_id:
            return True
        if found.metadata.current_snapshot_id != self.upon:
            raise self._overtaken()
        return False

    def _overtaken(self) -> RivetError:
        return RivetError("RVT-405", f"'{self.table.name}' has been published by another run since")

    def _told(self, found: Table, key: str | None = None, laid_out: bool = False) -> tuple[TableUpdate, ...]:
        """Return the updates of the table's properties and layout that go with the publication."""
        ended = [OVERRIDE, CONTINUES, *([withheld_mark(key)] if key is not None else [])]
        gone = [name for name in ended if name in found.metadata.properties]
        layout = () if laid_out else layout_updates(self.layout, found.metadata)
        marks = {**self.marks, **remembering(self.snapshot_id, self.properties)}
        return (*layout, *set_properties(marks), *remove_properties(gone))
