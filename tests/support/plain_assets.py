"""Plain Dagster assets beside a project, whose values the project's IO manager stores."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs as classes.

from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq

from rivet_dagster import load_definitions
from rivet_dagster.model.external_assets import external_table
from support.folders import WORKSPACE, in_order, sink

IO_MANAGER = "rivet_io_manager"
MEMORY = {"memory": dg.mem_io_manager}
DAYS = dg.DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-01-05")
READS = {
    "sources/raw.yaml": {"type": "source", "catalog": "dagster", "table": "shop/raw"},
    "joints/names.sql": "SELECT id, upper(name) AS name FROM raw",
    "sinks/report.yaml": sink("report", "names"),
}
"""A project that reads the asset shop/raw."""


def run(root, instance, *assets, selection=None, raise_on_error=True, partition=None, **options):
    """Run these assets beside the project's joints; without a selection, all of both."""
    selection = selection or dg.AssetSelection.all()
    others = dg.Definitions(assets=assets, jobs=[dg.define_asset_job("selected", selection)], resources=MEMORY)
    definitions = dg.Definitions.merge(load_definitions(root), others)
    job = definitions.resolve_job_def("selected")
    return job.execute_in_process(instance=instance, raise_on_error=raise_on_error, partition_key=partition, **options)


def only(*keys):
    return dg.AssetSelection.assets(*keys)


def returning(value, key=("shop", "raw"), **options):
    """Return a plain asset with ``value``, or with the result of calling it."""

    @dg.asset(key=list(key), io_manager_key=IO_MANAGER, **options)
    def plain():
        return value() if callable(value) else value

    return plain


def noting(kind: Any, seen: list, key=("shop", "raw"), metadata=None, **options):
    """Return a plain asset that records the value that it gets for ``key``."""

    @dg.asset(name="reader", ins={"rows": dg.AssetIn(list(key), metadata=metadata)}, io_manager_key="memory", **options)
    def reader(rows: kind):
        seen.append(rows)

    return reader


def error_of(result):
    (event,) = result.get_step_failure_events()
    return event.step_failure_data.error_display_string


def stored_rows(project, key=("shop", "raw")):
    """Return the stored rows as a Parquet reader sees them."""
    return in_order(pq.read_table(project.root / WORKSPACE / external_table(key)).to_pylist())


def daily(partitions=DAYS, key=("shop", "raw"), rows=None, **options):
    """Return a plain asset with a row for each partition that counts its materializations."""
    made = {}

    @dg.asset(key=list(key), io_manager_key=IO_MANAGER, partitions_def=partitions, **options)
    def plain(context):
        keys = [str(one) for one in context.partition_keys]
        for one in keys:
            made[one] = made.get(one, 0) + 1
        return rows(keys[0]) if rows else pa.table({"day": keys, "made": [made[one] for one in keys]})

    return plain
