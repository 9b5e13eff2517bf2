"""The gate: judging sources in place, staged rows before they are published, and published rows on demand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace

from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.compiler.joints import CompiledJoint, ComputedJoint, SourceJoint
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.execution.quality.observing import ObservedChecks
from rivet_dagster.execution.quality.row_errors import is_errors_check, published_result
from rivet_dagster.execution.quality.verdicts import judge, proven
from rivet_dagster.execution.reading.inputs import passed_to_group, published_reference, reference
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.results import CheckResult
from rivet_dagster.execution.row_error import locating_errors, text_without_values
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.this_run import ThisRun
from rivet_dagster.model.check import ASSERTION, AUDIT
from rivet_dagster.model.check_plan import CompiledCheck
from rivet_dagster.model.storage import Published, Statistics, StoredRows
from rivet_dagster.model.target import Target
from rivet_dagster.sql.target import source_view


def check_source(runtime: Runtime, name: str, checks: Container[str] | None = None) -> tuple[CheckResult, ...]:
    """Judge a gated source in place by ``checks`` (names of its checks, default: all)."""
    with closing(runtime.engine(runtime.assembly.joint(name).engine).session()) as session:
        return judge_source(runtime, name, session, checks)


def judge_source(
    runtime: Runtime,
    name: str,
    session: EngineSession,
    checks: Container[str] | None = None,
    ref: MaterializedRef | None = None,
) -> tuple[CheckResult, ...]:
    """Judge a gated source as ``check_source`` does, in an open session.

    If a reader quarantines rows that cannot be evaluated, the others are judged. The rows are those of ``ref``, by
    default the current ones.
    """
    joint = runtime.assembly.source(name)
    held = rows_are_held(runtime.assembly, joint)
    with session.views(), session.separating_errors() if held else nullcontext():
        session.register(name, held_source_frame(runtime, joint, session, ref))
        wanted = [check for check in joint.checks if checks is None or check.name in checks]
        return _shown(joint, judge(name, wanted, session, None, _others(runtime, joint, session, {})))


def check_published(
    runtime: Runtime,
    name: str,
    checks: Container[str] | None = None,
    version: Published | None = None,
    beside: Runtime | None = None,
) -> tuple[CheckResult, ...]:
    """Judge a published ``version`` (default: the current one) of a joint by ``checks`` (default: all).

    Nothing is written. If a batch is only a part of the table, it cannot be told from the other rows any more, so
    assertions are left out. The tables of other joints, which checks read, are those of ``beside`` (default:
    ``runtime``). Raises RVT-401 if nothing is published.
    """
    joint, target = runtime.assembly.computed(name), runtime.assembly.target(name)
    has_batch = target is not None and target.is_its_batch
    possible = [check for check in joint.checks if has_batch or check.phase == AUDIT]
    wanted = [check for check in possible if checks is None or check.name in checks]
    if not wanted:
        return ()
    of_rows = [check for check in wanted if not is_errors_check(check)]
    with closing(runtime.engine(joint.engine).session()) as session:
        ref = reference(runtime, name) if version is None else published_reference(runtime, name, version)
        session.register(name, ref.frame_in(session))
        known = None if ref.row_count is None else Statistics(ref.row_count, 0)
        results = judge(name, of_rows, session, known, _others(beside or runtime, joint, session, {}))
        of_errors = [check for check in wanted if is_errors_check(check)]
        if target is not None and of_errors:
            results += _judge_errors(runtime, joint, target, of_errors, version, session)
        return _shown(joint, results)


def _judge_errors(
    runtime: Runtime,
    joint: ComputedJoint,
    target: Target,
    checks: Sequence[CompiledCheck],
    version: Published | None,
    session: EngineSession,
) -> tuple[CheckResult, ...]:
    published = version or runtime.target_catalog(target.catalog).current(target.table)
    if published is None or target.errors is None:
        return ()
    return tuple(published_result(runtime, joint, check, published, target.errors, session) for check in checks)


def observed_checks(run: ThisRun, joint: ComputedJoint) -> ObservedChecks:
    """Return those checks of the joint that can be judged while the batch is written."""
    return ObservedChecks(run.session, [check for check in joint.checks if not is_errors_check(check)])


def check_staged(
    run: ThisRun, joint: ComputedJoint, transaction: TableTransaction, observed: ObservedChecks
) -> tuple[CheckResult, ...]:
    """Judge the batch of a transaction by the joint's assertions, and all rows to be published by its audits.

    The check of row errors is left out: the run counts these itself. Those that hold by the joint's query need no look
    at the batch, nor those that it has passed while it was written, by ``observed``.
    """
    checks = tuple(check for check in joint.checks if not is_errors_check(check))
    batch, whole = transaction.batch, transaction.whole
    passed = observed.passed(batch)
    if batch is whole:  # one pass is enough for both
        return _judge_stored(run, joint, checks, transaction, whole, passed)
    assertions = tuple(check for check in checks if check.phase == ASSERTION)
    audits = tuple(check for check in checks if check.phase == AUDIT)
    results = _judge_stored(run, joint, assertions, transaction, batch, passed)
    results += _judge_stored(run, joint, audits, transaction, whole)
    return tuple(sorted(results, key=lambda result: joint.checks.index(result.check)))


def _judge_stored(
    run: ThisRun,
    joint: CompiledJoint,
    checks: tuple[CompiledCheck, ...],
    transaction: TableTransaction,
    rows: StoredRows,
    passed: Collection[str] = (),
) -> tuple[CheckResult, ...]:
    if not checks:
        return ()
    results = proven(joint.name, checks, rows.statistics, passed)
    if results is not None:
        return results
    session = run.session
    with session.views():
        session.register(joint.name, session.load(rows.relation))
        others = _others(run.runtime, joint, session, run.given)

        def count(undecided: Sequence[CompiledCheck]) -> Mapping[str, int]:
            observed = {check.name: 0 for check in undecided if check.name in passed}
            others = [check for check in undecided if check.name not in passed]
            return {**observed, **transaction.count_violations(rows, others)}

        return _shown(joint, judge(joint.name, checks, session, rows.statistics, others, count))


def _shown(joint: CompiledJoint, results: tuple[CheckResult, ...]) -> tuple[CheckResult, ...]:
    """Return the results; with ``row_values: false``, without error texts that may quote values of rows."""
    if joint.row_values:
        return results
    return tuple(replace(result, error=result.error and text_without_values(result.error)) for result in results)


def _others(
    runtime: Runtime, joint: CompiledJoint, session: EngineSession, given: Mapping[str, MaterializedRef]
) -> Callable[[str], Frame]:
    """Return a function that gives the rows of another joint, which the checks of ``joint`` read."""
    return lambda name: passed_to_group(runtime, given.get(name) or reference(runtime, name), joint.group).frame_in(
        session
    )


def rows_are_held(assembly: CompiledAssembly, source: SourceJoint) -> bool:
    """Return whether a group of the source's engine reads it and quarantines rows."""
    return any(True for _ in _readers(assembly, source))


def held_source_frame(
    runtime: Runtime, source: SourceJoint, session: EngineSession, ref: MaterializedRef | None = None
) -> Frame:
    """Return the source's rows as ``source_frame`` does, without those that its readers quarantine, if they do.

    These are corrupt records, and rows for which an expression of the source cannot be evaluated. The rows are those of
    ``ref``, by default the current ones.
    """
    ref = ref or reference(runtime, source.name)
    if not rows_are_held(runtime.assembly, source):
        return ref.frame_in(session)
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
