"""The incoming rows: those of a stored batch that are added to the table, or that replace rows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.parquet_rows import are_local, columns_of
from rivet_dagster.catalogs.rewriting.key_range import WHOLE_NUMBERS
from rivet_dagster.catalogs.rewriting.version import cast_columns, table_columns
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import show
from rivet_dagster.model.storage import Base, ColumnStatistics, StoredRows
from rivet_dagster.model.write_plan import AppendNewer, History, Upsert
from rivet_dagster.sql.write_strategies import history_keys, scd2
from rivet_dagster.sql.write_strategies.alignment import plain_columns, projection, without_rows
from rivet_dagster.sql.write_strategies.history_columns import VERSION_COLUMNS
from rivet_dagster.sql.write_strategies.merge import ambiguous_rows, changed_rows, decided_rows, newer, repeats
from rivet_dagster.sql.write_strategies.trees import BATCH, TARGET, Columns, without_value

_CHANGES = "rivet_changes"
_TIMES = ("date", "timestamp", "timestamp_ntz")


MOST_BATCH_ROWS = 200_000
"""The rows of a batch whose keys are read into the memory of this process."""

_SAME_BYTES = WHOLE_NUMBERS | {"boolean", "date", "timestamp", "timestamp_ntz", "string"}
"""Types whose values are equal to an engine exactly if they are to Arrow, as those of decimal are, too."""


class BatchKeys(Enum):
    """Knowledge about the keys of a history's batch; each member implies those before it."""

    ANY = 0
    DISTINCT = 1
    """No key, with its effective time, is that of several rows."""
    CURRENT_OR_NEW = 2
    """Each key is that of one row, and has one open version, which begins by the row's time, or no version at all."""
    CURRENT = 3
    """Each key has such an open version."""


def own_columns(plan: History, batch: Columns) -> Columns:
    """Return the columns that the plan adds to those of the batch. Raises RVT-513."""
    added = tuple((getattr(plan, field), kind) for field, kind in VERSION_COLUMNS.items())
    taken = {name.lower() for name, _ in added} & {name.lower() for name, _ in batch}
    if taken:
        message = f"the batch has the columns {', '.join(sorted(taken))}, which scd2 adds itself"
        remedy = "Leave them out, or give scd2's own other names with `valid_from`, `valid_to` and `is_current`."
        raise RivetError("RVT-513", message, remediation=remedy)
    at = plan.effective_at
    kind = next((kind for name, kind in batch if at is not None and name.lower() == at.lower()), None)
    if kind is not None and kind not in _TIMES:
        raise RivetError("RVT-513", f"`effective_at` names {at}, which is {kind} and no date or timestamp")
    return added


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


_BATCH, _BASE, _DECIDED = "rivet_batch", "rivet_base", "rivet_decided"

Transforming = Upsert | History | AppendNewer
"""The plans whose incoming rows differ from the batch."""


def incoming_rows(
    plan: Transforming,
    session: EngineSession,
    batch: StoredRows,
    base: Base | None,
    context: WriteContext,
    within: Callable[[EngineSession, Frame], Frame],
    keys: BatchKeys = BatchKeys.ANY,
) -> Frame:
    """Return the incoming rows; ``within`` selects the rows of the table that count, as those in the run's window.

    ``keys`` is what is known about those of a history's batch. Raises RVT-513 to RVT-516.
    """
    if isinstance(plan, History):
        changes = changed_versions(plan, session, batch, base, context, within, keys)
        kept = [column for column in session.columns(changes) if column[0] != scd2.CHANGE]
        session.register(_CHANGES, changes)
        return session.query(projection(kept, kept, _CHANGES))
    columns = register_relations(plan, session, batch, base, within)
    if isinstance(plan, Upsert):
        shows_values = context.shows_values
        source = BATCH if are_distinct(batch, plan.keys) else distinct_by_key(plan, session, columns, shows_values)
        return session.query(changed_rows(columns, plan.keys, source, batch.statistics.without_nulls(plan.keys)))
    refuse_unplaced(session, without_value(plan.column), plan.column)
    return session.query(newer(columns, plan.column))


def changes_current_alone(plan: History, keys: BatchKeys) -> bool:
    """Return whether only open versions change, one of each key: of a batch whose keys have those, or none."""
    return keys in (BatchKeys.CURRENT, BatchKeys.CURRENT_OR_NEW) and not plan.close_missing


def changed_versions(
    plan: History,
    session: EngineSession,
    batch: StoredRows,
    base: Base | None,
    context: WriteContext,
    within: Callable[[EngineSession, Frame], Frame],
    keys: BatchKeys = BatchKeys.ANY,
) -> Frame:
    """Return the incoming rows of a history: versions that the batch adds or changes, with the kind in CHANGE.

    Rows without a time take effect when the run started. Raises RVT-513 to RVT-516.
    """
    names = [name for name, _ in register_relations(plan, session, batch, base, within)]
    at = plan.effective_at
    if at is not None and batch.statistics.values.get(at.lower(), ColumnStatistics()).nulls != 0:
        refuse_unplaced(session, without_value(at), at)
    if changes_current_alone(plan, keys):
        has_new_keys, never_null = keys is BatchKeys.CURRENT_OR_NEW, batch.statistics.without_nulls(plan.keys)
        changes = scd2.plain_changes(names, plan, has_new_keys, never_null)
    else:
        distinct = keys is not BatchKeys.ANY or not session.rows(history_keys.repeats(names, plan))
        if not distinct:
            refuse_ambiguous(session.rows(history_keys.conflicts(names, plan)), plan.order_by, context.shows_values)
        changes = scd2.changes(names, plan, distinct)
    return session.query(changes, {"run_started_at": context.started or datetime.now(UTC)})


def register_relations(
    plan: Transforming,
    session: EngineSession,
    batch: StoredRows,
    base: Base | None,
    within: Callable[[EngineSession, Frame], Frame],
) -> Columns:
    """Register the rows of the table as TARGET and those of the batch as BATCH; return the columns of the table.

    Raises RVT-513, RVT-514.
    """
    frame = session.load(batch.relation)
    given = session.columns(frame)
    added = own_columns(plan, given) if isinstance(plan, History) else ()
    if base is None:
        columns: Columns = plain_columns((*given, *added))
        session.register(TARGET, session.query(without_rows(columns)))
    else:
        columns = table_columns(plan, base.columns, (*given, *added))
        before = cast_columns(session, session.load(base.relation), columns, _BASE)
        session.register(TARGET, within(session, before))
    names = {name.lower() for name, _ in added}
    register_batch(session, frame, [(name, kind) for name, kind in columns if name.lower() not in names])
    return columns


def no_rows(session: EngineSession, frame: Frame) -> Frame:
    """Return the columns of ``frame`` without rows: what a full refresh leaves of the table."""
    return session.query(without_rows(session.columns(frame)))


def register_batch(session: EngineSession, frame: Frame, columns: Columns) -> None:
    """Register the rows of a batch as BATCH, with ``columns`` of the table."""
    session.register(BATCH, cast_columns(session, frame, columns, _BATCH))


def are_distinct(batch: StoredRows, keys: Sequence[str]) -> bool:
    """Return whether no two rows of local files are equal in all ``keys``, where NULL equals NULL.

    False also where that is not looked into: for many rows, keys of other types, and other storage.
    """
    kinds = {name.lower(): kind for name, kind in batch.statistics.columns}
    names = list(dict.fromkeys(key.lower() for key in keys))
    if batch.statistics.rows > MOST_BATCH_ROWS or not are_local(batch.relation):
        return False
    known = [kinds.get(name, "") for name in names]
    if not all(kind in _SAME_BYTES or kind.startswith("decimal(") for kind in known):
        return False
    import pyarrow as pa

    try:
        tables = list(columns_of(batch.relation, names))
        if not tables:
            return True
        rows = pa.concat_tables(tables)
        return bool(rows.group_by(names).aggregate([]).num_rows == rows.num_rows)
    except (OSError, pa.ArrowException):
        return False  # the engine, which reads the same files next, says what is wrong with them


def distinct_by_key(plan: Upsert, session: EngineSession, columns: Columns, shows_values: bool) -> str:
    """Return the name of the view of BATCH with one row for each key. Raises RVT-515."""
    if not session.rows(repeats(BATCH, plan.keys)):
        return BATCH
    ambiguous = session.rows(ambiguous_rows(BATCH, columns, plan.keys, plan.order_by))
    refuse_ambiguous(ambiguous, plan.order_by, shows_values)
    session.register(_DECIDED, session.query(decided_rows(BATCH, columns, plan.keys, plan.order_by)))
    return _DECIDED
