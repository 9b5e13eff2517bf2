"""The run of one group: branch, config, write, quality, publish or discard, clean up."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping

from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint, FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.heartbeat import kept_alive
from rivet_dagster.execution.phases import BRANCH, CLEAN_UP, CONFIG, PUBLISH, QUALITY, WRITE, PhaseClock
from rivet_dagster.execution.python_joint import call, load_function
from rivet_dagster.execution.quality import judge
from rivet_dagster.execution.reading import at_joint, at_line, frames, queries_of, reference, source_frame
from rivet_dagster.execution.refs import MaterializedRef
from rivet_dagster.execution.results import CheckResult, GroupResult, Rows
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.joint import PYTHON
from rivet_dagster.model.storage import Published, Staged, Statistics


def run_group(
    runtime: Runtime,
    group_name: str,
    selected: Iterable[str],
    identity: str,
    given: Mapping[str, MaterializedRef] | None = None,
    unjudged_sources: Iterable[str] = (),
) -> GroupResult:
    """Run the ``selected`` joints of a group, each exit among them as one query.

    ``identity`` names the run and is kept with what it publishes; ``given`` are handles on joints of other groups;
    ``unjudged_sources`` are gated sources that nobody has judged in this run: those of them that the selected joints
    read are, before anything is read.
    Whatever goes wrong leaves what was published as it was. Raises RivetError; a gate that fails is no exception
    but a result.
    """
    group = runtime.assembly.group(group_name)
    given = given or {}
    clock = PhaseClock()
    ends = exits(runtime, group, set(selected))
    read = reads(runtime.assembly, group, ends)
    _judge_sources(runtime, [name for name in unjudged_sources if name in read])
    counted: dict[str, int] = {}
    result = GroupResult(group.name, clock.seconds)
    for exit_name in ends:
        if exit_name == group.exit:
            result = _publish_exit(runtime, group, identity, given, clock)
        else:
            counted[exit_name] = _count_inner(runtime, group, exit_name, given, clock)
    return GroupResult(
        group.name, clock.seconds, result.checks, result.published, result.rows, counted, result.skipped_empty
    )


def exits(runtime: Runtime, group: FusedGroup, selected: set[str]) -> tuple[str, ...]:
    """The selected joints that no selected joint of the group depends on, in order."""
    covered: set[str] = set()
    found = []
    for name in reversed(group.joints):
        joint = runtime.assembly.joint(name)
        if name in selected and name not in covered:
            found.append(name)
        if name in selected or name in covered:
            covered.update(joint.upstream)
    return tuple(reversed(found))


def reads(assembly: CompiledAssembly, group: FusedGroup, names: Iterable[str]) -> set[str]:
    """The joints outside the group that it takes to compute, and to judge, these joints of it."""
    needed = set(names)
    judged_with = {r for name in needed for check in assembly.joint(name).checks for r in check.reads}
    for name in reversed(group.joints):
        if name in needed:
            needed.update(assembly.joint(name).upstream)
    return (needed | judged_with) - set(group.joints)


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


def check_published(runtime: Runtime, name: str, checks: Container[str] | None = None) -> tuple[CheckResult, ...]:
    """Judge what is published of a joint by those of its checks (default: all), writing nothing.

    Raises RVT-401 where nothing is published.
    """
    joint = runtime.assembly.joint(name)
    session = runtime.engine(joint.engine).session()
    try:
        ref = reference(runtime, name)
        session.register(name, ref.frame_in(session))
        wanted = [check for check in joint.checks if checks is None or check.name in checks]
        known = None if ref.row_count is None else Statistics(ref.row_count, 0)
        return judge(name, wanted, session, known, _others(runtime, session, {}))
    finally:
        session.close()


def _publish_exit(
    runtime: Runtime, group: FusedGroup, identity: str, given: Mapping[str, MaterializedRef], clock: PhaseClock
) -> GroupResult:
    joint = runtime.assembly.joint(group.exit)
    assert joint.catalog is not None and joint.table is not None
    catalog = runtime.catalog(joint.catalog)
    with clock.phase(BRANCH):
        staged = catalog.stage(joint.table, joint.options)
    try:
        with kept_alive(catalog, staged):
            _write(runtime, group, group.exit, staged, given, clock)
            with clock.phase(QUALITY):
                checks, rows = _judge_staged(runtime, joint, staged, given)
            if any(result.blocks for result in checks) or _skips(joint, rows):
                with clock.phase(CLEAN_UP):
                    catalog.discard(staged)
                return GroupResult(group.name, clock.seconds, checks, skipped_empty=_skips(joint, rows))
            with clock.phase(PUBLISH):
                published = catalog.publish(staged, identity)
        return GroupResult(group.name, clock.seconds, checks, published, _replaced(published))
    except BaseException as error:
        # Also on an interrupt: what was staged goes, what was published stays.
        catalog.discard(staged)
        if isinstance(error, RivetError):
            raise at_joint(error, joint) from error.__cause__
        raise


def _count_inner(
    runtime: Runtime, group: FusedGroup, exit_name: str, given: Mapping[str, MaterializedRef], clock: PhaseClock
) -> int:
    """Compute an inner joint that a partial run ends with, count its rows, and keep none of them."""
    catalog = runtime.catalog(runtime.assembly.workspace)
    with clock.phase(BRANCH):
        staged = catalog.stage(exit_name, {})
    try:
        with kept_alive(catalog, staged):
            _write(runtime, group, exit_name, staged, given, clock)
        return catalog.audit(staged)[1].rows
    finally:
        with clock.phase(CLEAN_UP):
            catalog.discard(staged)


def _write(
    runtime: Runtime,
    group: FusedGroup,
    exit_name: str,
    staged: Staged,
    given: Mapping[str, MaterializedRef],
    clock: PhaseClock,
) -> None:
    session = runtime.engine(group.engine).session()
    try:
        with clock.phase(CONFIG):
            frame = _result(runtime, group, exit_name, session, given)
        with clock.phase(WRITE):
            _write_frame(runtime, group, exit_name, session, frame, staged)
    finally:
        session.close()


def _write_frame(
    runtime: Runtime, group: FusedGroup, exit_name: str, session: EngineSession, frame: Frame, staged: Staged
) -> None:
    try:
        session.write(frame, staged.target)
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


def _judge_staged(
    runtime: Runtime, joint: CompiledJoint, staged: Staged, given: Mapping[str, MaterializedRef]
) -> tuple[tuple[CheckResult, ...], int]:
    relation, statistics = runtime.catalog(staged.catalog).audit(staged)
    if statistics.rows == 0 and joint.write_strategy.on_empty == "fail":
        raise RivetError("RVT-508", "the batch is empty and `on_empty` is fail", joint=joint.name, file=joint.file)
    if not joint.checks:
        return (), statistics.rows
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


def _skips(joint: CompiledJoint, rows: int) -> bool:
    return rows == 0 and joint.write_strategy.on_empty == "skip"


def _replaced(published: Published) -> Rows:
    """What `replace` did: the batch came, all rows before it went."""
    rows = published.statistics.rows
    return Rows(inserted=rows, updated=0, deleted=published.rows_before, total=rows)


def _judge_sources(runtime: Runtime, names: Iterable[str]) -> None:
    for name in names:
        for result in check_source(runtime, name):
            if result.blocks:
                reason = result.error or f"{result.violations} violations"
                message = f"the check '{result.check.name}' of the source failed: {reason}"
                raise RivetError("RVT-507", message, joint=name, file=result.check.file, line=result.check.line)
