"""The incoming rows: the rows of a stored batch that are added to the table or replace rows of it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.rewriting import history
from rivet_dagster.catalogs.rewriting.history import refuse_ambiguous, refuse_unplaced
from rivet_dagster.catalogs.rewriting.version import table_columns
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Base
from rivet_dagster.model.write_plan import AppendNewer, History, Upsert
from rivet_dagster.sql.write_strategies.alignment import plain_columns, projection, without_rows
from rivet_dagster.sql.write_strategies.incoming import decided, merged, newer, repeats, undecided
from rivet_dagster.sql.write_strategies.trees import BATCH, TARGET, Columns, without_value

_BATCH, _BASE, _DECIDED = "rivet_batch", "rivet_base", "rivet_decided"

Transforming = Upsert | History | AppendNewer
"""The plans whose incoming rows differ from the batch."""


def incoming(
    plan: Transforming,
    session: EngineSession,
    batch: Relation,
    base: Base | None,
    context: WriteContext,
    within: Callable[[EngineSession, Frame], Frame],
) -> Frame:
    """Return the incoming rows; ``within`` selects the rows of the table that count, as those in the run's window.

    Raises RVT-513 to RVT-516.
    """
    frame = session.load(batch)
    given = session.columns(frame)
    own = history.own_columns(plan, given) if isinstance(plan, History) else ()
    if base is None:
        columns: Columns = plain_columns((*given, *own))
        session.register(TARGET, session.query(without_rows(columns)))
    else:
        columns = table_columns(plan, base.columns, (*given, *own))
        before = session.load(base.relation)
        session.register(_BASE, before)
        session.register(TARGET, within(session, session.query(projection(columns, session.columns(before), _BASE))))
    names = {name.lower() for name, _ in own}
    values = [(name, kind) for name, kind in columns if name.lower() not in names]
    register_batch(session, frame, values)
    if isinstance(plan, Upsert):
        return session.query(merged(columns, plan.keys, distinct_by_key(plan, session, columns, context.shows_values)))
    if isinstance(plan, History):
        started = context.started or datetime.now(UTC)
        return history.versions(plan, session, columns, started, context.shows_values)
    refuse_unplaced(session, without_value(plan.column), plan.column)
    return session.query(newer(columns, plan.column))


def no_rows(session: EngineSession, frame: Frame) -> Frame:
    """Return the columns of ``frame`` without rows: what a full refresh leaves of the table."""
    return session.query(without_rows(session.columns(frame)))


def register_batch(session: EngineSession, frame: Frame, columns: Columns) -> None:
    """Register the rows of a batch as BATCH, with ``columns`` of the table."""
    given = session.columns(frame)
    session.register(_BATCH, frame)
    session.register(BATCH, session.query(projection(columns, given, _BATCH)))


def distinct_by_key(plan: Upsert, session: EngineSession, columns: Columns, shows_values: bool) -> str:
    """Return the name of the view of BATCH with one row for each key. Raises RVT-515."""
    if not session.rows(repeats(BATCH, plan.keys)):
        return BATCH
    ambiguous = session.rows(undecided(BATCH, columns, plan.keys, plan.order_by))
    refuse_ambiguous(ambiguous, plan.order_by, shows_values)
    session.register(_DECIDED, session.query(decided(BATCH, columns, plan.keys, plan.order_by)))
    return _DECIDED
