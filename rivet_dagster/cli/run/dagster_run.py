"""The Dagster run of ``rivet-dagster run``, in this process."""

from __future__ import annotations

import os
import uuid
import warnings
from dataclasses import replace
from pathlib import Path

import dagster as dg

from rivet_dagster.cli.run.events import RunFollower, following_logger
from rivet_dagster.cli.run.report import NOTHING_CHANGED, RunReport, read_report, seconds_of_groups
from rivet_dagster.cli.run.request import RunRequest
from rivet_dagster.cli.run.selection import Covered, covered, named, to_materialize
from rivet_dagster.cli.screen.contract import Screen
from rivet_dagster.compiler.plan import CompiledAssembly, CompiledJoint
from rivet_dagster.definitions.executors.rivet_executor import one_process_executor
from rivet_dagster.definitions.executors.steps_in_threads import execute_here
from rivet_dagster.definitions.jobs.target import target_of
from rivet_dagster.definitions.load import build_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.environment import environment_tags
from rivet_dagster.definitions.runs.full_refresh import full_refresh_tags
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator
from rivet_dagster.execution.changed import changed_groups
from rivet_dagster.execution.environments import refuse_without_environments, use_environment
from rivet_dagster.execution.full_refresh import refuse_lossy_refresh
from rivet_dagster.execution.runtime import Runtime

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
    window = covered(request.partition, request.partition_range, joints)
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
    with_job = dg.Definitions.merge(
        definitions,
        dg.Definitions(jobs=[dg.define_asset_job(JOB, selection)], loggers={"progress": following_logger(follower)}),
    )
    job = with_job.get_job_def(JOB)
    run_id = str(uuid.uuid4())
    with dg.DagsterInstance.get() if os.environ.get("DAGSTER_HOME") else dg.DagsterInstance.ephemeral() as instance:
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
        return to_materialize(named(request.joints, project.assembly), project.assembly)
    by_name = named(request.joints, project.assembly) if request.joints else set()
    return to_materialize(by_name | set(project.select(request.select)), project.assembly)
