"""load_definitions(): a project directory as Dagster Definitions.

Each schedule and sensor of the ``dagster:`` block of rivet.yaml is made by its public builder.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

import dagster as dg

from rivet_dagster.collector import without_collector
from rivet_dagster.definitions.assets.rivet_assets import Body, StepSettings, group_body, project_assets
from rivet_dagster.definitions.automation import Problems
from rivet_dagster.definitions.jobs import jobs_over_everything, sweep_job, upkeep_job
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.io_manager import rivet_resources
from rivet_dagster.definitions.resources.rivet_executor import rivet_executor
from rivet_dagster.definitions.schedules import (
    build_observation_schedule,
    build_schedule_from_rivet_selection,
    sweep_schedule,
    upkeep_schedule,
)
from rivet_dagster.definitions.sensors.after_success import build_after_success_sensor
from rivet_dagster.definitions.sensors.sources import build_files_sensor, build_source_changed_sensor
from rivet_dagster.definitions.sensors.sweep import build_sweep_sensors
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.clean_up import upkeep_catalogs
from rivet_dagster.execution.progress import ProgressListener
from rivet_dagster.model.automation import (
    AfterSuccessSensor,
    FilesSensor,
    ObservationSchedule,
    Sensor,
    SourceChangedSensor,
    SweepSchedule,
    TargetSchedule,
    TargetSensor,
    UpkeepSchedule,
)
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.text_lines import Origin

GENERATED: Any = object()
"""The default of ``executor``: the executor that follows from the engines of the profile."""


def load_definitions(
    project_dir: str | Path,
    profile: str | None = None,
    *,
    joints: Sequence[Joint] = (),
    translator: DagsterRivetTranslator | None = None,
    executor: dg.ExecutorDefinition | None = GENERATED,
    introspect: bool = False,
) -> dg.Definitions:
    """Return the assets, checks, resources and executor of a project, its jobs over everything, schedules and sensors.

    The jobs are ``all`` and, for joints with partitions, ``all_daily`` and the like; the schedules, sensors, automation
    conditions and freshness policies are those of the ``dagster:`` block.

    ``joints`` are added to those in files. ``executor`` replaces the default one, which runs a project on one Spark of
    this machine in threads of one process, others in processes, within the ``concurrency_limit`` of each engine;
    with None there is no executor, for merging with Definitions that have one. No engine is started. No catalog is
    contacted, unless ``introspect`` is true: then catalogs are asked for the columns of sources that declare none, for
    at most 10 seconds, and a failure is a warning of the plan. Raises one RivetError with all errors of the project.

    >>> load_definitions("example_repo").resolve_job_def("all").name
    'all'
    """
    with without_collector():
        project = RivetProject.load(project_dir, profile, joints=joints, translator=translator, introspect=introspect)
        return build_definitions(project, executor=executor)


def build_definitions(
    project: RivetProject,
    listeners: Sequence[ProgressListener] = (),
    *,
    body: Body = group_body,
    settings: StepSettings | None = None,
    executor: dg.ExecutorDefinition | None = GENERATED,
    automation: bool = True,
) -> dg.Definitions:
    """Return the Definitions of a project; steps in this process tell ``listeners`` phases and the progress of writes.

    With ``automation`` they include its jobs, and the schedules and sensors of the ``dagster:`` block.
    """
    # First, since it raises all errors of the block.
    triggers = _automation(project) if automation else dg.Definitions()
    steps = dg.Definitions(
        assets=project_assets(project, body, settings, listeners),
        resources=rivet_resources(project),
        executor=rivet_executor(project) if executor is GENERATED else executor,
    )
    return dg.Definitions.merge(steps, triggers)


def _automation(project: RivetProject) -> dg.Definitions:
    jobs = jobs_over_everything(project)
    return dg.Definitions.merge(dg.Definitions(jobs=jobs), block_definitions(project, jobs))


Trigger: TypeAlias = dg.ScheduleDefinition | dg.SensorDefinition
Job: TypeAlias = "dg.JobDefinition | dg.UnresolvedAssetJobDefinition"


@dataclass(frozen=True)
class DeclaredEntry:
    """An entry of the block: ``name`` is its name in messages, ``make`` builds what it declares. Raises RivetError."""

    name: str
    origin: Origin
    make: Callable[[], Sequence[Trigger]]


def block_definitions(project: RivetProject, jobs: Sequence[Job]) -> dg.Definitions:
    """Return the schedules, sensors and exposures of the block, and the jobs that sweep and do upkeep, if any is to do.

    ``jobs`` are the project's other jobs.

    Raises one RivetError with all errors of the block, including those of its rules.
    """
    problems = Problems(project.problems)
    settings = project.assembly.dagster
    sweeps = [sweep_job(project)] if settings.sensors.sweep or settings.sweeps else []
    upkeeps = [upkeep_job(project)] if settings.upkeeps or upkeep_catalogs(project.assembly) else []
    maintenance = [*sweeps, *upkeeps]
    names: dict[str, object] = {}
    jobs_by_name: dict[str, object] = {job.name: job for job in (*jobs, *maintenance)}
    made: list[Trigger] = []
    for entry in _entries(project, sweeps, upkeeps):
        with problems.of(entry.name, entry.origin):
            for trigger in entry.make():
                if names.setdefault(trigger.name, trigger) is not trigger:
                    _clash(problems, entry, f"there is a schedule or sensor '{trigger.name}' already")
                    continue
                for job in _jobs(trigger):
                    if jobs_by_name.setdefault(job.name, job) is not job:
                        _clash(problems, entry, f"there is a job '{job.name}' already")
                made.append(trigger)
    problems.raise_all()
    return dg.Definitions(
        assets=_exposures(project),
        jobs=maintenance,
        schedules=[trigger for trigger in made if isinstance(trigger, dg.ScheduleDefinition)],
        sensors=[trigger for trigger in made if isinstance(trigger, dg.SensorDefinition)],
    )


def _exposures(project: RivetProject) -> list[dg.AssetSpec]:
    """Return the external assets of the exposures that depend on assets here, or, of a part, on some of its assets."""
    return [
        dg.AssetSpec(
            key=dg.AssetKey([*project.assembly.dagster.key_prefix, exposure.name]),
            deps=[dg.AssetDep(key) for key in dict.fromkeys(map(project.key, exposure.depends_on))],
            description=exposure.description,
            owners=list(exposure.owners),
            kinds={"exposure"},
            metadata={"rivet/url": dg.MetadataValue.url(exposure.url)} if exposure.url is not None else {},
        )
        for exposure in project.assembly.dagster.exposures
        if not project.selected.isdisjoint(exposure.depends_on)
    ]


def refuse_problems(project: RivetProject) -> None:
    """Raise one RivetError with all errors of the block, if the project has ``problems``."""
    if project.problems:
        block_definitions(project, jobs_over_everything(project))


def _entries(
    project: RivetProject, sweeps: Sequence[dg.JobDefinition], upkeeps: Sequence[dg.JobDefinition]
) -> list[DeclaredEntry]:
    """Return the entries of the block; for a part of a project, those that make or observe something of that part."""
    settings = project.assembly.dagster
    return [
        *(
            DeclaredEntry(f"schedule '{declared.name}'", declared.origin, partial(_schedule, project, declared))
            for declared in settings.schedules
            if _is_here(project, declared.target)
        ),
        *(
            DeclaredEntry(
                f"observation '{declared.name}'", declared.origin, partial(_observe, project, declared, sources)
            )
            for declared in settings.observe
            if (sources := _sources_here(project, declared.sources)) or not declared.sources
        ),
        *(
            DeclaredEntry(f"schedule '{declared.name}'", declared.origin, partial(_sweep, declared, job))
            for job in sweeps
            for declared in settings.sweeps
        ),
        *(
            DeclaredEntry(f"schedule '{declared.name}'", declared.origin, partial(_upkeep, declared, job))
            for job in upkeeps
            for declared in settings.upkeeps
        ),
        *(
            DeclaredEntry(f"sensor '{declared.name}'", declared.origin, partial(declared_sensor, project, declared))
            for declared in settings.sensors
            if not isinstance(declared, TargetSensor) or _is_here(project, declared.target)
        ),
    ]


def _is_here(project: RivetProject, target: str) -> bool:
    """Return whether a target selects any asset here; True for an invalid target, which its builder refuses."""
    try:
        return not project.selected.isdisjoint(project.whole.select_made(target))
    except RivetError:
        return True


def _sources_here(project: RivetProject, names: Sequence[str]) -> list[str]:
    """Return the names without those of sources that are assets elsewhere."""
    return [name for name in names if name in project.selected or name not in project.whole.selected]


def _schedule(project: RivetProject, declared: TargetSchedule) -> list[dg.ScheduleDefinition]:
    return [
        build_schedule_from_rivet_selection(
            project,
            declared.name,
            declared.target,
            declared.cron_schedule,
            execution_timezone=declared.execution_timezone,
            default_status=dg.DefaultScheduleStatus[declared.default_status],
            partition_offset=declared.partition_offset,
        )
    ]


def _observe(
    project: RivetProject, declared: ObservationSchedule, sources: Sequence[str]
) -> list[dg.ScheduleDefinition]:
    return [
        build_observation_schedule(
            project,
            declared.name,
            sources,
            declared.cron_schedule,
            execution_timezone=declared.execution_timezone,
            default_status=dg.DefaultScheduleStatus[declared.default_status],
        )
    ]


def _sweep(declared: SweepSchedule, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    return [sweep_schedule(declared, job)]


def _upkeep(declared: UpkeepSchedule, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    return [upkeep_schedule(declared, job)]


def _jobs(trigger: Trigger) -> Sequence[Job]:
    if isinstance(trigger, dg.ScheduleDefinition):
        return [trigger.job] if trigger.has_job else []
    return trigger.jobs if trigger.has_jobs else []


def _clash(problems: Problems, entry: DeclaredEntry, message: str) -> None:
    problems.add(entry.name, entry.origin, "RVT-104", message, remediation="Rename one of them.")


class _Common(TypedDict):
    name: str
    minimum_interval_seconds: int | None
    default_status: dg.DefaultSensorStatus


def declared_sensor(project: RivetProject, declared: Sensor) -> list[dg.SensorDefinition]:
    """Return the sensors for an entry of ``sensors``: one, or two for a sweep. Raises RivetError."""
    common = _Common(
        name=declared.name,
        minimum_interval_seconds=declared.minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus[declared.default_status],
    )
    origin = declared.origin
    match declared:
        case FilesSensor(source=source, target=target):
            return [build_files_sensor(project, source=source, target=target, origin=origin, **common)]
        case SourceChangedSensor(sources=sources, target=target):
            return [build_source_changed_sensor(project, sources=sources, target=target, origin=origin, **common)]
        case AfterSuccessSensor(monitored=monitored, target=target):
            return [build_after_success_sensor(project, monitored=monitored, target=target, origin=origin, **common)]
        case _:
            return build_sweep_sensors(project, **common)
