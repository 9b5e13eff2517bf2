"""The data version of a stored joint: it changes when what readers see of it does."""

from __future__ import annotations

import dagster as dg

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import Window

_TAG = "dagster/data_version"


def data_version(
    instance: dg.DagsterInstance,
    runtime: Runtime,
    joint: CompiledJoint,
    key: dg.AssetKey,
    result: GroupResult,
    window: Window | None,
) -> dg.DataVersion | None:
    """The published version; where an empty batch was skipped the one that was told before.

    None where there is none, which leaves Dagster its own.
    """
    if result.published is not None:
        return dg.DataVersion(result.published.version)
    if window is not None and (told := _told(instance, key, window)) is not None:
        return dg.DataVersion(told)
    target = runtime.assembly.target(joint.name)
    current = runtime.catalog(target.catalog).current(target.table) if target is not None else None
    return dg.DataVersion(current.version) if current is not None else None


def _told(instance: dg.DagsterInstance, key: dg.AssetKey, window: Window) -> str | None:
    """What the event log has of the partitions last; None where they differ, since one step tells one for all."""
    versions = set()
    for partition in window.keys:
        filter = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
        records = instance.fetch_materializations(filter, limit=1).records
        made = records[0].asset_materialization if records else None
        versions.add((made.tags or {}).get(_TAG) if made is not None else None)
    return versions.pop() if len(versions) == 1 else None
