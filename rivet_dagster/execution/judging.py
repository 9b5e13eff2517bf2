"""What is judged, and when: sources in place, staged rows before they are published, published ones on demand."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.quality import judge, proven
from rivet_dagster.execution.reading import published_reference, reference, source_frame
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.storage import Published, Staged, Statistics


def check_source(runtime: Runtime, name: str, checks: Container[str] | None = None) -> tuple[CheckResult, ...]:
    """Judge a gated source in place by those of its checks (default: all)."""
    joint = runtime.assembly.joint(name)
    session = runtime.engine(joint.engine).session()
    try:
        session.register(name, source_frame(runtime, joint, session))
        wanted = [check for check in joint.checks if checks is None or check.name in checks]
        return judge(name, wanted, session, None, _others(runtime, session, {}))
    finally:
        session.close()


def check_published(
    runtime: Runtime, name: str, checks: Container[str] | None = None, version: Published | None = None
) -> tuple[CheckResult, ...]:
    """Judge what is published of a joint (default: now) by those of its checks (default: all), writing nothing.

    Raises RVT-401 where nothing is published.
    """
    joint = runtime.assembly.joint(name)
    if not joint.checks:
        return ()
    session = runtime.engine(joint.engine).session()
    try:
        ref = reference(runtime, name) if version is None else published_reference(runtime, name, version)
        session.register(name, ref.frame_in(session))
        wanted = [check for check in joint.checks if checks is None or check.name in checks]
        known = None if ref.row_count is None else Statistics(ref.row_count, 0)
        return judge(name, wanted, session, known, _others(runtime, session, {}))
    finally:
        session.close()


def check_staged(
    runtime: Runtime, joint: CompiledJoint, staged: Staged, given: Mapping[str, MaterializedRef]
) -> tuple[tuple[CheckResult, ...], int]:
    """Judge what was staged of a joint, and count its rows. Raises RVT-508."""
    relation, statistics = runtime.catalog(staged.catalog).audit(staged)
    if statistics.rows == 0 and joint.write_strategy.on_empty == "fail":
        raise RivetError("RVT-508", "the batch is empty and `on_empty` is fail", joint=joint.name, file=joint.file)
    passed = proven(joint.name, joint.checks, statistics)
    if passed is not None:
        return passed, statistics.rows
    session = runtime.engine(joint.engine).session()
    try:
        session.register(joint.name, session.load(relation))
        others = _others(runtime, session, given)
        return judge(joint.name, joint.checks, session, statistics, others), statistics.rows
    finally:
        session.close()


def _others(runtime: Runtime, session: EngineSession, given: Mapping[str, MaterializedRef]) -> Callable[[str], Frame]:
    """The rows of the joints that checks read besides those they judge."""
    return lambda name: (given.get(name) or reference(runtime, name)).frame_in(session)
