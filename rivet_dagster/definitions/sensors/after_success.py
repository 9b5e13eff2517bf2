"""The sensor that requests its target when all monitored assets have been materialized."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a sensor's context as a class.

import time
from collections.abc import Container, Iterable, Iterator, Sequence

import dagster as dg

from rivet_dagster.definitions.jobs import JobTarget, find_target
from rivet_dagster.definitions.partitions import partitions_definition
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.event_log import staged_of
from rivet_dagster.definitions.sensors.requests import Mistakes, cursor, read_cursor, run_key, target_job
from rivet_dagster.errors import RivetError
from rivet_dagster.model.text_lines import Origin

KIND = "after_success"

PAGE = 100
"""The number of materializations of one asset that are read at once: their metadata may be long."""

SECONDS = 20.0
"""For how long a tick reads further pages, of all assets together; Dagster stops a tick after 60. The next reads on."""

_WHOLE = ""
"""The key of ``Waiting`` for a target without partitions."""

Waiting = dict[str, dict[str, int]]
"""By partition, the assets that were materialized since its last request, with the storage ids of these events."""


def build_after_success_sensor(
    project: RivetProject,
    name: str,
    monitored: str,
    target: str,
    *,
    minimum_interval_seconds: int | None = None,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
    origin: Origin | None = None,
) -> dg.SensorDefinition:
    """Return a sensor that requests ``target`` once all of ``monitored`` have been materialized since the last request.

    Both are selections of the project's assets in Dagster's syntax. Before the first request, all materializations
    count, however old. If ``target`` has partitions, ``monitored`` must have the same ones; each partition is then
    requested by itself, and only materializations after the first tick count, so that turning the sensor on requests no
    old partitions. If only ``monitored`` has partitions, any of them counts. The other arguments are those of
    ``build_files_sensor``.

    Raises one RivetError with all errors (RVT-115, RVT-116, RVT-119, RVT-120).

    >>> project = RivetProject.load("example_repo")
    >>> build_after_success_sensor(project, "after", 'key:"fleet"', 'key:"carrier_fleets"').name
    'after'
    """
    mistakes = Mistakes(name, origin)
    with mistakes.of("monitored"):
        # A part of the project may monitor assets of another part.
        monitored_target = find_target(project.whole, monitored)
    with mistakes.of("target"):
        made = find_target(project, target)
    mistakes.raise_all()
    with mistakes.of("target"):
        _refuse_circle(made, monitored_target)
        _refuse_other_partitions(project, made, monitored_target)
    mistakes.raise_all()
    keys = {key.to_user_string(): key for key in project.keys(monitored_target.joints)}
    with_run = [name for name in monitored_target.joints if name in project.with_run]
    checks = {project.key(name).to_user_string(): project.published_key(name) for name in with_run}
    partitions = partitions_definition(made.partitions) if made.partitions is not None else None

    @dg.sensor(
        name=name,
        job=target_job(project, name, made),
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=f"Waits until all of {', '.join(keys)} have been materialized.",
    )
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        before = read_cursor(context, KIND) or {}
        after: dict[str, int] = {}
        waiting: Waiting = {part: dict(events) for part, events in before.get("waiting", {}).items()}
        end = time.monotonic() + SECONDS
        for asset, key in keys.items():
            start = before.get("after", {}).get(asset)
            if partitions is None or start is None:
                pages: Iterable[Sequence[dg.EventLogRecord]] = [_newest(context, key, start)]
            else:
                pages = _next(context, key, start, end)
            after[asset] = start or 0
            for page in pages:
                events = _published(context, page, checks.get(asset))
                after[asset] = max(after[asset], *(event.storage_id for event in events), 0)
                for event in events if partitions is None or start is not None else ():
                    part = (event.partition_key or _WHOLE) if partitions is not None else _WHOLE
                    waiting.setdefault(part, {})[asset] = event.storage_id
                if len(events) < len(page):
                    break
        waiting = _still_valid(waiting, keys, partitions)
        ready = sorted(part for part, events in waiting.items() if events.keys() == keys.keys())
        requests = [
            dg.RunRequest(run_key=run_key(context, [part, waiting.pop(part)]), partition_key=part or None)
            for part in ready
        ]
        return dg.SensorResult(
            run_requests=requests,
            skip_reason=None if requests else _missing(waiting, keys),
            cursor=cursor(KIND, after=after, waiting=waiting),
        )

    return look


def _refuse_circle(made: JobTarget, monitored_target: JobTarget) -> None:
    both = [joint for joint in made.joints if joint in monitored_target.joints]
    if both:
        raise RivetError("RVT-120", f"it makes {', '.join(both)}, which is monitored: each run would lead to the next")


def _refuse_other_partitions(project: RivetProject, made: JobTarget, monitored_target: JobTarget) -> None:
    if made.partitions is None:
        return
    for name in monitored_target.joints:
        partitions = project.assembly.joint(name).partitions
        if partitions is None or partitions.keys != made.partitions.keys:
            message = (
                f"its partitions are {made.partitions}, those of '{name}', which is monitored, {partitions or 'none'}"
            )
            raise RivetError("RVT-119", message)


def _newest(context: dg.SensorEvaluationContext, key: dg.AssetKey, start: int | None) -> Sequence[dg.EventLogRecord]:
    wanted = dg.AssetRecordsFilter(asset_key=key, after_storage_id=start)
    return context.instance.fetch_materializations(wanted, limit=1).records


def _next(
    context: dg.SensorEvaluationContext, key: dg.AssetKey, start: int, end: float
) -> Iterator[Sequence[dg.EventLogRecord]]:
    """Yield pages of the materializations after the storage id ``start``: one, and further ones until ``end``."""
    is_last = False
    while not is_last:
        wanted = dg.AssetRecordsFilter(asset_key=key, after_storage_id=start)
        page = context.instance.fetch_materializations(wanted, limit=PAGE, ascending=True).records
        yield page
        is_last = len(page) < PAGE or time.monotonic() > end
        start = page[-1].storage_id if page else start


def _published(
    context: dg.SensorEvaluationContext, events: Sequence[dg.EventLogRecord], check: dg.AssetCheckKey | None
) -> Sequence[dg.EventLogRecord]:
    """Return the events up to the first one whose rows the last step of its run has not published yet.

    Those of runs that ended without that, and have not been re-executed since, are passed over.
    """
    if check is None:
        return events
    published = []
    for event in events:
        made = event.asset_materialization
        staged = made is not None and staged_of(made) is not None
        state = _state(context.instance, event.event_log_entry.run_id, check) if staged else True
        if state is None:
            break
        if state:
            published.append(event)
    return published


def _state(instance: dg.DagsterInstance, run_id: str, check: dg.AssetCheckKey) -> bool | None:
    """Return whether a run, or one that executes it again, has published; None while that may still come."""
    run = instance.get_run_by_id(run_id)
    if run is None:
        return False
    again = instance.get_runs(dg.RunsFilter(tags={"dagster/root_run_id": run.root_run_id or run_id}))
    runs = [run, *again]
    for each in runs:
        for entry in instance.all_logs(each.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION):
            evaluation = entry.dagster_event.asset_check_evaluation_data if entry.dagster_event is not None else None
            if evaluation is not None and evaluation.asset_check_key == check and evaluation.passed:
                return True
    return False if all(each.is_finished for each in runs) else None


def _still_valid(waiting: Waiting, keys: Container[str], partitions: dg.PartitionsDefinition[str] | None) -> Waiting:
    """Return the entries that can still be requested: assets or partitions may have changed since the last tick."""
    return {
        part: {asset: event for asset, event in events.items() if asset in keys}
        for part, events in waiting.items()
        if (part == _WHOLE if partitions is None else part != _WHOLE and partitions.has_partition_key(part))
    }


def _missing(waiting: Waiting, keys: Iterable[str]) -> str:
    done = set.union(set(), *waiting.values())
    missing = [asset for asset in keys if asset not in done]
    if missing:
        return f"not materialized since: {', '.join(missing)}"
    return f"no partition has all: {len(waiting)} have some"
