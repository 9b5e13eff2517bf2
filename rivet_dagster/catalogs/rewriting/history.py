"""The write plan History (SCD type 2): the versions of keys that a batch adds to a table, or changes in it.

Errors for batches that do not determine what is to be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import show
from rivet_dagster.model.write_plan import History
from rivet_dagster.sql.write_strategies import scd2
from rivet_dagster.sql.write_strategies.alignment import projection
from rivet_dagster.sql.write_strategies.scd2 import VERSION_COLUMNS
from rivet_dagster.sql.write_strategies.trees import Columns

_CHANGES = "rivet_changes"
_TIMES = ("date", "timestamp", "timestamp_ntz")


def own_columns(plan: History, batch: Columns) -> Columns:
    """Return the columns that the plan adds to those of the batch. Raises RVT-513."""
    own = tuple((getattr(plan, field), kind) for field, kind in VERSION_COLUMNS.items())
    taken = {name.lower() for name, _ in own} & {name.lower() for name, _ in batch}
    if taken:
        message = f"the batch has the columns {', '.join(sorted(taken))}, which scd2 adds itself"
        remedy = "Leave them out, or give scd2's own other names with `valid_from`, `valid_to` and `is_current`."
        raise RivetError("RVT-513", message, remediation=remedy)
    at = plan.effective_at
    kind = next((kind for name, kind in batch if at is not None and name.lower() == at.lower()), None)
    if kind is not None and kind not in _TIMES:
        raise RivetError("RVT-513", f"`effective_at` names {at}, which is {kind} and no date or timestamp")
    return own


def versions(plan: History, session: EngineSession, columns: Columns, started: datetime, shows_values: bool) -> Frame:
    """Return the versions that the batch adds or changes; rows without a time take effect when the run ``started``.

    Raises RVT-515, RVT-516.
    """
    names = [name for name, _ in columns]
    if plan.effective_at is not None:
        refuse_unplaced(session, scd2.unplaced(plan.effective_at), plan.effective_at)
    refuse_ambiguous(session.rows(scd2.conflicts(names, plan)), plan.order_by, shows_values)
    session.register(_CHANGES, session.query(scd2.changes(names, plan), {"run_started_at": started}))
    return session.query(projection(columns, columns, _CHANGES))


def refuse_ambiguous(keys: Sequence[Mapping[str, Any]], order_by: Sequence[str], shows_values: bool) -> None:
    """Raise RVT-515 for ambiguous ``keys``: those with several unequal rows of which none is last by ``order_by``."""
    if not keys:
        return
    shown = "; ".join(", ".join(f"{name}={show(value)}" for name, value in key.items()) for key in keys)
    why = f"the greatest {', '.join(order_by)} is that of several" if order_by else "nothing says which of them counts"
    message = f"the batch has unequal rows of one key, and {why}"
    raise RivetError("RVT-515", f"{message}: {shown}" if shows_values else message)


def refuse_unplaced(session: EngineSession, count: str, column: str) -> None:
    """Raise RVT-516 if the query ``count`` finds rows that have no value in ``column``."""
    rows = session.rows(count)[0]["rows"]
    if rows:
        raise RivetError("RVT-516", f"{rows} rows of the batch have no {column}, which says where they belong")
