"""A table of the base as an environment sees it: the environment's branch is ``main`` there.

All that reads and commits tables finds in an environment what it finds in the base. What belongs to a table and not to
a branch of it, the current columns, the layout and the properties, is recorded in properties of the table itself, which
no reader of the base looks at::

    rivet.environment.pr-7             snapshot and version of the base, ids of columns, partitions and sort order
    rivet.environment.pr-7.set.NAME    the value of the property NAME, as JSON; null if it is removed there
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, SnapshotLogEntry

from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import facts_of, version_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ENVIRONMENT
from rivet_dagster.catalogs.iceberg.names import environment_branch, is_of_environment
from rivet_dagster.catalogs.iceberg.writes.staged_branch import withheld_mark

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table.metadata import TableMetadata

MAIN = "main"


@dataclass(frozen=True)
class Built:
    """The record of a table that was built in an environment.

    ``snapshot`` is that of the base that it builds upon, and ``version`` the version, None of a table without rows;
    ``schema``, ``spec`` and ``order`` are the ids of its columns, its partitions and its sort order, and ``changed``
    says which of these the environment has changed. ``begun`` are the ids of the base's columns and partitions then.
    """

    snapshot: int | None
    version: int | None
    schema: int
    spec: int
    order: int
    changed: tuple[str, ...] = ()
    begun: tuple[int, ...] = ()

    def is_overtaken(self, base: TableMetadata) -> bool:
        """Return whether somebody has changed columns or partitions of the base that the environment changes, too."""
        changes = {"schema", "spec"} & {*self.changed}
        return bool(changes and self.begun) and self.begun != _definition(base)


class SeenTable(Table):
    """The table ``real`` as the environment ``name`` sees it, in a catalog that translates its commits."""

    def __init__(self, real: Table, name: str, catalog: Catalog) -> None:
        super().__init__(real.name(), seen(real, name), real.metadata_location, real.io, catalog)
        self.real = real

    @property
    def is_laid_out_apart(self) -> bool:
        """Whether its columns or its layout are not those of the base, so that statements cannot write to it."""
        mine, others = self.metadata, self.real.metadata
        return (mine.current_schema_id, mine.default_spec_id, mine.default_sort_order_id) != (
            others.current_schema_id,
            others.default_spec_id,
            others.default_sort_order_id,
        )


def record_of(name: str) -> str:
    """Return the property of a table that says what was built in the environment ``name``."""
    return f"{ENVIRONMENT}.{name}"


def property_of(name: str, key: str) -> str:
    """Return the property of a table that holds the environment's value of the property ``key``."""
    return f"{ENVIRONMENT}.{name}.set.{key}"


def built(real: Table, name: str) -> Built | None:
    """Return what was built in an environment on a branch of a table; None without one."""
    if environment_branch(name) not in real.metadata.refs:
        return None
    known = json.loads(real.metadata.properties[record_of(name)])
    return Built(**{**known, "changed": tuple(known["changed"]), "begun": tuple(known.get("begun", ()))})


def as_property(name: str, built: Built) -> dict[str, str]:
    """Return the property that records what was built."""
    return {record_of(name): json.dumps(asdict(built))}


def own_properties(real: Table, name: str) -> dict[str, str | None]:
    """Return the properties that the environment has other values of; None for those that are removed there."""
    prefix = property_of(name, "")
    properties = real.metadata.properties.items()
    return {key.removeprefix(prefix): json.loads(value) for key, value in properties if key.startswith(prefix)}


def recorded_properties(real: Table, name: str) -> list[str]:
    """Return the names of all properties of a table that are the environment's."""
    prefix = property_of(name, "")
    return [key for key in real.metadata.properties if key == record_of(name) or key.startswith(prefix)]


def seen(real: Table, name: str) -> TableMetadata:
    """Return the metadata of a table as an environment sees it."""
    metadata = real.metadata
    inner = own_properties(real, name)
    hidden = (f"{ENVIRONMENT}.", withheld_mark(""))
    properties = {key: value for key, value in metadata.properties.items() if not key.startswith(hidden)}
    remaining = {key: value for key, value in {**properties, **inner}.items() if value is not None}
    refs = {key: ref for key, ref in metadata.refs.items() if not is_of_environment(key)}
    changes: dict[str, Any] = {"properties": remaining, "refs": refs}
    record = built(real, name)
    if record is not None:
        head = metadata.refs[environment_branch(name)].snapshot_id
        refs[MAIN] = SnapshotRef.model_validate({"snapshot-id": head, "type": SnapshotRefType.BRANCH})
        changes |= {
            "current_snapshot_id": head,
            "current_schema_id": record.schema,
            "default_spec_id": record.spec,
            "default_sort_order_id": record.order,
            "snapshot_log": list(_log(real, head, record.snapshot)),
        }
    return metadata.model_copy(update=changes)


def snapshots_there(real: Table, head: int, base: int | None) -> Iterator[Snapshot]:
    """Yield the snapshots from the head of an environment's branch back to that of the base, which is left out."""
    current: int | None = head
    while current is not None and current != base:
        snapshot = real.snapshot_by_id(current)
        if snapshot is None:
            return  # it has expired
        yield snapshot
        current = snapshot.parent_snapshot_id


def first_record(real: Table) -> Built:
    """Return what is recorded of a table before it is changed in an environment."""
    metadata, current = real.metadata, real.current_snapshot()
    return Built(
        metadata.current_snapshot_id,
        None if current is None else version_of(real, current),
        metadata.current_schema_id,
        metadata.default_spec_id,
        metadata.default_sort_order_id,
        begun=_definition(metadata),
    )


def with_ids(record: Built, ids: Mapping[str, int]) -> Built:
    """Return what is recorded after columns or layout have changed."""
    changed = tuple(sorted({*record.changed, *ids}))
    known = {"schema": record.schema, "spec": record.spec, "order": record.order, **ids}
    return replace(record, changed=changed, schema=known["schema"], spec=known["spec"], order=known["order"])


def _definition(metadata: TableMetadata) -> tuple[int, int]:
    return metadata.current_schema_id, metadata.default_spec_id


def _log(real: Table, head: int, base: int | None) -> Iterator[SnapshotLogEntry]:
    """Yield the snapshots that have been current in the environment, that of the base first."""
    published = [snapshot for snapshot in snapshots_there(real, head, base) if ENVIRONMENT in facts_of(snapshot)]
    first = real.snapshot_by_id(base) if base is not None else None
    for snapshot in ([first] if first is not None else []) + published[::-1]:
        yield SnapshotLogEntry.model_validate(
            {"snapshot-id": snapshot.snapshot_id, "timestamp-ms": snapshot.timestamp_ms}
        )
