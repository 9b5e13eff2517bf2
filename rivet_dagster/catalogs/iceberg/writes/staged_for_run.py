"""Versions that a run has staged for its last step: branches and staging tables with a mark, and with a heartbeat."""

from __future__ import annotations

from dataclasses import replace

from rivet_dagster.catalogs.iceberg.heartbeat import Heartbeat
from rivet_dagster.catalogs.iceberg.metadata.same_rows import facts_of
from rivet_dagster.catalogs.iceberg.metadata.types import schema_of, sql_columns
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, Opener
from rivet_dagster.catalogs.iceberg.writes import staged_table
from rivet_dagster.catalogs.iceberg.writes.withheld import Withheld, marked_versions
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.storage import Published, Statistics


def staged_by(table: OpenedTable, identity: str) -> Withheld | None:
    """Return the version that was staged under ``identity``; None if there is none."""
    staged = (version for version in marked_versions(table) if version.is_staged)
    return next((version for version in staged if version.publication.identity == identity), None)


def staged_version(table: OpenedTable, version: str) -> Withheld | None:
    """Return the staged version of that name; None if there is none."""
    return next((known for known in marked_versions(table, version) if known.is_staged), None)


def required(table: OpenedTable, version: str) -> Withheld:
    """Return the staged version of that name. Raises RVT-418."""
    found = staged_version(table, version)
    if found is None:
        raise RivetError("RVT-418", f"'{table.name}' has no staged version {version} any more")
    return found


def heartbeat_of(version: Withheld) -> Heartbeat:
    """Return the heartbeat of the run that has staged a version.

    The location of a table that does not exist yet is known only by its staging table.
    """
    if version.staged is not None:
        return staged_table.heartbeat_of(version.staged.load())
    found = version.table.load()
    return Heartbeat(found.io, found.metadata.location, version.key)


def described(version: Withheld, catalog: str, declared: str) -> Published:
    """Return a staged version as it will be published; ``declared`` is the table's name as joints have it."""
    stored, head = stored_in(version)
    found = stored.load()
    snapshot = found.snapshot_by_id(head)
    size = int(facts_of(snapshot).get("total-files-size") or 0) if snapshot is not None else 0
    known = version.publication
    return Published(
        catalog=catalog,
        table=declared,
        version=version.name,
        uri=heartbeat_of(version).location,
        statistics=Statistics(known.rows, size, sql_columns(schema_of(found, head))),
        rows_before=known.rows_before,
        identity=known.identity,
        record=known.record,
        inputs=known.inputs,
        code_versions=known.code_versions,
    )


def errors_relation(open: Opener, version: Withheld) -> CatalogTable | None:
    """Return the errors that were staged with a version; None if it has no error table."""
    if version.errors is None:
        return None
    errors = version.table.beside(replace(open(version.errors).name, ref=version.table.name.ref))
    found = errors.load_if_any()
    ref = found.metadata.refs.get(version.key) if found is not None else None
    judged = version.judged.errors
    if ref is not None:
        return CatalogTable(errors.name.parts, snapshot=ref.snapshot_id if judged is None else judged)
    staged = errors.staged(version.key)
    current = staged.load().metadata.current_snapshot_id
    return CatalogTable(staged.name.parts, snapshot=current if judged is None else judged)


def stored_in(version: Withheld) -> tuple[OpenedTable, int]:
    """Return the table that holds the rows of a staged version, and the snapshot there."""
    assert version.head is not None, "it was judged before it was staged"
    return version.staged or version.table, version.head
