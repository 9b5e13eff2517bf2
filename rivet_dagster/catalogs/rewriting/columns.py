"""The columns that a table has after a write."""

from __future__ import annotations

from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Base
from rivet_dagster.model.write_plan import ReplaceAll, WritePlan
from rivet_dagster.sql.write_strategies.alignment import SchemaChange, aligned, plain_columns, projection
from rivet_dagster.sql.write_strategies.relations import Columns

_BATCH = "rivet_batch"


def fitted(plan: WritePlan, session: EngineSession, frame: Frame, base: Base | None) -> Frame:
    """Return ``frame`` with the columns that the table has after the write. Raises RVT-514."""
    if base is None and isinstance(plan, ReplaceAll):
        return frame
    columns = session.columns(frame)
    wanted = table_columns(plan, base.columns, columns) if base is not None else plain_columns(columns)
    if wanted == columns:
        return frame
    session.register(_BATCH, frame)
    return session.query(projection(wanted, columns, _BATCH))


def table_columns(plan: WritePlan, base: Columns, batch: Columns) -> Columns:
    """Return the columns that the table has after a batch has been written to it. Raises RVT-514."""
    try:
        return aligned(base, batch, plan.schema_change)
    except SchemaChange as change:
        raise RivetError("RVT-514", f"the batch does not fit the table: {change}") from None
