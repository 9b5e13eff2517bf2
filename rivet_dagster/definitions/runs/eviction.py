"""Whether a stored joint has been read since it was materialized, according to Dagster's event log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import dagster as dg

from rivet_dagster.definitions.project import RivetProject


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
