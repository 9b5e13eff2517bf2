"""Published joints in Dagster: one asset, gated by its checks, whose table others read; on an engine without a JVM."""

from __future__ import annotations

import dagster as dg
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.folders import ProjectFolder
from support.plugins import install

from rivet_dagster import RivetProject, load_definitions
from rivet_dagster.execution.runtime import Runtime

ENGINE = {"name": "duck", "type": "duck", "catalogs": ["lake", "raw"]}
CATALOGS = {"lake": {"type": "filesystem", "path": "lake"}, "raw": {"type": "filesystem", "path": "data"}}
ORDERS = (
    "-- rivet:catalog: lake\n-- rivet:table: all_orders\n-- rivet:write_strategy: append\n"
    "-- rivet:assert: expression(sql='n < 100', name=small)\nSELECT n FROM doubled"
)
FILES = {
    "profiles.yaml": {"default": {"catalogs": CATALOGS, "engines": [ENGINE]}},
    "sources/numbers.yaml": {"type": "source", "catalog": "raw", "table": "numbers.parquet"},
    "joints/doubled.sql": "SELECT n * 2 AS n FROM numbers",
    "joints/marts/orders.sql": ORDERS,
    "joints/marts/total.sql": "-- rivet:catalog: lake\nSELECT sum(n) AS total FROM orders",
}


@pytest.fixture
def shop(tmp_path, monkeypatch) -> ProjectFolder:
    monkeypatch.delenv("RIVET_PROFILE", raising=False)
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def instance():
    with dg.instance_for_test() as instance:
        yield instance


def run(shop, instance, *numbers: int, job: str = "all", **options) -> dg.ExecuteInProcessResult:
    pq.write_table(pa.table({"n": pa.array(numbers, pa.int64())}), shop.root / "data/numbers.parquet")
    defs = load_definitions(shop.root)
    return defs.resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False, **options)


def test_it_is_one_asset_with_the_kinds_and_checks_of_a_table(shop):
    project = RivetProject.load(shop.root)
    graph = load_definitions(shop.root).resolve_asset_graph()
    assert {key.to_user_string() for key in graph.get_all_asset_keys()} == {"numbers", "doubled", "orders", "total"}
    node = graph.get(dg.AssetKey("orders"))
    assert (node.kinds, node.group_name) == ({"sql", "duck", "filesystem"}, "marts")
    assert node.metadata["dagster/table_name"] == "lake.all_orders"
    assert {check.name for check in graph.get_check_keys_for_assets([node.key])} == {"small"}
    assert graph.get(dg.AssetKey("total")).parent_keys == {dg.AssetKey("orders")}
    assert project.assembly.group("orders").joints == ("numbers", "doubled", "orders")


def test_a_run_publishes_it_and_its_readers_read_the_whole_table(shop, instance):
    assert run(shop, instance, 1, 2).success
    result = run(shop, instance, 3)
    assert result.success
    made = {e.asset_key.to_user_string(): e.materialization for e in result.get_asset_materialization_events()}
    assert made["orders"].metadata["rivet/rows_inserted"].value == 1
    assert made["orders"].metadata["dagster/row_count"].value == 3
    assert shop.rows("total") == [{"total": 12}]
    assert made["orders"].metadata["rivet/version"].value in made["total"].metadata["rivet/inputs"].value["orders"]


def test_a_failed_gate_publishes_nothing_and_skips_its_readers(shop, instance):
    assert run(shop, instance, 1).success
    result = run(shop, instance, 50)
    assert not result.success
    assert {e.asset_key.to_user_string() for e in result.get_asset_materialization_events()} == set()
    assert shop.rows("total") == [{"total": 2}]
    assert shop.rows("all_orders") == [{"n": 2}]


def test_one_asset_alone_and_its_checks_alone(shop, instance):
    shop.write({"joints/marts/orders.sql": ORDERS.replace("append", "replace")})
    assert run(shop, instance, 1, 2).success
    alone = run(shop, instance, 5, asset_selection=[dg.AssetKey("total")])
    assert alone.success
    assert shop.rows("total") == [{"total": 6}]
    check = dg.AssetCheckKey(dg.AssetKey("orders"), "small")
    job = dg.define_asset_job("judge", dg.AssetSelection.checks(check))
    defs = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(jobs=[job]))
    result = defs.resolve_job_def("judge").execute_in_process(instance=instance)
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed
    assert not result.get_asset_materialization_events()


def test_other_assets_load_its_table(shop, instance):
    seen = []

    @dg.asset
    def reader(orders: pd.DataFrame) -> None:
        seen.extend(orders["n"])

    assert run(shop, instance, 1).success
    assert run(shop, instance, 2).success
    defs = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(assets=[reader]))
    job = defs.resolve_implicit_global_asset_job_def()
    assert job.execute_in_process(instance=instance, asset_selection=[dg.AssetKey("reader")]).success
    assert sorted(seen) == [2, 4]


def test_in_an_environment_it_is_built_apart_and_read_from_the_base_where_it_is_not(shop, instance, monkeypatch):
    assert run(shop, instance, 1).success
    monkeypatch.setenv("RIVET_ENVIRONMENT", "pr-7")
    assert run(shop, instance, 2, asset_selection=[dg.AssetKey("total")]).success
    assert run(shop, instance, 2, asset_selection=[dg.AssetKey("orders")]).success
    assert (shop.rows("all_orders"), shop.rows("total")) == ([{"n": 2}], [{"total": 2}])
    there = Runtime(shop.assembly, shop.root, environment="pr-7")
    total, orders = there.version_read("total"), there.version_read("orders")
    assert (total.environment, total.inputs["orders"].environment) == ("pr-7", None)
    assert (orders.environment, orders.statistics.rows) == ("pr-7", 2)
