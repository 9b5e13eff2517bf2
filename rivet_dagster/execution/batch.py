"""A batch on its way to the table: whether it fits, and what the strategy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.convert import show
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Base
from rivet_dagster.model.write_strategy import WriteStrategy
from rivet_dagster.sql.write_strategies import scd2
from rivet_dagster.sql.write_strategies.alignment import SchemaChange, aligned, projection, without_rows
from rivet_dagster.sql.write_strategies.history import VERSION_COLUMNS
from rivet_dagster.sql.write_strategies.merge import decided, merged, repeats, undecided
from rivet_dagster.sql.write_strategies.newer import newer
from rivet_dagster.sql.write_strategies.relations import BATCH, TARGET, Columns, without_value

_CAME, _BEFORE, _CHANGES = "rivet_came", "rivet_before", "rivet_changes"

_TIMES = ("date", "timestamp", "timestamp_ntz")


def fitted(joint: ComputedJoint, session: EngineSession, frame: Frame, base: Base | None) -> Frame:
    """``frame`` with the columns that the table will have. Raises RVT-513, RVT-514."""
    found = session.columns(frame)
    _refuse_unknown_columns(joint.write_strategy, found)
    if base is None:
        return frame
    columns = _table_columns(joint.write_strategy, base.columns, found)
    session.register(_CAME, frame)
    return session.query(projection(columns, found, _CAME))


def incoming(
    joint: ComputedJoint,
    session: EngineSession,
    batch: Relation,
    base: Base | None,
    started: datetime,
    within: Callable[[EngineSession, Frame], Frame],
) -> Frame:
    """The rows that are new to the table or take the place of others of it.

    ``started`` is when the run began; ``within`` gives those of the table's rows that it is about. Raises RVT-513 to
    RVT-516.
    """
    strategy = joint.write_strategy
    frame = session.load(batch)
    found = session.columns(frame)
    _refuse_unknown_columns(strategy, found)
    own = _own_columns(strategy, found)
    if base is None:
        columns: Columns = (*found, *own)
        session.register(TARGET, session.query(without_rows(columns)))
    else:
        columns = _table_columns(strategy, base.columns, (*found, *own))
        session.register(_BEFORE, session.load(base.relation))
        session.register(TARGET, within(session, session.query(projection(columns, base.columns, _BEFORE))))
    session.register(_CAME, frame)
    names = {name.lower() for name, _ in own}
    values = [(name, kind) for name, kind in columns if name.lower() not in names]
    session.register(BATCH, session.query(projection(values, found, _CAME)))
    if strategy.mode == "merge":
        return _merged(joint, session, columns)
    if strategy.mode == "scd2":
        return _versions(joint, session, columns, started)
    return _newer(strategy, session, columns)


def _merged(joint: ComputedJoint, session: EngineSession, columns: Columns) -> Frame:
    strategy = joint.write_strategy
    keys, order = strategy.key_columns, strategy.order_by
    if session.rows(repeats(BATCH, keys)):
        _refuse_repeated(session.rows(undecided(BATCH, columns, keys, order)), joint)
        one_each = session.query(decided(BATCH, columns, keys, order))
        session.register(_DECIDED, one_each)
        return session.query(merged(columns, keys, _DECIDED))
    return session.query(merged(columns, keys))


_DECIDED = "rivet_decided"


def _newer(strategy: WriteStrategy, session: EngineSession, columns: Columns) -> Frame:
    assert strategy.watermark_column is not None
    _refuse_unplaced(session, without_value(strategy.watermark_column), strategy.watermark_column)
    return session.query(newer(columns, strategy.watermark_column))


def _versions(joint: ComputedJoint, session: EngineSession, columns: Columns, started: datetime) -> Frame:
    strategy = joint.write_strategy
    names = [name for name, _ in columns]
    unplaced = scd2.unplaced(strategy.options)
    if unplaced is not None:
        _refuse_unplaced(session, unplaced, strategy.options["effective_at"])
    _refuse_repeated(session.rows(scd2.conflicts(names, strategy.options)), joint)
    session.register(_CHANGES, session.query(scd2.changes(names, strategy.options), {"run_started_at": started}))
    return session.query(projection(columns, columns, _CHANGES))


def _own_columns(strategy: WriteStrategy, found: Columns) -> Columns:
    """The columns that the mode adds to those of the batch. Raises RVT-513."""
    own = [(name, VERSION_COLUMNS[option]) for option, name in strategy.validity]
    taken = {name.lower() for name, _ in own} & {name.lower() for name, _ in found}
    if taken:
        message = f"the batch has the columns {', '.join(sorted(taken))}, which scd2 adds itself"
        remedy = "Leave them out, or give scd2's own other names with `valid_from`, `valid_to` and `is_current`."
        raise RivetError("RVT-513", message, remediation=remedy)
    at = strategy.options.get("effective_at")
    kind = next((kind for name, kind in found if at is not None and name.lower() == at.lower()), None)
    if kind is not None and kind not in _TIMES:
        raise RivetError("RVT-513", f"`effective_at` names {at}, which is {kind} and no date or timestamp")
    return own


def _refuse_unknown_columns(strategy: WriteStrategy, found: Columns) -> None:
    there = {name.lower() for name, _ in found}
    missing = [(option, name) for option, name in strategy.columns if name.lower() not in there]
    if missing:
        named = "; ".join(f"`{option}` names {name}{nearest(name, there, listed=False)}" for option, name in missing)
        raise RivetError("RVT-513", f"the batch has no such column: {named}")


def _table_columns(strategy: WriteStrategy, before: Columns, found: Columns) -> Columns:
    try:
        return aligned(before, found, strategy.on_schema_change)
    except SchemaChange as change:
        raise RivetError("RVT-514", f"the batch does not fit the table: {change}") from None


def _refuse_repeated(keys: Sequence[Mapping[str, Any]], joint: ComputedJoint) -> None:
    if not keys:
        return
    order_by = joint.write_strategy.order_by
    shown = "; ".join(", ".join(f"{name}={show(value)}" for name, value in key.items()) for key in keys)
    why = f"the greatest {', '.join(order_by)} is that of several" if order_by else "nothing says which of them counts"
    message = f"the batch has unequal rows of one key, and {why}"
    raise RivetError("RVT-515", f"{message}: {shown}" if joint.row_values else message)


def _refuse_unplaced(session: EngineSession, count: str, column: str) -> None:
    rows = session.rows(count)[0]["rows"]
    if rows:
        raise RivetError("RVT-516", f"{rows} rows of the batch have no {column}, which says where they belong")
