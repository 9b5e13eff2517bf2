"""Taking over a table of Iceberg that somebody else has made: one commit records that it was.

A property of the table names the snapshot that was current then, which is the first version. Nothing else of the table
changes: its snapshots, columns, partition specs, sort orders, properties and rights stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.snapshots import refuse_later_format
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, branch_is_at, remove_properties, set_properties
from rivet_dagster.catalogs.iceberg.metadata.history import EXPIRED, published_version
from rivet_dagster.catalogs.iceberg.metadata.last_publication import LAST
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import current_version, facts_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ADOPTED_SNAPSHOT, ERRORS_OF, IDENTITY
from rivet_dagster.catalogs.iceberg.metadata.types import sql_columns
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.versions.refusals import ADOPT, other_table, published_since
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import ExistingTable, Statistics

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField
    from pyiceberg.table import Table
    from pyiceberg.table.sorting import SortField


def is_published(table: Table) -> bool:
    """Return whether rivet_dagster has ever published the table, as far as its metadata tells."""
    properties = table.metadata.properties
    if LAST in properties or EXPIRED in properties:
        return True
    return any(IDENTITY in facts_of(snapshot) for snapshot in table.metadata.snapshots)


def is_of_others(table: Table) -> bool:
    """Return whether a table has rows that were not published from here, nor taken over.

    One without a snapshot, which somebody has created for what is published, has none.
    """
    return (
        table.metadata.current_snapshot_id is not None
        and ADOPTED_SNAPSHOT not in table.metadata.properties
        and not is_published(table)
    )


def refuse_of_others(table: Table, name: str) -> None:
    """Raise RVT-404 for a table that would have to be taken over before it is written to."""
    if is_of_others(table):
        raise RivetError("RVT-404", f"'{name}' is a table that was not published from here", remediation=ADOPT)


def describe(opened: OpenedTable, declared: str) -> ExistingTable | None:
    """Return a table that somebody else has made; None if there is none, or it is published from here.

    Raises RVT-402 for one of a later format version, RVT-404 for a view.
    """
    table = opened.load_if_any()
    if table is None:
        opened.refuse_view()
        return None
    if ADOPTED_SNAPSHOT in table.metadata.properties or is_published(table):
        return None
    refuse_later_format(table.metadata)
    schema, metadata, snapshot = table.schema(), table.metadata, table.current_snapshot()

    def text(field: PartitionField | SortField) -> str:
        column, transform = schema.find_column_name(field.source_id), str(field.transform)
        return str(column) if transform == "identity" else f"{transform}({column})"

    sorted_by = [f"{text(field)} {field.direction.value}" for field in table.sort_order().fields]
    layout = {
        "format version": str(metadata.format_version),
        "snapshot": str(snapshot.snapshot_id) if snapshot is not None else "none",
        "partitions": ", ".join(map(text, table.spec().fields)) or "none",
        "sort order": ", ".join(sorted_by) or "none",
    }
    statistics = Statistics(0, 0, sql_columns(schema))
    if snapshot is not None:
        statistics = published_version(table, snapshot, opened.name.catalog, declared).statistics
    return ExistingTable(metadata.location, statistics, layout)


def adopt(opened: OpenedTable) -> bool:
    """Record that a table is taken over, and return whether there is one; do nothing if it is published from here.

    Raises RVT-402, RVT-404, RVT-405.
    """
    if opened.load_if_any() is None:
        return False

    def changes(table: Table) -> Changes:
        if ERRORS_OF in table.metadata.properties:
            raise other_table(str(opened.name), table.metadata.properties[ERRORS_OF])
        if not is_of_others(table):
            return Changes()
        refuse_later_format(table.metadata)
        snapshot = table.metadata.current_snapshot_id
        return Changes(set_properties({ADOPTED_SNAPSHOT: str(snapshot)}), (branch_is_at(MAIN, snapshot),))

    commit(opened.load, changes, str(opened.name))
    return True


def give_up(opened: OpenedTable) -> bool:
    """Remove that record, and return whether there was one. Raises RVT-404 for a table that was published since."""
    table = opened.load_if_any()
    if table is None:
        return False

    def changes(table: Table) -> Changes:
        if is_published(table):
            last = table.current_snapshot()
            identity = facts_of(last).get(IDENTITY) if last is not None else None
            raise published_since(str(opened.name), str(current_version(table)), identity or "")
        if ADOPTED_SNAPSHOT not in table.metadata.properties:
            return Changes()
        at = branch_is_at(MAIN, table.metadata.current_snapshot_id)
        return Changes(remove_properties([ADOPTED_SNAPSHOT]), (at,))

    commit(opened.load, changes, str(opened.name))
    return ADOPTED_SNAPSHOT in table.metadata.properties
