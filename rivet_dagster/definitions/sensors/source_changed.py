"""The sensor that requests its target when the data version of a source has changed."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a sensor's context as a class.

from collections.abc import Sequence

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.failure import secrets_redacted
from rivet_dagster.definitions.sensors.requests import (
    Mistakes,
    cursor,
    find_source,
    find_whole_target,
    observation,
    read_cursor,
    run_key,
    target_job,
)
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.reading.sources import data_version
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.text_lines import Origin

KIND = "source_changed"


def build_source_changed_sensor(
    project: RivetProject,
    name: str,
    sources: Sequence[str],
    target: str,
    *,
    minimum_interval_seconds: int | None = None,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
    origin: Origin | None = None,
) -> dg.SensorDefinition:
    """Return a sensor that requests ``target`` once when the data versions of any of ``sources`` have changed.

    The version at the first tick of a source is its initial one, and requests nothing. A source whose version cannot be
    read does not stop the others and keeps its last version: the tick logs the error, or fails if no other source has
    changed. The other arguments are those of ``build_files_sensor``; a new version is also recorded as an observation.

    Raises one RivetError with all errors (RVT-115, RVT-116, RVT-117, RVT-119).

    >>> project = RivetProject.load("example_repo")
    >>> build_source_changed_sensor(project, "moved", ["planes", "airlines"], 'key:"carrier_fleets"').name
    'moved'
    """
    mistakes = Mistakes(name, origin)
    joints = []
    for source in sources:
        with mistakes.of("sources"):
            joints.append(find_source(project, source))
    with mistakes.of("target"):
        job = target_job(project, name, find_whole_target(project, target))
    mistakes.raise_all()

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=f"Looks whether the data of {', '.join(sources)} changed.",
    )
    @secrets_redacted()
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        before = read_cursor(context, KIND) or {}
        known = {source: version for source, version in before.get("versions", {}).items() if source in sources}
        versions: dict[str, str] = {}
        errors: list[Diagnostic] = []
        runtime = Runtime(project.assembly, project.root, environment=project.environment)
        for joint in joints:
            try:
                versions[joint.name] = data_version(runtime, joint)
            except RivetError as error:
                errors += error.diagnostics
        changes = {source: version for source, version in versions.items() if known.get(source) != version}
        if errors and not changes:
            raise RivetError.of(errors)
        for diagnostic in errors:
            context.log.error(str(diagnostic))
        if not changes:
            return dg.SkipReason("no data version has changed")
        changed = sorted(source for source in changes if source in known)
        key = run_key(context, changes) if changed else before.get("last", "")
        return dg.SensorResult(
            run_requests=[dg.RunRequest(run_key=key)] if changed else None,
            skip_reason=None if changed else f"seen for the first time: {', '.join(sorted(changes))}",
            cursor=cursor(KIND, last=key, versions={**known, **changes}),
            asset_events=[observation(project, source, version) for source, version in changes.items()],
        )

    return look
