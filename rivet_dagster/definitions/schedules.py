"""Schedules that materialize a selection, observe sources, do the upkeep of tables, or sweep catalogs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import dagster as dg

from rivet_dagster.compiler.sensors import wrong_observation
from rivet_dagster.definitions.jobs import JobTarget, find_target, upkeep_config
from rivet_dagster.definitions.partitions import last_whole_partition, partitions_definition
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.identity import environment_tags
from rivet_dagster.errors import RivetError
from rivet_dagster.model.automation import SweepSchedule, UpkeepSchedule

Tick = Callable[[dg.ScheduleEvaluationContext], Iterator[dg.RunRequest | dg.SkipReason]]


def build_schedule_from_rivet_selection(
    project: RivetProject,
    name: str,
    target: str,
    cron_schedule: str,
    *,
    execution_timezone: str | None = None,
    default_status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.STOPPED,
    partition_offset: int = 0,
    tags: Mapping[str, str] | None = None,
    config: dg.RunConfig | None = None,
) -> dg.ScheduleDefinition:
    """Return a schedule for a job, both called ``name``, that materializes ``target``, a selection in Dagster's syntax.

    The job includes the checks of the gated sources that its joints read. If the joints have time partitions, each tick
    requests the last partition that has ended by the tick's time, or the ``partition_offset``-th before it; if they
    have static partitions, a run of each. ``execution_timezone`` is that of the partitions by default, else UTC.
    ``tags`` and ``config`` are those of the runs.

    Raises RVT-104 for a name, a cron schedule or a time zone that Dagster refuses, RVT-115 for a target without joints
    that can be materialized, RVT-116 for several partitions definitions, RVT-118 for an offset without time partitions.

    >>> project = RivetProject.load("example_repo")
    >>> schedule = build_schedule_from_rivet_selection(project, "nightly", 'group:"fleet"', "0 2 * * *")
    >>> schedule.name, schedule.job_name, schedule.execution_timezone
    ('nightly', 'nightly', None)
    """
    selected = find_target(project, target)
    of_time = selected.partitions is not None and selected.partitions.of_time
    if partition_offset and not of_time:
        raise RivetError("RVT-118", f"{target!r} has no partitions of time that an offset could count")
    if of_time and selected.partitions is not None and execution_timezone is None:
        execution_timezone = selected.partitions.timezone
    tick = _tick(selected, partition_offset, tags, config)
    with refusals(name):
        return dg.ScheduleDefinition(
            name=name,
            job=dg.define_asset_job(
                name, selected.selection(project), tags=environment_tags(project), description=f"Makes {target}"
            ),
            cron_schedule=cron_schedule,
            execution_timezone=execution_timezone,
            default_status=default_status,
            execution_fn=tick,
            tags=tags,
            description=f"Makes {target}{_which(selected, partition_offset)}",
        )


@contextmanager
def refusals(name: str) -> Iterator[None]:
    """Turn Dagster's errors about the options of the schedule ``name`` into RVT-104."""
    try:
        yield
    except dg.DagsterError as error:
        raise RivetError("RVT-104", f"Dagster refuses '{name}': {error}") from error


def _tick(target: JobTarget, offset: int, tags: Mapping[str, str] | None, config: dg.RunConfig | None) -> Tick:
    """Return the function of a tick, whose requests depend only on the scheduled time."""
    given: dict[str, Any] = {"tags": tags, "run_config": config}
    definition = partitions_definition(target.partitions) if target.partitions else None

    def tick(context: dg.ScheduleEvaluationContext) -> Iterator[dg.RunRequest | dg.SkipReason]:
        if definition is None:
            yield dg.RunRequest(**given)
        elif isinstance(definition, dg.TimeWindowPartitionsDefinition):
            time = context.scheduled_execution_time
            key = last_whole_partition(definition, time, offset)
            if key is None:
                before = f" and {offset} before it" if offset else ""
                yield dg.SkipReason(f"{target.partitions}: at {time.isoformat()} no partition{before} is whole yet")
            else:
                yield dg.RunRequest(run_key=key, partition_key=key, **given)
        else:
            for key in definition.get_partition_keys():
                yield dg.RunRequest(run_key=key, partition_key=key, **given)

    return tick


def _which(target: JobTarget, offset: int) -> str:
    if target.partitions is None:
        return ""
    if not target.partitions.of_time:
        return ", a run for each partition"
    return f", the {f'whole partition {offset} before the last' if offset else 'last whole partition'}"


def build_observation_schedule(
    project: RivetProject,
    name: str,
    sources: Sequence[str],
    cron_schedule: str,
    *,
    execution_timezone: str | None = None,
    default_status: dg.DefaultScheduleStatus = dg.DefaultScheduleStatus.STOPPED,
    tags: Mapping[str, str] | None = None,
    config: dg.RunConfig | None = None,
) -> dg.ScheduleDefinition:
    """Return a schedule for a job, both called ``name``, that records the data versions of ``sources``.

    ``sources`` are names of joints. No engine is started. ``tags`` and ``config`` are those of the runs.

    Raises RVT-104 for a name, a cron schedule or a time zone that Dagster refuses, RVT-117 for other joints.

    >>> project = RivetProject.load("example_repo")
    >>> build_observation_schedule(project, "hourly", ["airlines", "planes"], "0 * * * *").job_name
    'hourly'
    """
    # Without checks, whose steps would start an engine.
    selection = dg.AssetSelection.assets(*project.keys(_checked(project, sources))).without_checks()
    description = f"Observes {', '.join(sources)}"
    with refusals(name):
        return dg.ScheduleDefinition(
            name=name,
            job=dg.define_asset_job(name, selection, tags=environment_tags(project), description=description),
            cron_schedule=cron_schedule,
            execution_timezone=execution_timezone,
            default_status=default_status,
            tags=tags,
            run_config=config,
            description=description,
        )


def _checked(project: RivetProject, names: Sequence[str]) -> Sequence[str]:
    why = wrong_observation(names, {joint.name: joint for joint in project.assembly.joints})
    if why is not None:
        raise RivetError("RVT-117", why)
    return names


def upkeep_schedule(declared: UpkeepSchedule, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Return the schedule of the ``job`` that does the upkeep. Raises RVT-104."""
    return _schedule_of_job(declared, job, upkeep_config(declared.catalogs))


def sweep_schedule(declared: SweepSchedule, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Return the schedule of the ``job`` that sweeps. Raises RVT-104."""
    return _schedule_of_job(declared, job, None)


def _schedule_of_job(
    declared: UpkeepSchedule | SweepSchedule, job: dg.JobDefinition, config: Mapping[str, Any] | None
) -> dg.ScheduleDefinition:
    with refusals(declared.name):
        return dg.ScheduleDefinition(
            name=declared.name,
            job=job,
            cron_schedule=declared.cron_schedule,
            execution_timezone=declared.execution_timezone,
            default_status=dg.DefaultScheduleStatus[declared.default_status],
            run_config=config,
        )
