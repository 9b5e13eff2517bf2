"""Configuration of a dbt node for which a joint has no use, and why."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from rivet_dagster.dbt.declared import Config

OF_ALL = frozenset(
    "materialized incremental_strategy unique_key partition_by on_schema_change full_refresh tags enabled alias group "
    "description grants pre-hook post-hook access docs name".split()
)
OF_SNAPSHOTS = frozenset(
    "strategy updated_at check_cols invalidate_hard_deletes hard_deletes snapshot_meta_column_names "
    "dbt_valid_to_current target_schema target_database".split()
)
OF_SEEDS = frozenset("column_types delimiter quote_columns".split())
WHY = {
    "file_format": "is the catalog's affair",
    "location_root": "is the catalog's affair",
    "tblproperties": "are the catalog's affair (`properties` in `options` of a joint on Iceberg)",
    "clustered_by": "is the catalog's affair",
    "buckets": "are the catalog's affair",
    "schema": "is not used: the catalog has one folder of tables",
    "database": "is not used",
    "meta": "has no counterpart",
    "persist_docs": "is not needed: descriptions are those of Dagster's assets",
    "contract": "has no counterpart: a check of the type `schema` is one",
    "sql_header": "has no counterpart",
}
WITH_MEANING = ("sql_header",)


def unused(config: Config, used: Set[str]) -> list[str]:
    """Return what is told of the keys of a configuration that are not ``used``."""
    notes = []
    for key, value in config.values.items():
        is_off = value in (None, False, "", [], {}) or (key == "contract" and not _enforced(value))
        if key not in used and not is_off:
            notes.append(f"{key} {WHY.get(key, 'has no counterpart')}")
    return notes


def _enforced(value: Any) -> bool:
    return isinstance(value, Mapping) and bool(value.get("enforced"))
