"""The data version of a stored joint, which changes when the rows that readers see change."""

from __future__ import annotations

import dagster as dg

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
