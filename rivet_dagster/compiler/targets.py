"""The target of a stored joint: its table, and its write strategy as a write plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rivet_dagster.model.joint import Joint
from rivet_dagster.model.plugins import Plugins
from rivet_dagster.model.profile import Profile
from rivet_dagster.model.target import BY_GROUP, BY_RUN, PUBLISH, Target, WatermarkColumn


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
        write=strategy.plan,
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
