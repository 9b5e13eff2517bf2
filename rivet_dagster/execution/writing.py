"""Computing one joint of a group, and writing its rows to a place in storage: one query of the engine."""

from __future__ import annotations

from collections.abc import Callable

from rivet_dagster.compiler.joints import FunctionJoint
from rivet_dagster.engines.contract import EngineSession, Frame, QueryPlan
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.phases import CONFIG, WRITE
from rivet_dagster.execution.python_joint import call, load_function
from rivet_dagster.execution.reading import at_line, frames, inputs
from rivet_dagster.execution.rendering import Rendered, render_for_run
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.model.storage import Staged
from rivet_dagster.sql.write_strategies.layout import nothing_of

Fit = Callable[[EngineSession, Frame], Frame]
"""Gives a frame the columns of the table that it is written to."""


def as_it_is(session: EngineSession, frame: Frame) -> Frame:
    """The ``Fit`` of a table that takes whatever columns come."""
    return frame


def write_joint(run: ThisRun, exit_name: str, staged: Staged, fit: Fit = as_it_is, split_by: str | None = None) -> None:
    """Write the rows of the joint ``exit_name`` to ``staged``.

    With a window of partitions, what is read has the rows of these partitions alone. ``split_by`` is a column that
    ``fit`` adds, that no file has two values of and that none stores.
    """
    session = run.runtime.engine(run.group.engine).session()
    try:
        with run.clock.phase(CONFIG):
            rendered = render_for_run(run.runtime, run.group, exit_name, run.started, session)
            frame = fit(session, _result(run, exit_name, rendered, session))
            plan = session.explain(frame)
        with run.clock.phase(WRITE):
            _write_frame(run.runtime, exit_name, rendered, session, frame, staged, split_by)
            run.plans[exit_name] = _told(plan)
    finally:
        session.close()


def _told(plan: Callable[[], QueryPlan]) -> QueryPlan:
    """The plan; rows that are written are not lost where it cannot be had, and the reason takes its place."""
    try:
        return plan()
    except RivetError as error:
        return QueryPlan(error.diagnostics[0].message)


def _write_frame(
    runtime: Runtime,
    exit_name: str,
    rendered: Rendered,
    session: EngineSession,
    frame: Frame,
    staged: Staged,
    split_by: str | None,
) -> None:
    try:
        write_rows(runtime, exit_name, session, frame, staged, split_by)
    except RivetError as error:
        queries = rendered.queries
        if len(queries) == 1 and not isinstance(runtime.assembly.joint(exit_name), FunctionJoint):
            raise at_line(error, queries[0], runtime.assembly) from error.__cause__
        raise


def write_rows(
    runtime: Runtime, joint: str, session: EngineSession, frame: Frame, staged: Staged, split_by: str | None
) -> None:
    """Add the rows of ``frame`` to ``staged``, telling the runtime's watches how far that has come."""
    session.write(frame, staged.target, runtime.progress_of(joint), split_by)
    if split_by is not None and runtime.catalog(staged.catalog).written(staged) is None:
        # The columns of a table without rows stand in a file all the same.
        session.register(_RESULT, frame)
        session.write(session.query(nothing_of(_RESULT)), staged.target)


_RESULT = "rivet_result"


def _result(run: ThisRun, exit_name: str, rendered: Rendered, session: EngineSession) -> Frame:
    runtime, given, window = run.runtime, run.given, run.window
    joint = runtime.assembly.joint(exit_name)
    if isinstance(joint, FunctionJoint):
        found = inputs(runtime, joint.upstream, given, window)
        handles = {name: ref.bound_to(session) for name, ref in found.items()}
        try:
            return call(joint, load_function(joint, runtime.root), handles, session)
        finally:
            for handle in handles.values():
                handle.end()
    parts = frames(runtime, rendered, session, given, window)
    return parts[0] if len(parts) == 1 else session.union_by_name(parts)
