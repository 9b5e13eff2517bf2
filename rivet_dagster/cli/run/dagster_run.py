"""The Dagster run of ``rivet-dagster run``, in this process, whose events are shown on a screen as they come."""

from __future__ import annotations

import logging
import os
import uuid
import warnings
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from threading import RLock

import dagster as dg

from rivet_dagster.cli.run.report import NOTHING_CHANGED, RunReport, read_report, seconds_of_groups, was_canceled
from rivet_dagster.cli.run.selection import Covered, RunRequest, joints_of_groups, selected_partitions, to_materialize
from rivet_dagster.cli.screen import (
    AGAIN,
    CANCELED,
    DONE,
    FAILED,
    NOT_STARTED,
    RUNNING,
    WAITS,
    Screen,
    Verdict,
)
from rivet_dagster.collector import without_collector
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.definitions.jobs import target_of
from rivet_dagster.definitions.load import build_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.rivet_executor import one_process_executor
from rivet_dagster.definitions.resources.steps_in_threads import execute_here
from rivet_dagster.definitions.runs.failure import was_not_started
from rivet_dagster.definitions.runs.identity import environment_tags, full_refresh_tags, step_name
from rivet_dagster.definitions.specs.materialization_metadata import ROW_COUNT
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator
from rivet_dagster.execution.changed import changed_groups
from rivet_dagster.execution.environments import refuse_without_environments, use_environment
from rivet_dagster.execution.full_refresh import refuse_lossy_refresh
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.joint import SOURCE

JOB = "rivet_dagster_run"


def materialize(
    request: RunRequest, assembly: CompiledAssembly, root: Path, screen: Screen, environment: str | None = None
) -> RunReport:
    """Materialize the selected joints of a plan, in an environment or in the base, and return the report.

    The screen shows what the run does.
    """
    warnings.filterwarnings("ignore", module="dagster")
    if request.no_fail_fast:
        assembly = replace(assembly, fail_fast=False)
    project = RivetProject.of(assembly, root, DagsterRivetTranslator(), environment)
    definitions = build_definitions(project, [screen], executor=one_process_executor(project))
    joints = _selected(request, project)
    if request.changed:
        changed = changed_groups(Runtime(assembly, root))
        joints = [joint for joint in joints if joint.group in changed]
    runtime = Runtime(assembly, root, environment=environment)
    refuse_without_environments(runtime, sorted({joint.group for joint in joints}))
    if request.full_refresh:
        refuse_lossy_refresh(runtime, {joint.group for joint in joints})
    use_environment(runtime)
    if not joints:
        return NOTHING_CHANGED
    window = selected_partitions(request.partition, request.partition_range, joints)
    selection = target_of(project, [joint.name for joint in joints]).selection(project)
    tags = {**window.tags, **environment_tags(project), **full_refresh_tags(request.full_refresh)}
    follower = RunFollower(screen, assembly, {joint.group for joint in joints})
    return _run(project, definitions, selection, window, tags, follower)


def _run(
    project: RivetProject,
    definitions: dg.Definitions,
    selection: dg.AssetSelection,
    window: Covered,
    tags: dict[str, str],
    follower: RunFollower,
) -> RunReport:
    with without_collector():  # an instance imports the packages of its storage
        logger = following_logger(follower)
        with_job = dg.Definitions.merge(
            definitions,
            dg.Definitions(jobs=[dg.define_asset_job(JOB, selection)], loggers={"progress": logger}),
        )
        job = with_job.get_job_def(JOB)
        opened = dg.DagsterInstance.get() if os.environ.get("DAGSTER_HOME") else dg.DagsterInstance.ephemeral()
    run_id = str(uuid.uuid4())
    with opened as instance:
        success, stopped = False, None
        try:
            success = execute_here(job, instance, run_id, tags, {"loggers": {"progress": {"config": {}}}})
        except (Exception, KeyboardInterrupt, dg.DagsterExecutionInterruptedError) as error:
            stopped = error  # the run's events may say which step failed, and why
        entries = instance.all_logs(run_id)
        events = [entry.dagster_event for entry in entries if entry.dagster_event is not None]
        times = seconds_of_groups(entries, project.assembly)
        named = None if window.first is None else str(window)
        report = read_report(events, run_id, success, project.assembly, named, times)
        if stopped is not None and not report.tells_why:
            raise stopped
        return report


def joints_in_dagster(request: RunRequest, assembly: CompiledAssembly, root: Path) -> list[CompiledJoint]:
    """Return the joints that are asked for in Dagster's selection syntax, too. Raises RVT-115, RVT-306."""
    return _selected(request, RivetProject.of(assembly, root, DagsterRivetTranslator(), None))


def _selected(request: RunRequest, project: RivetProject) -> list[CompiledJoint]:
    """Return the joints that are asked for, by their names, by Dagster's selection syntax, or all of them.

    Raises RVT-115, RVT-306.
    """
    if request.select is None:
        return to_materialize(joints_of_groups(request.joints, project.assembly), project.assembly)
    by_name = joints_of_groups(request.joints, project.assembly) if request.joints else set()
    return to_materialize(by_name | set(project.select(request.select)), project.assembly)


_STATES = {
    dg.DagsterEventType.STEP_START: RUNNING,
    dg.DagsterEventType.STEP_UP_FOR_RETRY: WAITS,
    dg.DagsterEventType.STEP_RESTARTED: AGAIN,
    dg.DagsterEventType.STEP_SUCCESS: DONE,
    dg.DagsterEventType.STEP_FAILURE: FAILED,
}


class RunFollower:
    """Shows the events of a run of these ``groups`` of a plan; several threads may send some.

    A wave is announced when the first of its groups starts.
    """

    def __init__(self, screen: Screen, assembly: CompiledAssembly, groups: Iterable[str]) -> None:
        chosen = set(groups)
        computed = [name for name in chosen if assembly.joint(name).type != SOURCE]
        self._screen = screen
        self._assembly = assembly
        self._names = {step_name(assembly, name): name for name in computed}
        self._waves = {name: number for number, wave in enumerate(assembly.waves, 1) for name in wave}
        self._groups = {
            number: [name for name in wave if name in computed] for number, wave in enumerate(assembly.waves, 1)
        }
        self._announced: set[int] = set()
        self._rows: dict[str, int] = {}
        self._lock = RLock()
        screen.begin(computed)

    def follow(self, event: dg.DagsterEvent) -> None:
        """Show an event of a step; events of other kinds are not shown."""
        if event.step_key is None:
            return
        with self._lock:
            name = self._names.get(event.step_key, event.step_key)
            if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
                self._count(event)
            elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION:
                self._judge(event)
            elif event.event_type in _STATES:
                if event.event_type == dg.DagsterEventType.STEP_START:
                    self._announce(name)
                state = _STATES[event.event_type]
                if state == FAILED:
                    state = NOT_STARTED if was_not_started(event) else CANCELED if was_canceled(event) else FAILED
                self._screen.state(name, state, self._rows.get(name) if state == DONE else None)

    def _announce(self, name: str) -> None:
        number = self._waves.get(name)
        if number is not None and number not in self._announced:
            self._announced.add(number)
            self._screen.wave(number, self._groups[number])

    def _count(self, event: dg.DagsterEvent) -> None:
        rows = event.materialization.metadata.get(ROW_COUNT)
        if event.asset_key is not None and rows is not None:
            self._rows[event.asset_key.path[-1]] = int(str(rows.value))

    def _judge(self, event: dg.DagsterEvent) -> None:
        evaluation = event.asset_check_evaluation_data
        joint = self._assembly.joint(evaluation.asset_key.path[-1])
        declared = next((check for check in joint.checks if check.name == evaluation.check_name), None)
        if declared is None:
            return  # a check of the last step, which tells whether a table was published
        metadata = {key: value.value for key, value in evaluation.metadata.items()}
        violations, error = metadata.get("rivet/violations"), metadata.get("rivet/error")
        count = None if violations is None else int(str(violations))
        why = None if error is None else str(error)
        self._screen.verdict(Verdict(joint.name, declared.name, evaluation.passed, declared.blocking, count, why))


def following_logger(follower: RunFollower) -> dg.LoggerDefinition:
    """Return a logger that passes on Dagster's events, in place of Dagster's own log on the console."""

    @dg.logger
    def progress(_: dg.InitLoggerContext) -> logging.Logger:
        logger = logging.Logger("rivet_dagster.progress", logging.DEBUG)
        logger.addHandler(_Handler(follower))
        return logger

    return progress


class _Handler(logging.Handler):
    def __init__(self, follower: RunFollower) -> None:
        super().__init__()
        self._follower = follower

    def emit(self, record: logging.LogRecord) -> None:
        event = getattr(record, "dagster_meta", {}).get("dagster_event")
        if event is not None:
            self._follower.follow(event)
