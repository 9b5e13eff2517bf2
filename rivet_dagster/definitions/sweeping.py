"""The job that sweeps, and what starts it: runs that ended badly, and the clock."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

import dagster as dg

from rivet_dagster.definitions.failure import rivet_failures
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.sweeping import sweep_patiently
from rivet_dagster.model.automation import SweepSchedule
from rivet_dagster.model.sensors import SweepSensor

JOB = "sweep"


def sweep_definitions(project: RivetProject) -> dg.Definitions:
    """The job, its sensors and its schedules; nothing where the project asks for none. Raises RVT-104."""
    settings = project.assembly.dagster
    if not settings.sensors and not settings.schedules:
        return dg.Definitions()
    job = _job(project)
    return dg.Definitions(
        jobs=[job],
        sensors=[sensor for declared in settings.sensors for sensor in _sensors(declared, job)],
        schedules=[_schedule(declared, job) for declared in settings.schedules],
    )


def _job(project: RivetProject) -> dg.JobDefinition:
    @dg.op(description="Removes what runs that died left in the catalogs; a run that lives loses nothing.")
    def sweep_catalogs(context: dg.OpExecutionContext) -> None:
        runtime = Runtime(project.assembly, project.root)
        with rivet_failures():
            swept = sweep_patiently(runtime.catalog(spec.name) for spec in project.assembly.catalogs)
        for name in swept:
            context.log.info(f"removed {name}")
        context.add_output_metadata({"rivet/swept": len(swept)})

    @dg.job(name=JOB, description="Removes what runs that died left in the catalogs.")
    def sweep_job() -> None:
        sweep_catalogs()

    return sweep_job


def _sensors(declared: SweepSensor, job: dg.JobDefinition) -> list[dg.SensorDefinition]:
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


def _schedule(declared: SweepSchedule, job: dg.JobDefinition) -> dg.ScheduleDefinition:
    try:
        return dg.ScheduleDefinition(
            name=declared.name,
            job=job,
            cron_schedule=declared.cron_schedule,
            execution_timezone=declared.execution_timezone,
            default_status=dg.DefaultScheduleStatus[declared.default_status],
        )
    except dg.DagsterError as error:
        message = f"schedule '{declared.name}': {error}"
        raise RivetError("RVT-104", message, file="rivet.yaml", line=declared.line) from error
