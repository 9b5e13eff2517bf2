"""The operations of the commit that merges tables of an environment, and the metadata files that they name."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.serializers import FromInputFile
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata

from rivet_dagster.catalogs.environments.state import merge_conflict
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN
from rivet_dagster.catalogs.iceberg.environments.nessie.branch import EnvironmentBranch
from rivet_dagster.catalogs.iceberg.metadata.last_publication import CONTINUES, LAST
from rivet_dagster.catalogs.iceberg.metadata.summary import OVERRIDE
from rivet_dagster.catalogs.iceberg.nessie.nessie_catalog import NessieCatalog, namespace_content, table_content
from rivet_dagster.catalogs.iceberg.nessie.server import Content, Key, Reference, put

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


@dataclass
class TableMerge:
    """The merge of tables of an environment into the branch of ``catalog`` as it is at ``base``."""

    catalog: NessieCatalog
    environment: EnvironmentBranch
    base: Reference
    _written: list[str] = field(default_factory=list)

    def operations(self, keys: list[Key]) -> list[dict[str, Any]]:
        """Return the operations for those ``keys`` that the environment has, and for namespaces that they need.

        Raises RVT-405 for tables of which both sides have changed the same.
        """
        there, of_base = self.environment.contents(keys), self._of_base(keys)
        operations, conflicts = [], {}
        for key in (key for key in keys if key in there):
            try:
                content = self._merged(key, of_base.get(key), there[key])
            except ConflictError as error:
                conflicts[".".join(key)] = error.changed
                continue
            if content is not None:
                operations.append(put(key, content))
        if conflicts:
            self.discard()
            raise merge_conflict(self.environment.name, conflicts)
        above = list(dict.fromkeys(key[:length] for key in there for length in range(1, len(key))))
        known = self._of_base(above)
        return [*(put(key, namespace_content(key, {})) for key in above if key not in known), *operations]

    def discard(self) -> None:
        """Remove the metadata files that were written, after a commit that was refused."""
        for path in self._written:
            with suppress(OSError):
                self.catalog._load_file_io(location=path).delete(path)
        self._written.clear()

    def _of_base(self, keys: list[Key]) -> Mapping[Key, Content]:
        return self.environment.server.contents(f"{self.base.name}@{self.base.hash}", keys)[1]

    def _merged(self, key: Key, base: Content | None, ours: Content) -> Content | None:
        """Return the new content of a table of the base; None if the environment has changed nothing."""
        if base is None:
            return {name: value for name, value in ours.items() if name != "id"}
        seed = self.environment.seed(key)
        fork = (seed.metadata if seed is not None else "") or base["metadataLocation"]
        if ours["metadataLocation"] == fork:
            return None
        if base["metadataLocation"] == fork and base["id"] == ours["id"]:
            return ours
        of_base, of_ours = self._metadata(base["metadataLocation"]), self._metadata(ours["metadataLocation"])
        if of_base.table_uuid != of_ours.table_uuid:
            raise ConflictError(["the table itself, which was made anew"])
        made = merge_metadata(self._metadata(fork), of_base, of_ours)
        number = self.catalog._parse_metadata_version(base["metadataLocation"]) + 1
        location = load_location_provider(made.location, made.properties).new_table_metadata_file_location(number)
        self.catalog._write_metadata(made, self.catalog._load_file_io(made.properties, location), location)
        self._written.append(location)
        return {"id": base["id"], **table_content(made, location)}

    def _metadata(self, location: str) -> TableMetadata:
        return FromInputFile.table_metadata(self.catalog._load_file_io(location=location).new_input(location))


_COLUMNS = ("schemas", "current_schema_id", "last_column_id")
_PARTITIONS = ("partition_specs", "default_spec_id", "last_partition_id")
_ORDER = ("sort_orders", "default_sort_order_id")
_OF_OURS = {OVERRIDE, LAST, CONTINUES}
"""Properties that are facts about the current rows, which are ours."""


class ConflictError(Exception):
    """Both sides have changed the same, each in another way: ``changed`` names it."""

    def __init__(self, changed: list[str]) -> None:
        super().__init__(", ".join(changed))
        self.changed = changed


def merge_metadata(fork: TableMetadata, base: TableMetadata, ours: TableMetadata) -> TableMetadata:
    """Return ``base`` with the current rows of ``ours`` and what only ``ours`` has changed since both were ``fork``.

    Snapshots of both sides stay, so that no branch or tag loses its rows. Raises ConflictError.
    """
    changed: list[str] = []
    values: dict[str, Any] = {}
    for name, fields, shape in (
        ("the columns", _COLUMNS, _columns),
        ("the partitions", _PARTITIONS, _partitions),
        ("the sort order", _ORDER, _order),
    ):
        side = _changed_side(shape(fork), shape(base), shape(ours))
        if side is None:
            changed.append(name)
        else:
            of = (base, ours)[side]
            values |= {field: getattr(of, field) for field in fields}
    if fork.format_version not in (base.format_version, ours.format_version):
        changed.append("the format version")
    properties = _by_key("the property", fork.properties, base.properties, ours.properties, changed, _OF_OURS)
    refs = _by_key("the branch or tag", fork.refs, base.refs, ours.refs, changed, {MAIN})
    snapshots = {each.snapshot_id: each for each in (*base.snapshots, *ours.snapshots)}
    there = ({each.snapshot_id for each in side.snapshots} for side in (fork, base, ours))
    known, of_base, of_ours = there
    for expired in (known - of_base) | (known - of_ours):
        snapshots.pop(expired, None)
    changed += [f"the snapshots of {name}" for name, ref in refs.items() if ref.snapshot_id not in snapshots]
    if changed:
        raise ConflictError(changed)
    now = max(int(time.time() * 1000), base.last_updated_ms, ours.last_updated_ms)
    current = ours.current_snapshot_id
    both = {(entry.timestamp_ms, entry.snapshot_id): entry for entry in (*base.snapshot_log, *ours.snapshot_log)}
    log = [entry for _, entry in sorted(both.items()) if entry.snapshot_id in snapshots]
    if current is not None and log[-1].snapshot_id != current:
        log.append(log[-1].model_copy(update={"snapshot_id": current, "timestamp_ms": now}))
    made = base.model_copy(
        update={
            **values,
            "properties": properties,
            "refs": refs,
            "snapshots": sorted(snapshots.values(), key=lambda each: each.sequence_number or 0),
            "current_snapshot_id": current,
            "snapshot_log": log,
            "last_updated_ms": now,
            "last_sequence_number": max(side.next_sequence_number() for side in (base, ours)) - 1,
            "statistics": _statistics(base.statistics, ours.statistics, snapshots),
            "partition_statistics": _statistics(base.partition_statistics, ours.partition_statistics, snapshots),
        }
    )
    missing = _missing_columns(made)
    if missing:
        raise ConflictError([f"the columns, of which {', '.join(missing)} need those that are gone"])
    return made


def _changed_side(fork: Any, base: Any, ours: Any) -> int | None:
    """Return whose value stands, 0 for the base's and 1 for ours; None if both have changed it to different ones."""
    if ours in (fork, base):
        return 0
    return 1 if base == fork else None


def _by_key(
    what: str,
    fork: Mapping[str, Any],
    base: Mapping[str, Any],
    ours: Mapping[str, Any],
    changed: list[str],
    is_ours: set[str],
) -> dict[str, Any]:
    """Return the values of a mapping, key by key; add those that conflict to ``changed``."""
    by_key: dict[str, Any] = {}
    for key in sorted({*fork, *base, *ours}):
        values = [side.get(key) for side in (fork, base, ours)]
        side = 1 if key in is_ours else _changed_side(*values)
        if side is None:
            changed.append(f"{what} {key}")
        elif values[1 + side] is not None:
            by_key[key] = values[1 + side]
    return by_key


def _columns(of: TableMetadata) -> Any:
    return of.schema().fields, of.schema().identifier_field_ids, of.last_column_id


def _partitions(of: TableMetadata) -> Any:
    return of.spec().fields, of.spec().spec_id, of.last_partition_id


def _order(of: TableMetadata) -> Any:
    order = of.sort_order_by_id(of.default_sort_order_id)
    return of.default_sort_order_id, order.fields if order is not None else ()


def _missing_columns(of: TableMetadata) -> list[str]:
    """Return which of partitions and sort order need columns that are gone: one side dropped what the other uses."""
    known, order = of.schema().field_ids, of.sort_order_by_id(of.default_sort_order_id)
    needed = {
        "the partitions": {field.source_id for field in of.spec().fields},
        "the sort order": {field.source_id for field in order.fields} if order is not None else set(),
    }
    return [name for name, columns in needed.items() if columns - known]


def _statistics(base: list[Any], ours: list[Any], snapshots: Mapping[int, Any]) -> list[Any]:
    by_snapshot = {each.snapshot_id: each for each in (*ours, *base)}
    return [each for snapshot, each in by_snapshot.items() if snapshot in snapshots]
