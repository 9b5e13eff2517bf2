"""Knowledge about the keys of a stored batch, by rows that this process reads: no query of the engine is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.rows_without_spark import local_files
from rivet_dagster.catalogs.rewriting.current_keys import keys_in_files
from rivet_dagster.catalogs.rewriting.incoming import MOST_BATCH_ROWS, BatchKeys
from rivet_dagster.model.relations import Files, Relation
from rivet_dagster.model.storage import Base, StoredRows
from rivet_dagster.model.write_plan import History

if TYPE_CHECKING:
    from pyiceberg.table import Table

_SAME_BYTES = ("boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "decimal")
"""Types whose values are equal to an engine exactly if they are to Arrow; zeros and NaN are not."""


def are_distinct(table: Table, batch: StoredRows, keys: Sequence[str]) -> bool:
    """Return whether no two rows of a ``batch``, stored in ``table``, are equal in all ``keys``; NULL equals NULL.

    False also where that is not looked into: for many rows, or keys of other types.
    """
    snapshot = getattr(batch.relation, "snapshot", None)
    if snapshot is None:  # no rows
        return True
    known = {field.name.lower(): field for field in table.schema().fields if "." not in field.name}
    fields = [known.get(key.lower()) for key in keys]
    is_small = batch.statistics.rows <= MOST_BATCH_ROWS
    if not is_small or not all(field and str(field.field_type).startswith(_SAME_BYTES) for field in fields):
        return False
    names = list(dict.fromkeys(field.name for field in fields if field is not None))
    arrow = table.scan(snapshot_id=snapshot, selected_fields=tuple(names)).to_arrow()
    return bool(arrow.group_by(names).aggregate([]).num_rows == arrow.num_rows)


def have_distinct_times(plan: History, table: Table, batch: StoredRows) -> bool:
    """Return whether no two rows of a history's batch, stored in ``table``, have the same key and effective time."""
    at = [] if plan.effective_at is None else [plan.effective_at]
    kinds = {name.lower(): kind for name, kind in batch.statistics.columns}
    # Two local times may be one TIMESTAMP.
    is_exact = all(kinds.get(name.lower()) in ("date", "timestamp") for name in at)
    return is_exact and are_distinct(table, batch, (*plan.keys, *at))


def keys_in_local_files(
    plan: History, table: Table, base: Base, null: str | None, given: Table, batch: StoredRows, started: datetime
) -> BatchKeys:
    """Return what the files of a history, of ``table``, show about the keys of a batch, which is stored in ``given``.

    With ``null``, the column with the ends of versions, files are left out that have closed versions alone. ANY where
    files are not local ones.
    """
    known, rows = _local_files(table, base.relation, null), _local_files(given, batch.relation)
    if known is None or rows is None:
        return BatchKeys.ANY
    return keys_in_files(plan, replace(base, relation=known), null is None, replace(batch, relation=rows), started)


def _local_files(table: Table, relation: Relation, null: str | None = None) -> Files | None:
    """Return data files of a snapshot, see ``local_files``; None where Arrow cannot read them as they are."""
    try:
        paths = local_files(table, getattr(relation, "snapshot", None), null)
    except (NotImplementedError, ValueError):  # deletions that PyIceberg does not know
        return None
    return None if paths is None else Files("parquet", paths)
