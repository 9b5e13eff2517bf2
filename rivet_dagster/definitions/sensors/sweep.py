"""The sensors that sweep after runs that failed or were canceled."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a sensor's context as a class.

import dagster as dg

from rivet_dagster.definitions.jobs import SWEEP_JOB, sweep_job
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.model.automation import SWEEP_ENDS


def build_sweep_sensors(
    project: RivetProject,
    name: str,
    *,
    minimum_interval_seconds: int | None = None,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> list[dg.SensorDefinition]:
    """Return ``<name>_failure`` and ``<name>_canceled``, which request a sweep after each run that ended that way.

    ``minimum_interval_seconds`` is the time between two ticks (default 30).

    >>> [sensor.name for sensor in build_sweep_sensors(RivetProject.load("example_repo"), "clean_up")]
    ['clean_up_failure', 'clean_up_canceled']
    """
    job = sweep_job(project)
    return [_after(end, f"{name}_{end}", job, minimum_interval_seconds, default_status) for end in SWEEP_ENDS]


def _after(
    end: str, name: str, job: dg.JobDefinition, interval: int | None, default_status: dg.DefaultSensorStatus
) -> dg.SensorDefinition:
    status = dg.DagsterRunStatus[end.upper()]

    @dg.run_status_sensor(
        run_status=status,
        name=name,
        minimum_interval_seconds=interval,
        default_status=default_status,
        request_job=job,
        description=f"Sweeps after each run that ended as {status.value}.",
    )
    def after(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason:
        run = context.dagster_run
        if run.job_name == SWEEP_JOB:
            return dg.SkipReason("it was a sweep itself")
        return dg.RunRequest(run_key=run.run_id, tags={"rivet/sweeps_after": run.run_id})

    return after
