"""The rows that readers find in a published table after a first run, computed from its batch; nothing is written."""

from __future__ import annotations

from datetime import UTC, datetime

from rivet_dagster.catalogs.rewriting.incoming import own_columns
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.write_plan import History, Upsert, WritePlan
from rivet_dagster.sql.write_strategies import scd2
from rivet_dagster.sql.write_strategies.alignment import projection, without_rows
from rivet_dagster.sql.write_strategies.incoming import decided_rows
from rivet_dagster.sql.write_strategies.trees import BATCH, TARGET

_CHANGES = "rivet_changes"


def differing_plan(assembly: CompiledAssembly, joint: str) -> Upsert | History | None:
    """Return how a joint's table is written, if its rows differ from the first batch; None if they do not."""
    target = assembly.target(joint)
    plan: WritePlan | None = target.write if target is not None and target.declared else None
    return plan if isinstance(plan, Upsert | History) else None


def first_rows(plan: Upsert | History, session: EngineSession, batch: Frame) -> Frame:
    """Return the rows of a table to which ``batch`` is written first, lazily: of ambiguous keys any row is used."""
    given = session.columns(batch)
    session.register(BATCH, batch)
    if isinstance(plan, Upsert):
        return session.query(decided_rows(BATCH, given, plan.keys, plan.order_by))
    columns = (*given, *own_columns(plan, given))
    session.register(TARGET, session.query(without_rows(columns)))
    names = [name for name, _ in columns]
    session.register(_CHANGES, session.query(scd2.changes(names, plan), {"run_started_at": datetime.now(UTC)}))
    return session.query(projection(columns, columns, _CHANGES))
