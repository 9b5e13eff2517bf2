"""The groups of a full refresh, by which a step sees whether that would lose rows."""

from __future__ import annotations

from collections.abc import Iterator

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.continued import continued_run
from rivet_dagster.definitions.runs.full_refresh import FULL_REFRESH, full_refresh_tags, is_full_refresh
from rivet_dagster.execution.full_refresh import refuse_lossy_refresh
from rivet_dagster.execution.runtime import Runtime


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
    found: dg.DagsterRun | None = run
    while found is not None and is_full_refresh(found, instance):
        records = instance.all_logs(found.run_id, of_type=kind)
        yield from (record.dagster_event.asset_key for record in records if record.dagster_event)
        kind, found = dg.DagsterEventType.ASSET_MATERIALIZATION, continued_run(found, instance)
