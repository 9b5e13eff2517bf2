"""The beginning of a transaction: upon the current version of a table, a withheld one, or an older one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.adoption import refuse_of_others
from rivet_dagster.catalogs.iceberg.commits.snapshots import new_snapshot_id, refuse_later_format
from rivet_dagster.catalogs.iceberg.commits.updates import Definition
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
from rivet_dagster.catalogs.iceberg.metadata.history import publication_for, published_version
from rivet_dagster.catalogs.iceberg.metadata.last_publication import last_publication
from rivet_dagster.catalogs.iceberg.metadata.layout import IcebergLayout
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import snapshot_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS
from rivet_dagster.catalogs.iceberg.metadata.types import sql_columns
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, Opener
from rivet_dagster.catalogs.iceberg.settings.options import refuse_nessie
from rivet_dagster.catalogs.iceberg.writes.errors import BegunWrite, ExistingVersion, StagedErrors, errors_of_rows
from rivet_dagster.catalogs.iceberg.writes.staged_branch import StagedBranch, StoredSnapshot, begin_branch, stored_rows
from rivet_dagster.catalogs.iceberg.writes.staged_table import StagingTable, locate_version
from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
from rivet_dagster.catalogs.iceberg.writes.withheld import Withheld, heartbeat_of
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.storage import Base, Published

if TYPE_CHECKING:
    from pyiceberg.table import Table


def begin_upon_current(
    table: OpenedTable, declared: str, layout: IcebergLayout, catalog: str, open: Opener
) -> BegunWrite:
    """Return what a transaction upon the current version of ``table`` begins with. Raises RVT-413."""
    refuse_nessie(table.catalog)
    location = locate_version(table)
    base, upon, rows = None, None, 0
    if location.existing is not None:
        existing = location.existing
        refuse_later_format(existing.metadata)
        refuse_of_others(existing, declared)
        upon = existing.metadata.current_snapshot_id
        relation = CatalogTable(table.name.parts, snapshot=upon)
        base = Base(relation, sql_columns(existing.schema()))
        current = existing.current_snapshot()
        rows = publication_for(existing, current).rows if current is not None else 0

    def described(snapshot_id: int) -> Published:
        iceberg_table = table.published.load()
        snapshot = iceberg_table.snapshot_by_id(snapshot_id)
        assert snapshot is not None, "it was just published"
        return published_version(iceberg_table, snapshot, catalog, declared)

    errors = StagedErrors(table, open)
    begun = Definition.of(location.existing.metadata) if location.existing is not None else None
    return BegunWrite(declared, table, location, upon, base, rows, layout, described, errors, begun)


def take_up_version(
    table: OpenedTable,
    declared: str,
    catalog: str,
    open: Opener,
    version: Withheld,
    layout: IcebergLayout | None = None,
) -> IcebergTransaction:
    """Return a transaction that publishes or removes a withheld version, or a staged one upon what that was begun with.

    ``layout`` is the declared one, without which the table keeps its own.
    """
    begin = begin_upon_current(table, declared, layout or IcebergLayout(), catalog, open)
    if version.is_staged:
        begin = replace(begin, upon=version.upon, rows_before=version.publication.rows_before)
    existing = begin.location.existing
    if version.judged.begun is not None or version.is_staged:
        begin = replace(begin, begun=version.judged.begun)
    where = version.staged if version.staged is not None else version.table
    head = version.head
    assert head is not None, "it was judged before it was withheld"
    heartbeat = heartbeat_of(version)
    heartbeat.extend(0.0)
    begin = replace(begin, location=replace(begin.location, root=heartbeat.location))
    staged: StagedBranch | StagingTable
    if version.staged is None:
        staged = StagedBranch(version.table, version.key, head)
    else:
        fence = _fence(table, existing, version) if existing is not None else None
        staged = StagingTable(version.staged, begin.location, heartbeat, None, exists=True, fence=fence)
    _take_up_errors(begin, open, version, heartbeat)
    stored = StoredSnapshot(where.name, version.iceberg_table, head)
    origin = ExistingVersion(version.publication, stored.whole, staged, key=version.key)
    return IcebergTransaction(begin, int(version.name), None, origin, heartbeat=heartbeat)


def restage_version(table: OpenedTable, declared: str, catalog: str, open: Opener, version: int) -> IcebergTransaction:
    """Return a transaction that publishes an older version again."""
    begin = begin_upon_current(table, declared, IcebergLayout(), catalog, open)
    existing = begin.location.existing
    source = snapshot_of(existing, version) if existing is not None else None
    assert existing is not None and source is not None, "it was just listed"
    last, snapshot = last_publication(existing, source), source.snapshot_id
    name = last.facts.get(ERRORS) if last is not None else None
    if last is not None and name is not None:
        location = locate_version(open(name))
        older = errors_of_rows(location.existing, last.version) if location.existing is not None else None
        if older is not None:
            begin.errors.adopt(name, location, None, older=older)
    origin = ExistingVersion(publication_for(existing, source), lambda: stored_rows(table, snapshot), snapshot=snapshot)
    return IcebergTransaction(begin, new_snapshot_id(), None, origin)


def _take_up_errors(begin: BegunWrite, open: Opener, version: Withheld, heartbeat: ObjectHeartbeat) -> None:
    """Take up the errors that were withheld with a version, if it has some."""
    name = version.errors
    if name is None:
        return
    opened = open(name)
    location = locate_version(opened)
    staging = opened.staged(version.key)
    existing, iceberg_table = location.existing, staging.load_if_any()
    staged: StagedBranch | StagingTable
    current: int | None
    if iceberg_table is None and existing is not None and version.key in existing.metadata.refs:
        current = existing.metadata.refs[version.key].snapshot_id
        staged = StagedBranch(opened, version.key, current)
    else:
        current = iceberg_table.metadata.current_snapshot_id if iceberg_table is not None else None
        of_errors = replace(version, table=opened)
        fence = _fence(opened, existing, of_errors) if iceberg_table is not None and existing is not None else None
        staged = StagingTable(staging, location, heartbeat, None, exists=True, fence=fence)
    judged = version.judged.errors
    begin.errors.adopt(name, location, staged, judged=current if judged is None else judged)


def _fence(table: OpenedTable, existing: Table, version: Withheld) -> StagedBranch | None:
    """Return the branch that the publication of a version in a staging table requires.

    A withheld version, which no sweep removes, has none until somebody publishes or drops it. One on the branch of a
    run, where sweeps remove no file, needs none.
    """
    if version.table.published is not version.table:
        current = existing.metadata.current_snapshot_id
        return StagedBranch(version.table, version.key, current) if current is not None else None
    ref = existing.metadata.refs.get(version.key)
    if ref is not None:
        return StagedBranch(table, version.key, ref.snapshot_id)
    return None if version.is_staged else begin_branch(table, version.key, existing.metadata.current_snapshot_id)
