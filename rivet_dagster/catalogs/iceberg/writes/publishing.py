"""Publication: one commit that makes a staged version the table's current one, or makes the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, Outcome, commit, create
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter, live_files
from rivet_dagster.catalogs.iceberg.commits.updates import (
    MAIN,
    Definition,
    branch_is_at,
    changed_schema,
    remove_properties,
    remove_ref,
    set_branch,
    set_properties,
)
from rivet_dagster.catalogs.iceberg.metadata.last_publication import CONTINUES, last_publication_property
from rivet_dagster.catalogs.iceberg.metadata.layout import (
    IcebergLayout,
    layout_updates,
    retain_layout,
    spec_updates,
    table_properties,
)
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import facts_of, manifests_of, with_facts
from rivet_dagster.catalogs.iceberg.metadata.summary import ORDER, OVERRIDE, SPEC
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.reaching import OTHER_NAME
from rivet_dagster.catalogs.iceberg.writes.staged_branch import head_of, withheld_mark
from rivet_dagster.catalogs.iceberg.writes.staged_table import (
    StagingTable,
    VersionLocation,
    creation,
    mark_publishing,
    unmark_publishing,
)
from rivet_dagster.catalogs.versions.refusals import overtaken
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.sorting import SortField
    from pyiceberg.table.update import TableRequirement, TableUpdate


@dataclass(frozen=True)
class Release:
    """A publication upon ``upon``, the snapshot that was current when the version was begun: its id and properties.

    ``begun`` is what the table was then, besides its rows; None where there was no table. ``layout`` is the declared
    one; ``marks`` are properties of the table to be set with it. ``outcome`` says whether it is known what has become
    of the commit.
    """

    table: OpenedTable
    upon: int | None
    snapshot_id: int
    properties: Mapping[str, str]
    layout: IcebergLayout = field(default_factory=IcebergLayout)
    marks: Mapping[str, str] = field(default_factory=dict)
    begun: Definition | None = None
    outcome: Outcome = field(default_factory=Outcome)

    def of_branch(self, key: str, head: int) -> None:
        """Publish the branch ``key``, whose head must still be ``head``, and remove it.

        Raises RVT-405 if another snapshot has been published since, RVT-406 if the branch is gone.
        """

        def changes(iceberg_table: Table) -> Changes:
            if self.is_done(iceberg_table):
                return Changes()
            if head_of(iceberg_table, key) != head:
                raise RivetError("RVT-407", f"the branch {key} of '{self.table.name}' has changed since it was judged")
            made = self._same_rows(iceberg_table, head)
            updates = (*made.updates, remove_ref(key), *self.property_updates(iceberg_table, key))
            return self.with_requirements(updates, (*made.requirements, branch_is_at(key, head)), made)

        self.commit_changes(changes)

    def of_snapshot(self, snapshot: int) -> None:
        """Publish an older snapshot of the table again, with the columns and the layout that the table had with it.

        Raises RVT-401 if it has expired, or its columns are not known any more.
        """

        def changes(iceberg_table: Table) -> Changes:
            if self.is_done(iceberg_table):
                return Changes()
            made = self._again(iceberg_table, snapshot)
            return self.with_requirements(
                (*made.updates, *self.property_updates(iceberg_table, laid_out=True)), made.requirements, made
            )

        self.commit_changes(changes)

    def of_table(self, staged: StagingTable, judged: int | None) -> None:
        """Publish the data files of a staging table as all rows of the table, which is made if it does not exist.

        They are those of the snapshot ``judged``, which must still be the current one there (RVT-407). Raises RVT-405
        if another snapshot has been published, or the table been made or changed, since; RVT-406 without a heartbeat,
        or without the branch by which a sweep, which removes the files, first makes the commit impossible.
        """
        staged.heartbeat.require()
        source = staged.table.load_if_any()
        if source is None:
            name = staged.table.name
            raise RivetError("RVT-406", f"the staging table {name} has been removed, by a sweep or by somebody")
        if source.metadata.current_snapshot_id != judged:
            message = f"the staging table {staged.table.name} has changed since it was judged"
            raise RivetError("RVT-407", message)
        files = live_files(source.current_snapshot(), source.io)
        is_on_branch_of_run = staged.table.published is not staged.table  # where sweeps remove no file
        if self.table.load_if_any() is None and staged.fence is None:
            self._make(source, None if is_on_branch_of_run else staged.table, staged.location, files)
            return

        def changes(iceberg_table: Table) -> Changes:
            if self.is_done(iceberg_table):
                return Changes()
            fence = staged.fence
            if fence is None:
                raise RivetError("RVT-405", f"'{self.table.name}' has been made by another run since")
            if is_on_branch_of_run:
                made = self._adopted(iceberg_table, source, files)
                return self.with_requirements(made.updates, made.requirements, made)
            if head_of(iceberg_table, fence.key) != fence.start:
                raise RivetError("RVT-407", f"the branch {fence.key} of '{self.table.name}' has been written to")
            made = self._adopted(iceberg_table, source, files)
            required = (*made.requirements, branch_is_at(fence.key, fence.start))
            return self.with_requirements((*made.updates, remove_ref(fence.key)), required, made)

        self.commit_changes(changes)

    def commit_changes(self, changes: Callable[[Table], Changes]) -> None:
        """Commit what ``changes`` returns of the table as it is then. Raises RVT-405."""
        commit(self.table.load, changes, str(self.table.name), self.outcome)

    def _make(
        self, source: Table, staged: OpenedTable | None, location: VersionLocation, files: list[DataFile]
    ) -> None:
        from pyiceberg.table import Table

        of = source.metadata
        empty = of.model_copy(update={"location": location.root, "last_sequence_number": 0, "properties": {}})
        writer = SnapshotWriter(location.io, empty, self.snapshot_id, None)
        added = writer.replaced(files, of.schema(), of.default_spec_id, self.properties)
        marked = {
            **table_properties(self.layout),
            **self.marks,
            **last_publication_property(self.snapshot_id, self.properties),
        }
        updates = (
            *creation(self.table.catalog, of.schema(), of.spec(), of.sort_order(), location.root, marked),
            added,
            set_branch(MAIN, self.snapshot_id),
        )
        new = Table(self.table.name.identifier, empty, "", location.io, self.table.catalog)
        if staged is not None:
            mark_publishing(staged)
        try:
            is_made = create(self.table.catalog, new, updates, self.outcome)
        except Exception:
            if not self.outcome.is_unknown:
                writer.discard()
                if staged is not None:
                    unmark_publishing(staged)
            raise
        if not is_made:
            writer.discard()
            if staged is not None:
                unmark_publishing(staged)
            iceberg_table = self.table.load_if_any()
            if iceberg_table is None:
                message = f"the catalog has something of the name '{self.table.name}' that is no table"
                raise RivetError("RVT-404", message, remediation=OTHER_NAME)
            if not self.is_done(iceberg_table):
                raise RivetError("RVT-405", f"'{self.table.name}' has been made by another run since")

    def _adopted(self, iceberg_table: Table, source: Table, files: list[DataFile]) -> Changes:
        """Return the changes by which the files, and the columns and the layout of ``source``, are the table's."""
        from pyiceberg.table.update import update_table_metadata

        columns = source.schema()
        schema, with_schema = changed_schema(iceberg_table.metadata, columns)
        layout = layout_updates(retain_layout(self.layout, columns, iceberg_table.metadata), with_schema)
        laid_out = (
            update_table_metadata(iceberg_table.metadata, (*schema, *layout))
            if schema or layout
            else iceberg_table.metadata
        )
        spec = spec_updates(source.spec(), laid_out)
        metadata = update_table_metadata(laid_out, spec) if spec else laid_out
        parent = iceberg_table.snapshot_by_id(self.upon) if self.upon is not None else None
        writer = SnapshotWriter(iceberg_table.io, metadata, self.snapshot_id, parent)
        added = writer.replaced(files, metadata.schema(), metadata.default_spec_id, self.properties)
        published = (added, set_branch(MAIN, self.snapshot_id))
        updates = (*schema, *layout, *spec, *published, *self.property_updates(iceberg_table, laid_out=True))
        return Changes(updates, (branch_is_at(MAIN, self.upon),), (writer,))

    def _again(self, iceberg_table: Table, snapshot: int) -> Changes:
        return self._same_rows(iceberg_table, snapshot, lambda parent: restoring_updates(iceberg_table, parent))

    def _same_rows(
        self, iceberg_table: Table, snapshot: int, laid_out: Callable[[Snapshot], tuple[TableUpdate, ...]] | None = None
    ) -> Changes:
        """Return the changes that publish the rows of a snapshot, with what it ``laid_out`` before."""
        from pyiceberg.table.update import update_table_metadata

        parent = iceberg_table.snapshot_by_id(snapshot)
        if parent is None:
            raise RivetError("RVT-401", f"the snapshot {snapshot} of '{self.table.name}' has expired")
        updates = laid_out(parent) if laid_out is not None else ()
        metadata = update_table_metadata(iceberg_table.metadata, updates) if updates else iceberg_table.metadata
        writer = SnapshotWriter(iceberg_table.io, metadata, self.snapshot_id, parent)
        added = writer.same_rows(self.properties)
        requirements = (branch_is_at(MAIN, self.upon),)
        return Changes((*updates, added, set_branch(MAIN, self.snapshot_id)), requirements, (writer,))

    def with_requirements(
        self, updates: tuple[TableUpdate, ...], requirements: tuple[TableRequirement, ...], made: Changes
    ) -> Changes:
        """Return a commit of ``updates`` that also requires the table to be what it was when the version was begun."""
        of_begun = self.begun.requirements(updates) if self.begun is not None else ()
        return Changes(updates, (*of_begun, *requirements), made.writers)

    def is_done(self, iceberg_table: Table) -> bool:
        """Return whether the version is published.

        Raises RVT-405 if another one is current than when it was begun, or the table has been changed since.
        """
        if iceberg_table.snapshot_by_id(self.snapshot_id) is not None:
            return True
        if iceberg_table.metadata.current_snapshot_id != self.upon:
            raise overtaken(str(self.table.name))
        if self.begun is not None and Definition.of(iceberg_table.metadata) != self.begun:
            message = f"the columns or partitions of '{self.table.name}' have been changed by somebody else since"
            raise RivetError("RVT-405", message)
        return False

    def property_updates(
        self, iceberg_table: Table, key: str | None = None, laid_out: bool = False
    ) -> tuple[TableUpdate, ...]:
        """Return the updates of the table's properties and layout that go with the publication."""
        ended = [OVERRIDE, CONTINUES, *([withheld_mark(key)] if key is not None else [])]
        gone = [name for name in ended if name in iceberg_table.metadata.properties]
        layout = () if laid_out else layout_updates(self.layout, iceberg_table.metadata)
        marks = {**self.marks, **last_publication_property(self.snapshot_id, self.properties)}
        return (*layout, *set_properties(marks), *remove_properties(gone))


def restoring_updates(table: Table, snapshot: Snapshot) -> tuple[TableUpdate, ...]:
    """Return the updates that give a table the columns and the layout of a snapshot; none if it has them.

    Raises RVT-401 for a snapshot whose columns are not known any more.
    """
    from pyiceberg.table import update

    metadata, first = table.metadata, with_facts(table, snapshot)
    schema = _schema(table, first)
    updates: list[TableUpdate] = []
    if schema.schema_id != metadata.current_schema_id:
        updates.append(update.SetCurrentSchemaUpdate.model_validate({"schema-id": schema.schema_id}))
    spec = _spec(table, first, schema)
    if spec != metadata.default_spec_id:
        updates.append(update.SetDefaultSpecUpdate.model_validate({"spec-id": spec}))
    order = _order(table, first, schema)
    if order not in {known.order_id for known in metadata.sort_orders}:
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

        updates.append(update.AddSortOrderUpdate.model_validate({"sort-order": UNSORTED_SORT_ORDER}))
    if order != metadata.default_sort_order_id:
        updates.append(update.SetDefaultSortOrderUpdate.model_validate({"sort-order-id": order}))
    return tuple(updates)


def _schema(table: Table, snapshot: Snapshot) -> Schema:
    schemas = table.schemas()
    if snapshot.schema_id in schemas:
        return schemas[snapshot.schema_id]
    if snapshot.schema_id is None and len(schemas) == 1:
        return table.schema()
    message = f"the metadata of '{'.'.join(table.name())}' no longer tells the columns of {snapshot.snapshot_id}"
    remedy = f"Its rows can be read as they are: VERSION AS OF {snapshot.snapshot_id}. Have a joint publish them."
    raise RivetError("RVT-401", message, remediation=remedy)


def _spec(table: Table, snapshot: Snapshot, schema: Schema) -> int:
    """Return the id of the partition spec: the recorded one, else that of the files written last."""
    metadata = table.metadata
    manifests = sorted(
        manifests_of(snapshot, table.io), key=lambda manifest: manifest.sequence_number or 0, reverse=True
    )
    wanted = [facts_of(snapshot).get(SPEC), metadata.default_spec_id if not manifests else None]
    wanted += [manifest.partition_spec_id for manifest in manifests]
    ids = [int(id_) for id_ in wanted if id_ is not None]
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    fitting = (id_ for id_ in ids if id_ in specs and _fits(specs[id_].fields, schema))
    fit = next(fitting, None)
    if fit is None:
        message = f"the table had partitions with {snapshot.snapshot_id} of columns that its version did not have"
        raise RivetError("RVT-401", message, remediation="Run the joint again instead.")
    return fit


def _order(table: Table, snapshot: Snapshot, schema: Schema) -> int:
    """Return the id of the sort order: the recorded one, else that of the table, else one that fits; 0 for none."""
    metadata = table.metadata
    orders = {order.order_id: order for order in metadata.sort_orders}
    recorded = facts_of(snapshot).get(ORDER)
    ids = [int(recorded)] if recorded is not None else [metadata.default_sort_order_id, *sorted(orders, reverse=True)]
    return next((id_ for id_ in ids if id_ in orders and _fits(orders[id_].fields, schema)), 0)


def _fits(fields: Iterable[PartitionField | SortField], schema: Schema) -> bool:
    return all(field.source_id in schema._lazy_id_to_field for field in fields if str(field.transform) != "void")
