"""Schedules of the upkeep of tables, and of the sweep of catalogs."""

from __future__ import annotations

import dagster as dg

from rivet_dagster.definitions.jobs.upkeep import upkeep_config
from rivet_dagster.definitions.schedules.materialization import refusals
from rivet_dagster.model.automation import SweepSchedule, UpkeepSchedule


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
