"""The sources that sensors monitor, their observations, and the targets and jobs that sensors request."""

from __future__ import annotations

import dagster as dg

from rivet_dagster.compiler.joints import SourceJoint
from rivet_dagster.compiler.sensors import wrong_source
from rivet_dagster.definitions.jobs.target import Target, find_target
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.environment import environment_tags
from rivet_dagster.errors import RivetError

DATA_VERSION = "dagster/data_version"
"""Dagster's tag for the data version of an event."""


def find_source(project: RivetProject, name: str) -> SourceJoint:
    """Return the source of that name. Raises RVT-117."""
    why = wrong_source(name, {joint.name: joint for joint in project.assembly.joints})
    if why is not None:
        raise RivetError("RVT-117", why)
    return project.assembly.source(name)


def find_whole_target(project: RivetProject, text: str) -> Target:
    """Return the target of a selection, which must not have partitions. Raises RVT-115, RVT-116, RVT-119."""
    target = find_target(project, text)
    if target.partitions is not None:
        message = f"{text!r} has partitions ({target.partitions}), and a change of a source does not tell which to make"
        raise RivetError("RVT-119", message)
    return target


def observation(project: RivetProject, source: str, version: str) -> dg.AssetObservation:
    """Return the observation of a source's data version, the same as that of the step that observes the source."""
    return dg.AssetObservation(project.key(source), tags={DATA_VERSION: version})


def target_job(project: RivetProject, name: str, target: Target) -> dg.UnresolvedAssetJobDefinition:
    """Return the job that a sensor requests, which has the sensor's name."""
    return dg.define_asset_job(
        name, target.selection(project), tags=environment_tags(project), description=f"What the sensor {name} makes."
    )
