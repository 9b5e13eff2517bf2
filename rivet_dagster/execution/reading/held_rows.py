"""The rows of a source that hold: those on which the groups compute that quarantine the others."""

from __future__ import annotations

from collections.abc import Iterator

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.error_location import locating_errors
from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.reading.sources import source_frame
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.sql.target import source_view


def rows_are_held(assembly: CompiledAssembly, source: SourceJoint) -> bool:
    """Return whether a group of the source's engine reads it and quarantines rows."""
    return any(True for _ in _readers(assembly, source))


def held_source_frame(runtime: Runtime, source: SourceJoint, session: EngineSession) -> Frame:
    """Return the source's rows as ``source_frame`` does, without those that its readers quarantine, if they do.

    These are corrupt records, and rows for which an expression of the source cannot be evaluated.
    """
    if not rows_are_held(runtime.assembly, source):
        return source_frame(runtime, source, session)
    ref = reference(runtime, source.name)
    ctes = [cte for group in _readers(runtime.assembly, source) for cte in group.ctes if cte.joint == source.name]
    if not ctes or ref.untransformed is None:
        return _without_records(ref, session)
    with locating_errors(source):
        session.register(source_view(source.name), _without_records(ref.untransformed, session))
        return session.query(ctes[0].good_for(incremental=False))


def _readers(assembly: CompiledAssembly, source: SourceJoint) -> Iterator[FusedGroup]:
    for group in assembly.fused_groups:
        quarantines = group.target is not None and group.target.errors is not None
        if quarantines and group.engine == source.engine and source.name in (*group.joints, *group.inputs):
            yield group


def _without_records(ref: MaterializedRef, session: EngineSession) -> Frame:
    separated = ref.separated_in(session)
    return ref.frame_in(session) if separated is None else separated[0]
