"""The job that sweeps, and what starts it: runs that ended badly, and the clock."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

import dagster as dg

from rivet_dagster.definitions.failure import rivet_failures
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.schedules import refusals
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.sweeping import sweep_patiently
from rivet_dagster.model.automation import SweepSchedule
from rivet_dagster.model.sensors import SweepSensor

JOB = "sweep"


def sweep_job(project: RivetProject) -> dg.JobDefinition:
    """The job."""

    @dg.op(description="Removes what runs that died left in the catalogs; a run that lives loses nothing.")
    def sweep_catalogs(context: dg.OpExecutionContext) -> None:
        runtime = Runtime(project.assembly, project.root)
        with rivet_failures():
            swept = sweep_patiently(runtime.catalog(spec.name) for spec in project.assembly.catalogs)
        for name in swept:
            context.log.info(f"removed {name}")
        context.add_output_metadata({"rivet/swept": len(swept)})

    @dg.job(name=JOB, description="Removes what runs that died left in the catalogs.")
    def sweep() -> None:
        sweep_catalogs()

    return sweep


def sweep_sensors(declared: SweepSensor, job: dg.JobDefinition) -> list[dg.SensorDefinition]:
    """Two: a sensor of Dagster's looks for runs of one status."""
    return [
        _sensor(declared, f"{declared.name}_failure", dg.DagsterRunStatus.FAILURE, job),
        _sensor(declared, f"{declared.name}_canceled", dg.DagsterRunStatus.CANCELED, job),
    ]


def _sensor(
    declared: SweepSensor, name: str, status: dg.DagsterRunStatus, job: dg.JobDefinition
) -> dg.SensorDefinition:
    @dg.run_status_sensor(
        run_status=status,
        name=name,
        minimum_interval_seconds=declared.minimum_interval_seconds,
        default_status=dg.DefaultSensorStatus[declared.default_status],
        request_job=job,
        description=f"Sweeps after each run that ended as {status.value}.",
    )
    def after(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
        run = context.dagster_run
        if run.job_name == JOB:
            return dg.SkipReason("it was a sweep itself")
        return dg.RunRequest(run_key=run.run_id, tags={"rivet/sweeps_after": run.run_id})

    return after


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
