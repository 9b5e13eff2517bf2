"""Facts from Dagster's event log: the data version of a stored joint, and what a run has staged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.runs.identity import continued_run
from rivet_dagster.execution.results import GroupResult, StagedResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.target import Target

_NEWEST = 10
"""How many materializations of an asset are looked through for one of the run."""

TAG = "dagster/data_version"
"""The tag of a materialization that holds its data version."""


def data_version(
    instance: dg.DagsterInstance,
    runtime: Runtime,
    target: Target,
    key: dg.AssetKey,
    result: GroupResult,
    window: Window | None,
) -> dg.DataVersion | None:
    """Return the published version; if an empty batch was skipped, the data version of the last materialization.

    None if ``target`` has no version; then Dagster makes a data version of its own.
    """
    if result.published is not None:
        return dg.DataVersion(result.published.version)
    if window is not None and (last := _last(instance, key, window)) is not None:
        return dg.DataVersion(last)
    current = runtime.target_catalog(target.catalog).current(target.table)
    return dg.DataVersion(current.version) if current is not None else None


def _last(instance: dg.DagsterInstance, key: dg.AssetKey, window: Window) -> str | None:
    """Return the last data version of the partitions; None if they differ, since a step has one for all of them."""
    versions = set()
    for partition in window.keys:
        filter = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
        records = instance.fetch_materializations(filter, limit=1).records
        made = records[0].asset_materialization if records else None
        versions.add((made.tags or {}).get(TAG) if made is not None else None)
    return versions.pop() if len(versions) == 1 else None


def read_since(instance: dg.DagsterInstance, project: RivetProject) -> Callable[[str, str], bool]:
    """Return a function that says whether its first joint was last materialized after its second.

    If both have partitions, that must be so for each partition of the second. If the first joint has other partitions
    than the second, it returns False.
    """

    def last(name: str) -> float:
        event = instance.get_latest_materialization_event(project.key(name))
        return event.timestamp if event is not None else 0.0

    def by_partition(name: str) -> Mapping[str, int]:
        return instance.get_latest_storage_id_by_partition(project.key(name), dg.DagsterEventType.ASSET_MATERIALIZATION)

    def is_newer(reader: str, joint: str) -> bool:
        reading, read = (project.assembly.joint(name).partitions for name in (reader, joint))
        if reading is None:
            return last(reader) > last(joint)
        if read is None or read.keys != reading.keys:
            return False
        ours = by_partition(reader)
        return all(ours.get(partition, 0) > made for partition, made in by_partition(joint).items())

    return is_newer


STAGED = "rivet/staged"
"""The metadata of a materialization whose rows the last step of the run publishes."""


def staged_metadata(joint: str, result: GroupResult) -> dict[str, Any]:
    """Return the metadata from which ``staged_in_run`` reads; none unless the rows of the result are staged."""
    staged = staged_table(joint, result)
    return {STAGED: dg.MetadataValue.json(asdict(staged))} if staged is not None else {}


def staged_table(joint: str, result: GroupResult) -> StagedResult | None:
    """Return the table of a group's exit that its run has staged; None if it has not."""
    published = result.published
    if published is None or not result.staged:
        return None
    return StagedResult(joint, published.catalog, published.table, published.version, published.identity)


def staged_in_run(
    run: dg.DagsterRun, instance: dg.DagsterInstance, joints: Mapping[dg.AssetKey, str]
) -> dict[str, StagedResult]:
    """Return what a run has staged, by joint; ``joints`` are the names of joints by asset key.

    A run that continues another one, as a re-execution from failure does, has also staged what that one has, except for
    what it has materialized itself.
    """
    staged: dict[str, StagedResult | None] = {}
    for run_id in reversed(_continued(run, instance)):
        for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION):
            event = entry.dagster_event
            name = joints.get(event.asset_key) if event is not None and event.asset_key is not None else None
            if event is not None and name is not None:
                staged[name] = staged_of(event.step_materialization_data.materialization)
    return {name: table for name, table in staged.items() if table is not None}


def staged_by_run(
    run: dg.DagsterRun, instance: dg.DagsterInstance, key: dg.AssetKey, joints: Mapping[dg.AssetKey, str]
) -> StagedResult | None:
    """Return what ``staged_in_run`` does of the joint of one asset, without reading what the run has made of others."""
    runs = _continued(run, instance)
    newest = instance.fetch_materializations(key, limit=_NEWEST).records
    for record in newest:
        if record.run_id in runs and record.asset_materialization is not None:
            return staged_of(record.asset_materialization)
    # Other runs may have materialized many partitions since.
    return staged_in_run(run, instance, joints).get(joints[key]) if len(newest) == _NEWEST else None


def _continued(run: dg.DagsterRun, instance: dg.DagsterInstance) -> list[str]:
    """Return the ids of a run, of the one that it continues, and so on."""
    runs = [run]
    while (parent := continued_run(runs[-1], instance)) is not None:
        runs.append(parent)
    return [each.run_id for each in runs]


def staged_of(materialization: dg.AssetMaterialization) -> StagedResult | None:
    """Return the table that was staged with a materialization; None if its rows were published at once."""
    metadata = materialization.metadata.get(STAGED)
    facts: Any = metadata.value if metadata is not None else None
    return StagedResult(**facts) if facts is not None else None
