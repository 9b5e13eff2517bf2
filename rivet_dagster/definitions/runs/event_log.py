"""What Dagster's event log tells about a stored joint: its data version, and whether it has been read since."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import dagster as dg

from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.target import Target

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
