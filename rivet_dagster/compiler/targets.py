"""The target of a stored joint: its table, and its write strategy as a write plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from rivet_dagster.model.joint import Joint
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.target import BY_GROUP, BY_RUN, PUBLISH, Target, WatermarkColumn
from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
    WritePlan,
)
from rivet_dagster.model.write_strategy import WriteStrategy


def target_of(joint: Joint, profile: Profile, plugins: Plugins, options: Mapping[str, Any]) -> Target:
    """Return the target of a stored joint: the table that it declares, or one of the workspace with the joint's name.

    ``options`` are the options of the joint that concern storage. Rows that a run removes itself are not for readers of
    the base, and are published by their group even where the catalog publishes by run.
    """
    strategy = joint.write_strategy
    lookback = strategy.options.get("lookback")
    watermark = strategy.watermark_column
    table = str(joint.table) if joint.publishes else joint.name
    catalog = str(joint.catalog) if joint.publishes else profile.workspace
    declared = profile.catalog(catalog)
    publish = declared.options.get(PUBLISH, BY_GROUP) if declared and joint.retention != "run" else BY_GROUP
    return Target(
        catalog=catalog,
        table=table,
        declared=joint.publishes,
        write=write_plan(strategy),
        options=options,
        partitions=joint.partitions,
        on_empty=strategy.on_empty,
        columns=strategy.columns,
        watermark=None if watermark is None else WatermarkColumn(watermark, lookback),
        retention=joint.retention,
        errors=joint.on_error.error_table(table) if joint.on_error is not None else None,
        publish=publish,
        one_commit=declared is not None
        and publish == BY_RUN
        and plugins.catalogs[declared.type].in_one_commit(declared.options),
    )


def write_plan(strategy: WriteStrategy) -> WritePlan:
    """Return a write strategy as a write plan.

    >>> write_plan(WriteStrategy("merge", options={"key_columns": ("id",), "watermark_column": "at"}))
    Upsert(mode='upsert', keys=('id',), order_by=('at',), schema_change='fail')
    """
    return _PLANS[strategy.mode](strategy)


def modes_of(plans: Collection[type[WritePlan]]) -> frozenset[str]:
    """Return the modes whose write plans are of these types.

    >>> sorted(modes_of({ReplaceAll, Append}))
    ['append', 'replace', 'truncate_insert']
    """
    return frozenset(mode for mode, plan in _TYPES.items() if plan in plans)


_REPLACE_ALL = ReplaceAll()


def _delete_insert(strategy: WriteStrategy) -> DeleteInsert:
    parted = strategy.partition_columns
    change = strategy.on_schema_change
    return DeleteInsert(columns=parted or strategy.key_columns, by_partition=bool(parted), schema_change=change)


def _history(strategy: WriteStrategy) -> History:
    options = strategy.options
    names = dict(strategy.validity)
    return History(
        keys=strategy.key_columns,
        tracked=options.get("track_columns"),
        effective_at=options.get("effective_at"),
        order_by=strategy.order_by,
        close_missing=options.get("close_missing", False),
        valid_from=names["valid_from"],
        valid_to=names["valid_to"],
        is_current=names["is_current"],
        schema_change=strategy.on_schema_change,
    )


_PLANS: dict[str, Callable[[WriteStrategy], WritePlan]] = {
    "append": lambda s: Append(schema_change=s.on_schema_change),
    "replace": lambda _: _REPLACE_ALL,
    "truncate_insert": lambda s: ReplaceAll(keeps_table=True, schema_change=s.on_schema_change),
    "merge": lambda s: Upsert(keys=s.key_columns, order_by=s.order_by, schema_change=s.on_schema_change),
    "delete_insert": _delete_insert,
    "snapshot": lambda s: ReplacePartitions(column=s.options["partition_column"], schema_change=s.on_schema_change),
    "incremental_append": lambda s: AppendNewer(column=s.options["watermark_column"], schema_change=s.on_schema_change),
    "scd2": _history,
}
"""Each mode's plan."""

_TYPES: dict[str, type[WritePlan]] = {
    "append": Append,
    "replace": ReplaceAll,
    "truncate_insert": ReplaceAll,
    "merge": Upsert,
    "delete_insert": DeleteInsert,
    "snapshot": ReplacePartitions,
    "incremental_append": AppendNewer,
    "scd2": History,
}
"""The type of each mode's plan."""
