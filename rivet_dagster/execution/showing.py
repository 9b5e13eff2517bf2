"""The rows of a joint, computed now from the sources, as one query of each engine; nothing is stored.

Joints that a run would store are a part of the query, too, whether or not they have ever been stored: with the rows
that readers would find after a first run. Only Python joints, and joints of other engines, are computed by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from rivet_dagster.catalogs.rewriting.incoming import own_columns
from rivet_dagster.compiler.group_query import Cte, GroupQuery
from rivet_dagster.compiler.joints import FunctionJoint, SinkJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import EngineSession, Frame, Typed
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.quality.judging import held_source_frame
from rivet_dagster.execution.reading.inputs import partition_values
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.rendering import run_query
from rivet_dagster.execution.reading.sources import source_frame
from rivet_dagster.execution.row_error import locate_in_query, locating_errors
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.joint import call, load_function
from rivet_dagster.model.partitions import PARTITION_PARAMETERS
from rivet_dagster.model.write_plan import History, Upsert, WritePlan
from rivet_dagster.sql.fusion import limited_rows
from rivet_dagster.sql.target import RUN_STARTED_AT
from rivet_dagster.sql.write_strategies import scd2
from rivet_dagster.sql.write_strategies.alignment import projection, without_rows
from rivet_dagster.sql.write_strategies.merge import decided_rows
from rivet_dagster.sql.write_strategies.trees import BATCH, TARGET

_SHOWN = "rivet_shown"


@dataclass(frozen=True)
class ShownRows:
    """Columns with their types, and rows by column."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[Mapping[str, Any], ...]


def shown_rows(runtime: Runtime, name: str, limit: int, where: str | None = None) -> ShownRows:
    """Return up to ``limit`` rows of a joint for which the condition ``where`` holds; of a sink those of its batch.

    Raises RVT-503 and RVT-520 at the joint and line that they are about, RVT-207 for a condition that is none.
    """
    query = limited_rows(_SHOWN, limit, where)
    with ExitStack() as sessions:
        computing = _Computing(runtime, sessions, name)
        engine = runtime.assembly.joint(name).engine
        session = computing.session(engine)
        settings = _settings(runtime.assembly, name)
        if settings:
            session.configure(settings)
        with session.separating_errors() if computing.quarantines(name) else nullcontext():
            session.register(_SHOWN, computing.batch(name))
            with locating_errors(runtime.assembly.joint(name)):
                rows = session.rows(query)
            return ShownRows(session.columns(session.query(query)), tuple(rows))


def computed_frame(runtime: Runtime, sessions: ExitStack, name: str) -> tuple[EngineSession, Frame]:
    """Return the rows of a joint as its readers find them after a first run, and the session that computes them.

    ``sessions`` closes it. Raises what ``shown_rows`` does, where the rows are computed, too.
    """
    computing = _Computing(runtime, sessions, name)
    engine = runtime.assembly.joint(name).engine
    session = computing.session(engine)
    settings = _settings(runtime.assembly, name)
    if settings:
        session.configure(settings)
    return session, computing.frame(name, engine)


def _settings(assembly: CompiledAssembly, name: str) -> Mapping[str, str]:
    """Return the settings with which a run computes the joint: those of its group's exit."""
    return assembly.joint(assembly.group(assembly.joint(name).group).exit).step.config


class _Computing:
    """Computes joints as frames of sessions, one of each engine."""

    def __init__(self, runtime: Runtime, sessions: ExitStack, shown: str) -> None:
        self._runtime = runtime
        self._assembly: CompiledAssembly = runtime.assembly
        self._opened = sessions
        self._sessions: dict[str, EngineSession] = {}
        self._source_frame = held_source_frame if self.quarantines(shown) else source_frame
        self._started = Typed(datetime.now(UTC), "timestamp")

    def session(self, engine: str) -> EngineSession:
        """Return the session of an engine."""
        if engine not in self._sessions:
            self._sessions[engine] = self._opened.enter_context(self._runtime.engine(engine).session())
        return self._sessions[engine]

    def quarantines(self, name: str) -> bool:
        """Return whether rows that cannot be evaluated are left out of a joint's rows."""
        target = self._assembly.group(self._assembly.joint(name).group).target
        return target is not None and target.errors is not None

    def frame(self, name: str, engine: str) -> Frame:
        """Return the rows of a joint as its readers find them, in the session of an engine."""
        joint = self._assembly.joint(name)
        if joint.engine != engine:
            rows = self.session(joint.engine).to_arrow(self.frame(name, joint.engine))
            return self.session(engine).from_value(rows)
        plan = differing_plan(self._assembly, name)
        return self.batch(name) if plan is None else first_rows(plan, self.session(engine), self.batch(name))

    def batch(self, name: str) -> Frame:
        """Return the rows that a joint computes, in the session of its engine."""
        joint = self._assembly.joint(name)
        session = self.session(joint.engine)
        if isinstance(joint, SourceJoint):
            return self._source_frame(self._runtime, joint, session)
        if isinstance(joint, FunctionJoint):
            return self._called(joint, session)
        if not isinstance(joint, SinkJoint):
            return self._queried(name, session, joint.engine)
        frames = [self.frame(upstream, joint.engine) for upstream in joint.upstream]
        return frames[0] if len(frames) == 1 else session.union_by_name(frames)

    def _called(self, joint: FunctionJoint, session: EngineSession) -> Frame:
        handles = {
            upstream: MaterializedRef(
                upstream, lambda: session, partial(lambda wanted, _: self.frame(wanted, joint.engine), upstream)
            ).bound_to(session)
            for upstream in joint.upstream
        }
        try:
            return call(joint, load_function(joint, self._runtime.root), handles, session)
        finally:
            for handle in handles.values():
                handle.end()

    def _queried(self, name: str, session: EngineSession, engine: str) -> Frame:
        ctes = self._ctes(name, engine)
        (query,) = GroupQuery((name,), ctes).fused()
        for read in query.inputs:
            session.register(read, self.frame(read, engine))
        used = {parameter for cte in ctes for parameter in cte.parameters}
        of_partitions = {cte.joint: tuple(p for p in cte.parameters if p in PARTITION_PARAMETERS) for cte in ctes}
        values = dict(
            partition_values(self._assembly, {joint: names for joint, names in of_partitions.items() if names}, None)
        )
        if RUN_STARTED_AT in used:
            values[RUN_STARTED_AT] = self._started
        values |= self._runtime.values_of(used)
        try:
            return run_query(session, query, values)
        except RivetError as error:
            raise locate_in_query(error, query, self._assembly) from error.__cause__

    def _ctes(self, name: str, engine: str) -> tuple[Cte, ...]:
        """Return the SQL joints of an engine that a joint is computed from, and itself, in topological order.

        Those before a joint whose table has other rows than it computes are left out, with that joint.
        """
        ctes: dict[str, Cte] = {}
        visited: set[str] = set()
        waiting = [(name, False)]
        while waiting:
            each, after = waiting.pop()
            joint = self._assembly.joint(each)
            if after:
                group = self._assembly.group(joint.group)
                cte = next(cte for cte in group.ctes if cte.joint == each)
                text = cte.good_for(False) if self.quarantines(each) else cte.text
                ctes[each] = replace(cte, text=text, incremental=None, errors=None)
            elif each in visited or joint.type != "sql" or joint.engine != engine:
                continue
            elif each == name or differing_plan(self._assembly, each) is None:
                visited.add(each)
                waiting.append((each, True))
                waiting += [(upstream, False) for upstream in joint.upstream]
        return tuple(ctes.values())


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
