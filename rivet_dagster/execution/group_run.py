"""The run of one group: branch, config, write, quality, publish or discard, clean up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.clean_up import archive_read_files
from rivet_dagster.execution.progress import BRANCH, CLEAN_UP, PhaseClock
from rivet_dagster.execution.quality.judging import check_source, judge_source
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.results import CheckResult, GroupResult
from rivet_dagster.execution.row_error import locating_errors
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.this_run import OneSession, Snapshots, ThisRun
from rivet_dagster.execution.writing.joint import write_joint
from rivet_dagster.execution.writing.publish import publish_exit
from rivet_dagster.model.partitions import Window


def run_group(
    runtime: Runtime,
    group_name: str,
    selected: Iterable[str],
    identity: str,
    given: Mapping[str, MaterializedRef] | None = None,
    unjudged_sources: Iterable[str] = (),
    window: Window | None = None,
    full_refresh: bool = False,
) -> GroupResult:
    """Run the ``selected`` joints of a group, each exit among them as one query.

    ``identity`` names the run and is stored with the version that it publishes; ``given`` are handles on joints of
    other groups. ``unjudged_sources`` are gated sources whose checks have not been evaluated in this run: those that
    the selected joints read are judged first. ``window`` holds the partitions that the run covers, if the group has
    partitions. A ``full_refresh`` replaces the target, or these partitions of it, as a first run would make it. If the
    run fails, what was published stays as it was. Raises RivetError; a gate that fails is reported in the result, not
    raised.
    """
    group = runtime.assembly.group(group_name)
    clock = PhaseClock(partial(runtime.enter_phase, group.name))
    exit_names = exits(runtime, group, set(selected))
    read = reads(runtime.assembly, group, exit_names)
    snapshots = Snapshots(runtime, {*read, *group.joints})
    given = {**(given or {}), **snapshots.refs}
    one_session = OneSession(runtime.engine(group.engine), runtime.assembly.joint(group.exit).step.config)
    started = datetime.now(UTC)
    run = ThisRun(runtime, group, given, clock, started, one_session, snapshots, identity, window, full_refresh)
    with closing(one_session), snapshots.held():
        _judge_sources(run, [name for name in unjudged_sources if name in read])
        return _run(run, exit_names)


def _run(run: ThisRun, exit_names: Iterable[str]) -> GroupResult:
    runtime, group, clock = run.runtime, run.group, run.clock
    counted: dict[str, int] = {}
    result = GroupResult(group.name, clock.seconds)
    for exit_name in exit_names:
        with locating_errors(runtime.assembly.joint(exit_name)):
            if exit_name == group.exit:
                result = publish_exit(run)
                # A full refresh of another reader may follow in this run, and needs the files where they are.
                if not result.gate_failed and not result.staged and not run.full_refresh:
                    with clock.phase(CLEAN_UP):
                        result = replace(result, not_archived=archive_read_files(runtime, group))
            else:
                counted[exit_name] = _count_inner(run, exit_name)
    plans = {} if _plans_hold_values(runtime.assembly, group) else run.plans
    return replace(result, phases=clock.seconds, counted=counted, plans=plans, full_refresh=run.full_refresh)


def exits(runtime: Runtime, group: FusedGroup, selected: set[str]) -> tuple[str, ...]:
    """Return the selected joints that no other selected joint of the group depends on, in order."""
    covered: set[str] = set()
    names = []
    for name in reversed(group.joints):
        joint = runtime.assembly.joint(name)
        if name in selected and name not in covered:
            names.append(name)
        if name in selected or name in covered:
            covered.update(joint.upstream)
    return tuple(reversed(names))


def reads(assembly: CompiledAssembly, group: FusedGroup, names: Iterable[str]) -> set[str]:
    """Return the joints outside of the group that are needed to compute and to judge ``names``, joints of the group."""
    needed = set(names)
    judged_with = {r for name in needed for check in assembly.joint(name).checks for r in check.reads}
    for name in reversed(group.joints):
        if name in needed:
            needed.update(assembly.joint(name).upstream)
    return (needed | judged_with) - set(group.joints)


def _plans_hold_values(assembly: CompiledAssembly, group: FusedGroup) -> bool:
    """Return whether query plans would show a value that must not be shown: the watermark that a query binds."""
    texts = (cte.incremental for cte in group.ctes)
    return not assembly.shows_row_values(group.name) and any(text and text.watermark for text in texts)


def _count_inner(run: ThisRun, exit_name: str) -> int:
    """Compute an inner joint that is an exit of a partial run, and count its rows, which are not published."""
    catalog = run.runtime.target_catalog(run.runtime.assembly.workspace)
    with run.clock.phase(BRANCH):
        transaction = catalog.begin(exit_name, run.session)
    with transaction:
        write_joint(run, exit_name, transaction)
        rows = transaction.batch.statistics.rows
        with run.clock.phase(CLEAN_UP):
            transaction.abort()
    return rows


def _judge_sources(run: ThisRun, names: Iterable[str]) -> None:
    for name in names:
        for result in _source_results(run, name):
            if result.blocks:
                reason = result.error or f"{result.violations} violations"
                message = f"the check '{result.check.name}' of the source failed: {reason}"
                raise RivetError("RVT-507", message, joint=name, file=result.check.file, line=result.check.line)


def _source_results(run: ThisRun, name: str) -> tuple[CheckResult, ...]:
    if run.runtime.assembly.joint(name).engine != run.group.engine:
        return check_source(run.runtime, name)
    return judge_source(run.runtime, name, run.session, ref=run.given.get(name))
