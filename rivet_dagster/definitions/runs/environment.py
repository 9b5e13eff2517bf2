"""The environment of a run: its tag, its metadata, and what a step does before it works in one."""

from __future__ import annotations

from typing import Any

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.environments import refuse_without_environments, use_environment
from rivet_dagster.execution.runtime import Runtime

ENVIRONMENT = "rivet/environment"
"""The tag of a run in an environment, and the key in the metadata of what it materializes; a base's run has neither."""


def environment_tags(project: RivetProject) -> dict[str, str]:
    """Return the tags of the runs of a code location."""
    return {} if project.environment is None else {ENVIRONMENT: project.environment}


def environment_metadata(environment: str | None) -> dict[str, Any]:
    """Return the metadata of a materialization in an environment."""
    return {} if environment is None else {ENVIRONMENT: environment}


def environment_of(materialization: dg.AssetMaterialization) -> str | None:
    """Return the environment in which an asset was materialized; None for the base."""
    found = materialization.metadata.get(ENVIRONMENT)
    return None if found is None else str(found.value)


def mark_run(project: RivetProject, run: dg.DagsterRun, instance: dg.DagsterInstance) -> None:
    """Add the tag to a run that was launched without it, as from the UI or by ``dagster asset materialize``.

    Raises RVT-523 if the run has the tag of another environment, as a re-execution of a run from there has.
    """
    known = run.tags.get(ENVIRONMENT)
    if known == project.environment:
        return
    if known is not None:
        here = "the base" if project.environment is None else f"the environment '{project.environment}'"
        raise RivetError("RVT-523", f"the run belongs to the environment '{known}', and this code location to {here}")
    instance.add_run_tags(run.run_id, environment_tags(project))


def enter_environment(
    project: RivetProject, runtime: Runtime, run: dg.DagsterRun, instance: dg.DagsterInstance
) -> None:
    """Do what comes before a step's work: mark the run, refuse what has no environments, make the environment.

    Raises RVT-413, also for a group that a later step of the run would publish, RVT-415, RVT-416, RVT-523.
    """
    mark_run(project, run, instance)
    if project.environment is None:
        return
    records = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED)
    keys = {record.dagster_event.asset_key for record in records if record.dagster_event}
    joints = [project.joints[key] for key in keys if key is not None and key in project.joints]
    refuse_without_environments(runtime, sorted({project.assembly.joint(name).group for name in joints}))
    use_environment(runtime)
