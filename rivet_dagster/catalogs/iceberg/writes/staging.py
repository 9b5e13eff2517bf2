"""The choice of where a version is staged: whether it fits the table as it is."""

from __future__ import annotations

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.iceberg.metadata.layout import layout_updates
from rivet_dagster.catalogs.iceberg.metadata.types import same_columns
from rivet_dagster.catalogs.iceberg.writes.errors import Beginning
from rivet_dagster.catalogs.iceberg.writes.staged_table import VersionLocation
from rivet_dagster.catalogs.rewriting import history
from rivet_dagster.catalogs.rewriting.version import table_columns
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.write_plan import History, Refresh, WritePlan


def fits(begin: Beginning, plan: WritePlan, session: EngineSession, frame: Frame, context: WriteContext) -> bool:
    """Return whether the table keeps its columns, and its layout if all rows are written. Raises RVT-513, RVT-514."""
    existing, base = begin.place.existing, begin.base
    assert existing is not None and base is not None
    given = session.columns(frame)
    if isinstance(plan, Refresh) and context.window is None:
        return False
    if plan.replaces_table and context.window is None:
        return same_columns(existing.schema(), given) and not layout_updates(begin.layout, existing.metadata)
    own = history.own_columns(plan, given) if isinstance(plan, History) else ()
    return tuple(table_columns(plan, base.columns, (*given, *own))) == tuple(base.columns)


def overwritable_by(place: VersionLocation, upon: int | None) -> tuple[str, ...]:
    """Return the columns by whose values Iceberg's dynamic overwrite replaces rows of the snapshot ``upon``.

    None where transforms of columns are the table's partitions. None either where a live manifest, of data or of delete
    files, has another spec than the table: the overwrite replaces partitions of the table's spec alone, and leaves the
    files of others as they are.
    """
    from pyiceberg.transforms import IdentityTransform

    existing = place.existing
    base = existing.snapshot_by_id(upon) if existing is not None and upon is not None else None
    if existing is None or base is None:
        return ()
    fields = existing.spec().fields
    if not all(isinstance(field.transform, IdentityTransform) for field in fields):
        return ()
    live = [found for found in base.manifests(existing.io) if found.has_added_files() or found.has_existing_files()]
    if any(manifest.partition_spec_id != existing.metadata.default_spec_id for manifest in live):
        return ()
    return tuple(existing.schema().find_field(field.source_id).name for field in fields)
