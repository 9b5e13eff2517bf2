"""The sensors that sweep after runs that failed or were canceled."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a sensor's context as a class.

from datetime import UTC, datetime, timedelta

import dagster as dg

from rivet_dagster.definitions.jobs import SWEEP_JOB, sweep_job
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.model.automation import SWEEP_ENDS

_WAITING = [dg.DagsterRunStatus.QUEUED, dg.DagsterRunStatus.NOT_STARTED, dg.DagsterRunStatus.STARTING]
_BEGUN = [dg.DagsterRunStatus.STARTED, dg.DagsterRunStatus.SUCCESS]

_PATIENCE = timedelta(hours=1)
"""The age after which a sweep that has not begun is not waited for any more: its launch may have been lost."""

_REPOSITORY = ".dagster/repository"
"""The tag by which Dagster tells to which code location a run belongs."""


def build_sweep_sensors(
    project: RivetProject,
    name: str,
    *,
    minimum_interval_seconds: int | None = None,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
) -> list[dg.SensorDefinition]:
    """Return ``<name>_failure`` and ``<name>_canceled``, which request a sweep after a run that ended that way.

    One sweep serves all runs that ended before it was requested.

    ``minimum_interval_seconds`` is the time between two ticks (default 30).

    >>> [sensor.name for sensor in build_sweep_sensors(RivetProject.load("example_repo"), "clean_up")]
    ['clean_up_failure', 'clean_up_canceled']
    """
    job = sweep_job(project)
    return [_after(end, f"{name}_{end}", job, minimum_interval_seconds, default_status) for end in SWEEP_ENDS]


def _is_swept(context: dg.RunStatusSensorContext) -> bool:
    """Return whether a sweep has been requested since the run ended, or has not begun: it removes what the run left."""
    run = context.dagster_run
    # Sweeps of this project: others of the instance have a job of that name, too.
    tags = {_REPOSITORY: run.tags[_REPOSITORY]} if _REPOSITORY in run.tags else {}
    since = [(_WAITING, datetime.now(UTC) - _PATIENCE)]
    record = context.instance.get_run_record_by_id(run.run_id)
    if record is not None and record.end_time is not None:
        since.append((_BEGUN, datetime.fromtimestamp(record.end_time, UTC)))
    filters = (dg.RunsFilter(job_name=SWEEP_JOB, statuses=s, tags=tags, created_after=time) for s, time in since)
    return any(context.instance.get_runs(filters=one, limit=1) for one in filters)


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
        description=f"Sweeps after runs that ended as {status.value}.",
    )
    def after(context: dg.RunStatusSensorContext) -> dg.RunRequest | dg.SkipReason | None:
        run = context.dagster_run
        if run.job_name == SWEEP_JOB:
            return dg.SkipReason("it was a sweep itself")
        if _is_swept(context):
            return None  # not a SkipReason, which would end the tick: a backfill may have thousands of such runs
        return dg.RunRequest(run_key=run.run_id, tags={"rivet/sweeps_after": run.run_id})

    return after
