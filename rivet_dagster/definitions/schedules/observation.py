"""Schedules that observe sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dagster as dg

from rivet_dagster.compiler.sensors import wrong_observation
from rivet_dagster.definitions.jobs.upkeep import upkeep_config
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.environment import environment_tags
from rivet_dagster.definitions.schedules.materialization import refusals
from rivet_dagster.errors import RivetError
from rivet_dagster.model.automation import SweepSchedule, UpkeepSchedule


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
    with refusals(declared.name):
        return dg.ScheduleDefinition(
            name=declared.name,
            job=job,
            cron_schedule=declared.cron_schedule,
            execution_timezone=declared.execution_timezone,
            default_status=dg.DefaultScheduleStatus[declared.default_status],
            run_config=upkeep_config(declared.catalogs),
        )


def sweep_schedule(declared: SweepSchedule, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    """Return the schedule of the ``job`` that sweeps. Raises RVT-104."""
    with refusals(declared.name):
        return dg.ScheduleDefinition(
            name=declared.name,
            job=job,
            cron_schedule=declared.cron_schedule,
            execution_timezone=declared.execution_timezone,
            default_status=dg.DefaultScheduleStatus[declared.default_status],
        )
