"""Watermarks: the maximum of a column of a snapshot, and the override that a person set in its place."""

from __future__ import annotations

import json
import math
from datetime import UTC
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, branch_is_at, set_properties
from rivet_dagster.catalogs.iceberg.metadata.last_publication import last_publication
from rivet_dagster.catalogs.iceberg.metadata.same_rows import current_version, snapshot_of
from rivet_dagster.catalogs.iceberg.metadata.summary import OVERRIDE
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.errors import RivetError
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from pyiceberg.table import Table


def max_of(table: Table, snapshot: int, column: str) -> Any:
    """Return the maximum of a column, read batch by batch; None if it has no value, NaN if it has that."""
    import pyarrow as pa
    import pyarrow.compute as pc

    field = table.schema().find_field(column, case_sensitive=False)
    greatest = None
    for batch in table.scan(snapshot_id=snapshot, selected_fields=(field.name,)).to_arrow_batch_reader():
        values = batch.column(0)
        if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
            return math.nan
        value = pc.max(values).as_py()
        greatest = value if greatest is None or (value is not None and value > greatest) else greatest
    is_instant = str(field.field_type) == "timestamptz"
    return greatest.astimezone(UTC) if is_instant and greatest is not None else greatest


def override_of(table: Table, version: str) -> Override | None:
    """Return the override that was set for a version, or for one since the last publication; None without one.

    Commits of other engines are no publications, which end it.
    """
    known = json.loads(table.metadata.properties.get(OVERRIDE, "{}"))
    if not known:
        return None
    snapshot = snapshot_of(table, int(version))
    last = last_publication(table, snapshot) if snapshot is not None else None
    since = {version} | ({str(id_) for id_ in (last.version, *last.later)} if last is not None else set())
    return Override(known["value"]) if known["version"] in since else None


def set_override(table: OpenedTable, version: str, override: Override) -> None:
    """Set the override, unless another version has been published by now. Raises RVT-405."""

    def changes(found: Table) -> Changes:
        now = current_version(found)
        if str(now) != version:
            message = f"'{table.name}' is at {now} now, and was at {version} a moment ago"
            raise RivetError("RVT-405", message, remediation="Set it again, upon what is published now.")
        value = json.dumps({"version": version, "value": override.value})
        return Changes(set_properties({OVERRIDE: value}), (branch_is_at(MAIN, found.metadata.current_snapshot_id),))

    commit(table.load, changes, str(table.name))
