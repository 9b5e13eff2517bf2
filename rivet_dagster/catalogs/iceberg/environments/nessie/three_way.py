"""The three-way merge of a table's metadata: what only one side has changed is taken, what both have is a conflict."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.commits.updates import MAIN
from rivet_dagster.catalogs.iceberg.metadata.last_publication import CONTINUES, LAST
from rivet_dagster.catalogs.iceberg.metadata.summary import OVERRIDE

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

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


def merged(fork: TableMetadata, base: TableMetadata, ours: TableMetadata) -> TableMetadata:
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
    found: dict[str, Any] = {}
    for key in sorted({*fork, *base, *ours}):
        values = [side.get(key) for side in (fork, base, ours)]
        side = 1 if key in is_ours else _changed_side(*values)
        if side is None:
            changed.append(f"{what} {key}")
        elif values[1 + side] is not None:
            found[key] = values[1 + side]
    return found


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
    found = {each.snapshot_id: each for each in (*ours, *base)}
    return [each for snapshot, each in found.items() if snapshot in snapshots]
