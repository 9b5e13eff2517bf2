"""Computing one joint of a group, and writing its rows to a place in storage: one query of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rivet_dagster.compiler.plan import FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.phases import CONFIG, WRITE, PhaseClock
from rivet_dagster.execution.python_joint import call, load_function
from rivet_dagster.execution.reading import at_line, frames, queries_of, reference
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.joint import PYTHON
from rivet_dagster.model.storage import Staged

Fit = Callable[[EngineSession, Frame], Frame]
"""Gives a frame the columns of the table that it is written to."""


def write_joint(
    runtime: Runtime,
    group: FusedGroup,
    exit_name: str,
    staged: Staged,
    given: Mapping[str, MaterializedRef],
    clock: PhaseClock,
    fit: Fit = lambda session, frame: frame,
    split_by: Sequence[str] = (),
) -> None:
    """Write the rows of ``exit_name`` to ``staged``; ``given`` are handles on joints of other groups.

    ``split_by`` are columns that no file has more than one combination of values of.
    """
    session = runtime.engine(group.engine).session()
    try:
        with clock.phase(CONFIG):
            frame = fit(session, _result(runtime, group, exit_name, session, given))
        with clock.phase(WRITE):
            _write_frame(runtime, group, exit_name, session, frame, staged, split_by)
    finally:
        session.close()


def _write_frame(
    runtime: Runtime,
    group: FusedGroup,
    exit_name: str,
    session: EngineSession,
    frame: Frame,
    staged: Staged,
    split_by: Sequence[str],
) -> None:
    try:
        session.write(frame, staged.target, runtime.progress_of(exit_name), split_by)
        if split_by and runtime.catalog(staged.catalog).written(staged) is None:
            # The columns of a table without rows stand in a file all the same.
            session.register("rivet_result", frame)
            session.write(session.query("SELECT * FROM rivet_result LIMIT 0"), staged.target)
    except RivetError as error:
        queries = queries_of(runtime.assembly, group, exit_name)
        if len(queries) == 1 and runtime.assembly.joint(exit_name).type != PYTHON:
            raise at_line(error, queries[0], runtime.assembly) from error.__cause__
        raise


def _result(
    runtime: Runtime, group: FusedGroup, exit_name: str, session: EngineSession, given: Mapping[str, MaterializedRef]
) -> Frame:
    joint = runtime.assembly.joint(exit_name)
    if joint.type == PYTHON:
        handles = {u: (given.get(u) or reference(runtime, u)).bound_to(session) for u in joint.upstream}
        try:
            return call(joint, load_function(joint, runtime.root), handles, session)
        finally:
            for handle in handles.values():
                handle.end()
    found = frames(runtime, group, exit_name, session, given)
    return found[0] if len(found) == 1 else session.union_by_name(found)
