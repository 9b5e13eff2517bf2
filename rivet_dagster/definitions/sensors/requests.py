"""The sources that sensors monitor, their cursors, and the targets, jobs and run keys that sensors request.

The errors in the arguments of a sensor are raised as one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import dagster as dg

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.sensors import wrong_source
from rivet_dagster.definitions.jobs import JobTarget, find_target
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.identity import environment_tags
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.text_lines import Origin

DATA_VERSION = "dagster/data_version"
"""Dagster's tag for the data version of an event."""


def find_source(project: RivetProject, name: str) -> SourceJoint:
    """Return the source of that name. Raises RVT-117."""
    why = wrong_source(name, {joint.name: joint for joint in project.assembly.joints})
    if why is not None:
        raise RivetError("RVT-117", why)
    return project.assembly.source(name)


def find_whole_target(project: RivetProject, text: str) -> JobTarget:
    """Return the target of a selection, which must not have partitions. Raises RVT-115, RVT-116, RVT-119."""
    target = find_target(project, text)
    if target.partitions is not None:
        message = f"{text!r} has partitions ({target.partitions}), and a change of a source does not tell which to make"
        raise RivetError("RVT-119", message)
    return target


def observation(project: RivetProject, source: str, version: str) -> dg.AssetObservation:
    """Return the observation of a source's data version, the same as that of the step that observes the source."""
    return dg.AssetObservation(project.key(source), tags={DATA_VERSION: version})


def target_job(project: RivetProject, name: str, target: JobTarget) -> dg.UnresolvedAssetJobDefinition:
    """Return the job that a sensor requests, which has the sensor's name."""
    return dg.define_asset_job(
        name, target.selection(project), tags=environment_tags(project), description=f"What the sensor {name} makes."
    )


def read_cursor(context: dg.SensorEvaluationContext, kind: str) -> Mapping[str, Any] | None:
    """Return the content of the cursor; None at the first tick, or if a sensor of another kind had the name before."""
    try:
        parts = json.loads(context.cursor or "null")
        if isinstance(parts, dict) and _PACKED in parts:
            parts = json.loads(zlib.decompress(base64.b64decode(parts[_PACKED])))
    except (ValueError, TypeError, zlib.error):
        return None
    return parts if isinstance(parts, dict) and parts.get("kind") == kind else None


PLAIN = 10_000
"""The most characters of a cursor that is stored as it is: Dagster stores that of each tick, and keeps it for days."""

_PACKED = "packed"


def cursor(kind: str, **parts: Any) -> str:
    """Return the cursor that holds ``parts``; a long one is compressed, if that makes it shorter.

    >>> cursor("files", last="", version="5e88")
    '{"kind":"files","last":"","version":"5e88"}'
    >>> len(cursor("files", days=[f"2024-{number}" for number in range(10_000)])) < 40_000
    True
    """
    text = json.dumps({"kind": kind, **parts}, separators=(",", ":"))
    if len(text) <= PLAIN:
        return text
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return min(text, json.dumps({"kind": kind, _PACKED: packed}, separators=(",", ":")), key=len)


def run_key(context: dg.SensorEvaluationContext, cause: Any) -> str:
    """Return the run key of the request that ``cause`` leads to.

    Until the cursor has been saved, the same cause gives the same key, so that Dagster starts one run for two such
    requests. Afterwards it gives another key, even if the same cause occurs again, since the key also depends on the
    cursor, which contains the last key or never repeats. If a person resets the cursor, the last run key stands in.
    """
    before = context.cursor or context.last_run_key or ""
    return hashlib.sha256(json.dumps([before, cause], sort_keys=True).encode()).hexdigest()[:32]


class Mistakes:
    """The errors of the sensor ``name``, which is declared at ``origin``, or in Python."""

    def __init__(self, name: str, origin: Origin | None) -> None:
        self._name = name
        self._origin = origin or Origin()
        self._diagnostics: list[Diagnostic] = []

    @contextmanager
    def of(self, key: str) -> Iterator[None]:
        """Collect a RivetError of the block, which then ends, as an error of the argument ``key``."""
        try:
            yield
        except RivetError as error:
            for problem in error.diagnostics:
                message = f"sensor '{self._name}': `{key}`: {problem.message}"
                diagnostic = self._origin.diagnostic(problem.code, message, key=key, remediation=problem.remediation)
                self._diagnostics.append(diagnostic)

    def raise_all(self) -> None:
        """Raise one RivetError with all diagnostics, if there are any."""
        if self._diagnostics:
            raise RivetError.of(self._diagnostics)
