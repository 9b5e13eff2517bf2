"""Joints loaded by other Dagster assets, as the annotated type of their input."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs as classes.

import subprocess
import sys
from typing import Any

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from support.folders import GOES_ON, MANIFEST, sink, source

from rivet_dagster import MaterializedRef, load_definitions

SALES = {
    "data/orders.csv": "id,customer,amount\n1,ada,10\n2,bob,20\n3,ada,5\n",
    "sources/orders.yaml": source("orders", "id INT, customer STRING, amount INT", filter="amount > 5"),
    "joints/big.sql": "-- rivet:eager: true\nSELECT id, customer FROM orders",
    "joints/inner_one.sql": "SELECT upper(customer) AS customer, id FROM big",
    "sinks/report.yaml": sink("report", "inner_one"),
}
BIG = {"id": [1, 2], "customer": ["ada", "bob"]}


def run(root, instance, *assets, selection=None, raise_on_error=True, resources=None):
    """Run these assets beside the project's joints; without a selection, all of both."""
    selection = selection or dg.AssetSelection.all()
    others = dg.Definitions(assets=assets, jobs=[dg.define_asset_job("selected", selection)], resources=resources or {})
    definitions = dg.Definitions.merge(load_definitions(root), others)
    job = definitions.resolve_job_def("selected")
    return job.execute_in_process(instance=instance, raise_on_error=raise_on_error)


def reader(kind: Any, seen: list, joint: str = "big", name: str = "plain"):
    """Return a plain asset that records the value that it gets for a joint."""

    @dg.asset(name=name, ins={"rows": dg.AssetIn(joint)}, io_manager_key="memory")
    def plain(rows: kind):
        seen.append(rows)

    @dg.asset(name=name, ins={"rows": dg.AssetIn(joint)}, io_manager_key="memory")
    def unannotated(rows):
        seen.append(rows)

    return unannotated if kind is None else plain


MEMORY = {"memory": dg.mem_io_manager}


KINDS = (
    (pa.Table, lambda table: table.to_pydict()),
    (pd.DataFrame, lambda frame: frame.to_dict("list")),
    (pl.DataFrame, lambda frame: frame.to_dict(as_series=False)),
    (pl.LazyFrame, lambda frame: frame.collect().to_dict(as_series=False)),
    (pa.RecordBatchReader, lambda reader: reader.read_all().to_pydict()),
    (DataFrame, lambda frame: frame.toPandas().to_dict("list")),
    (MaterializedRef, lambda ref: ref.to_arrow().to_pydict()),
    (None, lambda ref: ref.to_arrow().to_pydict()),
    (Any, lambda ref: ref.to_arrow().to_pydict()),
    (object, lambda ref: ref.to_arrow().to_pydict()),
)


def test_plain_assets_load_a_joint_as_their_annotated_types(project, instance):
    seen = [[] for _ in KINDS]
    readers = [reader(kind, seen[place], name=f"plain_{place}") for place, (kind, _) in enumerate(KINDS)]
    assert run(project(SALES).root, instance, *readers, resources=MEMORY).success
    for (kind, rows_of), values in zip(KINDS, seen, strict=True):
        (found,) = values
        assert isinstance(found, MaterializedRef if kind in (None, Any, object) else kind), kind
        assert rows_of(found) == BIG, kind


def test_unsupported_annotations_are_rejected(project, instance):
    kinds = {"a_dict": dict, "a_series": pl.Series, "numbers": list[int], "a_batch": pa.RecordBatch}
    seen = []
    readers = [reader(kind, seen, name=name) for name, kind in kinds.items()]
    root = project({**SALES, **GOES_ON}).root
    result = run(root, instance, *readers, resources=MEMORY, raise_on_error=False)
    assert not result.success
    assert seen == []
    failures = {
        event.step_key: event.step_failure_data.error_display_string for event in result.get_step_failure_events()
    }
    assert failures.keys() == kinds.keys()
    for name, text in failures.items():
        assert "RVT-509" in text, name
        assert "'big' cannot be given as" in text, name


def test_a_plain_asset_reads_a_stored_joint_of_an_earlier_run(project, instance):
    sales = project(SALES)
    run(sales.root, instance, selection=dg.AssetSelection.assets("big"))
    sales.write({"data/orders.csv": "id,customer,amount\n9,zoe,100\n"})
    seen = []
    asset = reader(pa.Table, seen)
    run(sales.root, instance, asset, selection=dg.AssetSelection.assets("plain"), resources=MEMORY)
    assert seen[0].to_pydict() == BIG


def test_fused_joints_and_sources_are_read_like_views_on_current_data(project, instance):
    sales = project(SALES)
    run(sales.root, instance)
    sales.write({"data/orders.csv": "id,customer,amount\n9,zoe,100\n8,cyd,1\n"})
    for joint, expected in (
        ("inner_one", {"customer": ["ADA", "BOB"], "id": [1, 2]}),  # on top of the stored upstream
        ("orders", {"id": [9], "customer": ["zoe"], "amount": [100]}),  # with its inline transforms
        ("report", {"customer": ["ADA", "BOB"], "id": [1, 2]}),
    ):
        seen = []
        asset = reader(pa.Table, seen, joint)
        run(sales.root, instance, asset, selection=dg.AssetSelection.assets("plain"), resources=MEMORY)
        assert seen[0].to_pydict() == expected


def test_loading_a_joint_that_was_never_materialized_fails_with_its_name(project, instance):
    seen = []
    selection = dg.AssetSelection.assets("plain")
    asset = reader(pd.DataFrame, seen)
    result = run(project(SALES).root, instance, asset, selection=selection, resources=MEMORY, raise_on_error=False)
    (event,) = result.get_step_failure_events()
    text = event.step_failure_data.error_display_string
    assert "RVT-401" in text
    assert "'big' has never been materialized" in text


def test_the_io_manager_has_the_key_that_the_project_gives_it(project, instance):
    seen = []
    sales = project(
        {**SALES, "rivet.yaml": MANIFEST | {"dagster": {"io_manager_key": "sales_io", "key_prefix": "shop"}}}
    )

    @dg.asset(ins={"rows": dg.AssetIn(["shop", "big"])}, io_manager_key="memory")
    def plain(rows: pa.Table):
        seen.append(rows)

    assert run(sales.root, instance, plain, resources=MEMORY).success
    assert seen[0].to_pydict() == BIG


PROGRAM = """
import dagster as dg, pyarrow as pa, sys
from rivet_dagster import load_definitions

@dg.asset(key=["shop", "raw"], ins={"rows": dg.AssetIn("big")}, io_manager_key="rivet_io_manager")
def plain(rows: pa.Table):
    return rows.slice(1)

if __name__ == "__main__":
    others = dg.Definitions(assets=[plain], jobs=[dg.define_asset_job("selected", dg.AssetSelection.assets(plain.key))])
    job = dg.Definitions.merge(load_definitions(sys.argv[1]), others).resolve_job_def("selected")
    assert job.execute_in_process().success
    from pyspark import SparkContext
    assert SparkContext._gateway is None, "stored rows need no engine"
"""


@pytest.mark.nightly
def test_another_process_reads_a_joint_and_stores_an_asset_without_starting_spark(project, instance, tmp_path):
    sales = project(SALES)
    run(sales.root, instance)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = subprocess.run([sys.executable, program, sales.root], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr

    # The asset belongs to another code location.
    seen = []
    sales.write({
        "sources/raw.yaml": {"type": "source", "catalog": "dagster", "table": "shop/raw"},
        "sinks/copy.yaml": sink("copy", "raw"),
    })  # fmt: skip

    @dg.asset(ins={"rows": dg.AssetIn(["shop", "raw"])}, io_manager_key="memory")
    def elsewhere(rows: pa.Table):
        seen.append(rows)

    run(sales.root, instance, selection=dg.AssetSelection.assets("copy"))
    assert sales.rows("copy") == [{"id": 2, "customer": "bob"}]
    raw = dg.AssetSpec(["shop", "raw"]).with_io_manager_key("rivet_io_manager")
    run(sales.root, instance, raw, elsewhere, selection=dg.AssetSelection.assets("elsewhere"), resources=MEMORY)
    assert seen[0].to_pylist() == [{"id": 2, "customer": "bob"}]
