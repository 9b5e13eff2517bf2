"""The snapshots that readers get: of a version, of a table now, and of an error table those of the current rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.forgotten import forgotten
from rivet_dagster.catalogs.iceberg.metadata.last_publication import last_publication
from rivet_dagster.catalogs.iceberg.metadata.same_rows import snapshot_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS, ERRORS_OF
from rivet_dagster.catalogs.iceberg.opened import Opener
from rivet_dagster.catalogs.iceberg.sources import snapshot_read
from rivet_dagster.catalogs.iceberg.writes.errors import errors_of_rows
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    from pyiceberg.table import Table


def snapshot_of_version(open: Opener, published: Published) -> int:
    """Return the id of a version's snapshot. Raises RVT-401 if it has expired."""
    found = open(published.table).load_if_any()
    snapshot = snapshot_of(found, int(published.version)) if found is not None else None
    if snapshot is None:
        message = f"the snapshot {published.version} of '{published.table}' has expired, or the table is gone"
        raise RivetError("RVT-401", message)
    return int(snapshot.snapshot_id)


def current_snapshot(open: Opener, table: str, found: Table, options: Mapping[str, Any]) -> int | None:
    """Return the snapshot that a source with ``options`` reads now; None for a table without snapshots.

    Raises RVT-403 if there is none, also for an error table that the current rows do not have.
    """
    of = found.metadata.properties.get(ERRORS_OF)
    if of is None or options:
        return snapshot_read(found, options)
    rows = open(of).load_if_any()
    current = rows.current_snapshot() if rows is not None else None
    last = last_publication(rows, current) if rows is not None and current is not None else None
    has_errors = last is not None and ERRORS in last.facts
    errors = errors_of_rows(found, last.version) if last is not None and has_errors else None
    if errors is None:
        raise RivetError("RVT-403", f"the current rows of {of} were published without the error table {table}")
    return errors


def errors_of_version(open: Opener, published: Published) -> tuple[str, int] | None:
    """Return the error table of a version, and its snapshot with the errors of these rows; None without errors.

    Raises RVT-420 if that is not known any more.
    """
    snapshot = snapshot_of_version(open, published)
    found = open(published.table).load()
    rows = found.snapshot_by_id(snapshot)
    last = last_publication(found, rows) if rows is not None else None
    if last is not None and last.lost is not None:
        raise forgotten(published)
    name = last.facts.get(ERRORS) if last is not None else None
    if last is None or name is None:
        return None
    errors = open(name).load_if_any()
    of_rows = errors_of_rows(errors, last.version) if errors is not None else None
    return None if of_rows is None else (name, of_rows)


def is_error_table(found: Table) -> bool:
    """Return whether a table holds the errors of another one."""
    return ERRORS_OF in found.metadata.properties
