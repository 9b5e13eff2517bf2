"""The columns, the partitions and the sort order that a table had with a version, to be those of the table again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.metadata.same_rows import facts_of, with_facts
from rivet_dagster.catalogs.iceberg.metadata.summary import ORDER, SPEC
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.sorting import SortField
    from pyiceberg.table.update import TableUpdate


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
    manifests = sorted(snapshot.manifests(table.io), key=lambda manifest: manifest.sequence_number or 0, reverse=True)
    wanted = [facts_of(snapshot).get(SPEC), metadata.default_spec_id if not manifests else None]
    wanted += [manifest.partition_spec_id for manifest in manifests]
    ids = [int(id_) for id_ in wanted if id_ is not None]
    specs = {spec.spec_id: spec for spec in metadata.partition_specs}
    fitting = (id_ for id_ in ids if id_ in specs and _fits(specs[id_].fields, schema))
    found = next(fitting, None)
    if found is None:
        message = f"the table had partitions with {snapshot.snapshot_id} of columns that its version did not have"
        raise RivetError("RVT-401", message, remediation="Run the joint again instead.")
    return found


def _order(table: Table, snapshot: Snapshot, schema: Schema) -> int:
    """Return the id of the sort order: the recorded one, else that of the table, else one that fits; 0 for none."""
    metadata = table.metadata
    orders = {order.order_id: order for order in metadata.sort_orders}
    recorded = facts_of(snapshot).get(ORDER)
    ids = [int(recorded)] if recorded is not None else [metadata.default_sort_order_id, *sorted(orders, reverse=True)]
    return next((id_ for id_ in ids if id_ in orders and _fits(orders[id_].fields, schema)), 0)


def _fits(fields: Iterable[PartitionField | SortField], schema: Schema) -> bool:
    return all(field.source_id in schema._lazy_id_to_field for field in fields if str(field.transform) != "void")
