"""The sensors of sources: of files that are new or have changed, and of a data version that has changed."""

# No `from __future__ import annotations` here: Dagster reads the annotation of a sensor's context as a class.

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from rivet_dagster.catalogs.registry import catalog_class, traits_of
from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.sensors import BY_VERSION, not_listed
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
from rivet_dagster.execution.reading.landing import version_of
from rivet_dagster.execution.reading.sources import data_version, source_files, version_of_files
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.text_lines import Origin

FILES, SOURCE_CHANGED = "files", "source_changed"
"""The kinds of the sensors, in their cursors."""

REMEMBERED = 2000
"""The maximum number of files that a cursor lists: Dagster stores the cursor of every tick for days."""

_DIGEST_LENGTH = 8
"""The length of a file's digest in characters: 48 bits."""


def build_files_sensor(
    project: RivetProject,
    name: str,
    source: str,
    target: str,
    *,
    minimum_interval_seconds: int | None = None,
    default_status: dg.DefaultSensorStatus = dg.DefaultSensorStatus.STOPPED,
    origin: Origin | None = None,
) -> dg.SensorDefinition:
    """Return a sensor that requests ``target`` once for all files of ``source`` that are new or changed.

    At the first tick all files are new. A file that was removed requests nothing, unless there were more than 2,000
    files. ``target`` is a selection of the project's assets in Dagster's syntax, without partitions; the run belongs to
    a job called ``name``. Each change is also recorded as an observation of the source. ``minimum_interval_seconds`` is
    the time between two ticks (default 30).

    Raises one RivetError with all errors (RVT-104, RVT-115, RVT-116, RVT-117, RVT-119), at the lines of ``origin``,
    where rivet.yaml declares the sensor.

    >>> project = RivetProject.load("example_repo")
    >>> build_files_sensor(project, "landing", "planes", 'key:"carrier_fleets"').job_name
    'landing'
    """
    mistakes = Mistakes(name, origin)
    with mistakes.of("source"):
        joint = _listed_source(project, source)
    with mistakes.of("target"):
        job = target_job(project, name, find_whole_target(project, target))
    mistakes.raise_all()

    @dg.sensor(
        name=name,
        job=job,
        minimum_interval_seconds=minimum_interval_seconds,
        default_status=default_status,
        description=f"Looks for files of {source} that are new or have changed.",
    )
    @secrets_redacted()
    def look(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        runtime = Runtime(project.assembly, project.root, environment=project.environment)
        before = read_cursor(context, FILES)
        # Dagster retains the local variables of the function that makes its first result: the files must not be there.
        count, now, version = _look(runtime, joint, before)
        if before is not None and before["version"] == now["version"]:
            return dg.SkipReason(f"no change in {count} files")
        changed = count > 0 and _has_new(now.get("files"), before.get("files") if before is not None else "")
        key = run_key(context, now["version"]) if changed else (before or {}).get("last", "")
        return dg.SensorResult(
            run_requests=[dg.RunRequest(run_key=key)] if changed else None,
            skip_reason=None if changed else f"no new file among {count}",
            cursor=cursor(FILES, last=key, **now),
            asset_events=[observation(project, source, version)] if version is not None else [],
        )

    return look


def _listed_source(project: RivetProject, name: str) -> SourceJoint:
    joint = find_source(project, name)
    spec = next(spec for spec in project.assembly.catalogs if spec.name == joint.catalog)
    why = traits_of(catalog_class(spec.type)).refuses_listing(spec.options, joint.table)
    if why is not None:
        raise RivetError("RVT-104", not_listed(name, why), remediation=BY_VERSION)
    return joint


def _look(
    runtime: Runtime, joint: SourceJoint, before: Mapping[str, Any] | None
) -> tuple[int, dict[str, str], str | None]:
    """Return how many files there are, a cursor's content, and the source's data version if it is not as ``before``.

    The cursor has the version of the listing and, if they are not too many, the digests of the files.
    """
    files = source_files(runtime, joint)
    now = {"version": version_of(files)}
    if before is not None and before["version"] == now["version"]:
        return len(files), now, None
    digests = {"files": "".join(map(_digest, files))} if len(files) <= REMEMBERED else {}
    return len(files), now | digests, version_of_files(runtime, joint, files) if files else None


def _has_new(now: str | None, before: str | None) -> bool:
    """Return whether there is any digest that was not there before; None stands for too many files to list."""
    return now is None or before is None or not _divided(now) <= _divided(before)


def _divided(digests: str) -> set[str]:
    return {digests[start : start + _DIGEST_LENGTH] for start in range(0, len(digests), _DIGEST_LENGTH)}


def _digest(file: LandedFile) -> str:
    digest = hashlib.sha256(f"{file.path}\0{file.size}\0{file.mtime_ns}".encode()).digest()
    return base64.b64encode(digest[: _DIGEST_LENGTH * 6 // 8]).decode()


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
        before = read_cursor(context, SOURCE_CHANGED) or {}
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
            cursor=cursor(SOURCE_CHANGED, last=key, versions={**known, **changes}),
            asset_events=[observation(project, source, version) for source, version in changes.items()],
        )

    return look
