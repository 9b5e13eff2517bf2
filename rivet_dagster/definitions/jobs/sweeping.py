"""The job that sweeps, and the clock that starts it."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

from functools import lru_cache

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.failure import rivet_failures
from rivet_dagster.definitions.schedules.schedules import refusals
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.sweeping import sweep_patiently
from rivet_dagster.model.automation import SweepSchedule

JOB = "sweep"


@lru_cache(maxsize=8)
def sweep_job(project: RivetProject) -> dg.JobDefinition:
    """The job; all that start it have to mean the same one."""

    @dg.op(description="Removes what runs that died left in the catalogs; a run that lives loses nothing.")
    def sweep_catalogs(context: dg.OpExecutionContext) -> None:
        runtime = Runtime(project.assembly, project.root)
        with rivet_failures():
            swept = sweep_patiently(runtime.catalog(spec.name) for spec in project.assembly.catalogs)
            for name in swept.names:
                context.log.info(f"removed {name}")
            context.add_output_metadata({"rivet/swept": len(swept.names)})
            swept.raise_errors()

    @dg.job(name=JOB, description="Removes what runs that died left in the catalogs.")
    def sweep() -> None:
        sweep_catalogs()

    return sweep


def sweep_schedules(declared: SweepSchedule, job: dg.JobDefinition) -> list[dg.ScheduleDefinition]:
    """The one schedule. Raises RVT-104."""
    with refusals(declared.name):
        return [
            dg.ScheduleDefinition(
                name=declared.name,
                job=job,
                cron_schedule=declared.cron_schedule,
                execution_timezone=declared.execution_timezone,
                default_status=dg.DefaultScheduleStatus[declared.default_status],
            )
        ]
