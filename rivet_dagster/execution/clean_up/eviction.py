"""Evicting tables with ``retention: run`` as soon as their last reader has succeeded."""

from __future__ import annotations

from collections.abc import Callable

from rivet_dagster.execution.runtime import Runtime


def evict(runtime: Runtime, group_name: str, is_newer: Callable[[str, str], bool]) -> tuple[str, ...]:
    """Evict the stored joints that no group needs any more now that this one has succeeded, and return their names.

    ``is_newer(reader, joint)`` says whether the joint ``reader`` was last materialized after ``joint``. A joint that
    the plan evicts after several groups stays until each of them has read it.
    """
    assembly = runtime.assembly
    evicted = []
    for stored in assembly.materializations:
        target = assembly.target(stored.joint)
        if target is None or target.retention != "run" or group_name not in stored.evict_after:
            continue
        if all(is_newer(assembly.group(reader).exit, stored.joint) for reader in stored.evict_after):
            catalog = runtime.target_catalog(target.catalog)
            published = catalog.current(target.table)
            if published is not None and published.environment == runtime.environment:
                catalog.evict(published)
                evicted.append(stored.joint)
    return tuple(evicted)
