"""The identity of a run as its steps see it: the names of steps, and the identity under which each publishes.

A run may continue another one, whose undone steps it executes. Its tags say whether it is a full refresh, of which each
step sees the groups, and in which environment it works.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import dagster as dg

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.environments import refuse_without_environments, use_environment
from rivet_dagster.execution.full_refresh import refuse_lossy_refresh
from rivet_dagster.execution.runtime import Runtime


def run_identity(run: dg.DagsterRun, instance: dg.DagsterInstance, step: str) -> str:
    """Return the id of the run that first tried this step of ``run``.

    A retry of a step that did not succeed has the identity of the first attempt, so that what that had already
    published is not published twice. A re-execution of a step that succeeded, or of a whole run, is a new run; so is
    one that is a full refresh where the first attempt was none, or the other way round.
    """
    while (parent := continued_run(run, instance)) is not None and _is_retry(run, parent, step, instance):
        run = parent
    return run.run_id


def _is_retry(run: dg.DagsterRun, parent: dg.DagsterRun, step: str, instance: dg.DagsterInstance) -> bool:
    if is_full_refresh(run, instance) != is_full_refresh(parent, instance):
        return False
    if is_automatic_retry(run):
        return True
    succeeded = instance.all_logs(parent.run_id, of_type=dg.DagsterEventType.STEP_SUCCESS)
    return step not in {entry.dagster_event.step_key for entry in succeeded if entry.dagster_event}


def step_name(assembly: CompiledAssembly, *parts: str) -> str:
    """Return the name of a step, with ``_`` for characters of the key prefix that Dagster does not allow in it.

    >>> from rivet_dagster.model.project import DagsterSettings
    >>> step_name(CompiledAssembly(profile="default", dagster=DagsterSettings(("shop-2", "eu"))), "observe", "raw")
    'shop_2__eu__observe__raw'
    """
    return re.sub(r"[^A-Za-z0-9_]", "_", "__".join([*assembly.dagster.key_prefix, *parts]))


_PARTIAL = "dagster/is_asset_resume_retry"
_AUTOMATIC = "dagster/retry_number"


def is_automatic_retry(run: dg.DagsterRun) -> bool:
    """Return whether Dagster itself has begun the run, since another one had failed."""
    return _AUTOMATIC in run.tags


def continues_parent(run: dg.DagsterRun) -> bool:
    """Return whether a run with a parent executes again only a part of that, or is its automatic retry."""
    return is_automatic_retry(run) or run.step_keys_to_execute is not None or _PARTIAL in run.tags


def continued_run(run: dg.DagsterRun, instance: dg.DagsterInstance) -> dg.DagsterRun | None:
    """Return the run that ``run`` continues; None if it continues none, or if that is not known any more."""
    if run.parent_run_id is None or not continues_parent(run):
        return None
    return instance.get_run_by_id(run.parent_run_id)


FULL_REFRESH = "rivet/full_refresh"
"""The tag of a run that replaces its targets as a first run would, and the key in the metadata of these."""

_VALUES = {"true": True, "false": False}


def full_refresh_tags(asked: bool) -> dict[str, str]:
    """Return the tags of a run, which is a full refresh if ``asked``."""
    return {FULL_REFRESH: "true"} if asked else {}


def full_refresh_metadata(asked: bool) -> dict[str, Any]:
    """Return the metadata of a materialization."""
    return {FULL_REFRESH: True} if asked else {}


def is_full_refresh(run: dg.DagsterRun, instance: dg.DagsterInstance) -> bool:
    """Return whether a run is a full refresh, by its tag, or else by that of the run that it continues.

    Dagster copies the tags of a run that is re-executed in the UI, but not of one that is re-executed from Python.
    Raises RVT-104 if the tag is neither true nor false.
    """
    continued: dg.DagsterRun | None = run
    while continued is not None and FULL_REFRESH not in continued.tags:
        continued = continued_run(continued, instance)
    value = continued.tags[FULL_REFRESH] if continued is not None else "false"
    if value.lower() not in _VALUES:
        raise RivetError("RVT-104", f"the tag `{FULL_REFRESH}` of a run is true or false, not '{value}'")
    return _VALUES[value.lower()]


def enter_full_refresh(
    project: RivetProject, runtime: Runtime, run: dg.DagsterRun, instance: dg.DagsterInstance
) -> bool:
    """Return whether the run is a full refresh; refuse one that could not be carried out, or would lose rows.

    Raises RVT-104, RVT-413, RVT-525.
    """
    if not is_full_refresh(run, instance):
        return False
    if FULL_REFRESH not in run.tags:
        instance.add_run_tags(run.run_id, full_refresh_tags(True))
    names = (project.joints[key] for key in _keys(run, instance) if key is not None and key in project.joints)
    refuse_lossy_refresh(runtime, {project.assembly.joint(name).group for name in names})
    return True


def _keys(run: dg.DagsterRun, instance: dg.DagsterInstance) -> Iterator[dg.AssetKey | None]:
    """Yield the assets that the run is to refresh, and those that it has refreshed before, as the run it continues."""
    kind: dg.DagsterEventType = dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED
    current: dg.DagsterRun | None = run
    while current is not None and is_full_refresh(current, instance):
        records = instance.all_logs(current.run_id, of_type=kind)
        yield from (record.dagster_event.asset_key for record in records if record.dagster_event)
        kind, current = dg.DagsterEventType.ASSET_MATERIALIZATION, continued_run(current, instance)


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
    environment = materialization.metadata.get(ENVIRONMENT)
    return None if environment is None else str(environment.value)


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
