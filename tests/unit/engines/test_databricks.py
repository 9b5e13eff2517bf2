"""The engine ``databricks`` before it connects: its options, and what it refuses when a project compiles."""

import pytest
from support.folders import ProjectFolder

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.spark.metastore import Metastore
from rivet_dagster.catalogs.spark.names import SparkTableName
from rivet_dagster.engines.databricks import DatabricksEngine, installed
from rivet_dagster.engines.databricks.engine import DatabricksCluster
from rivet_dagster.engines.registry import declared_class, open_engine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec

WORKSPACE = {"host": "adb-1.invalid", "token": "${TOKEN}"}
WAREHOUSE = {**WORKSPACE, "http_path": "/sql/1.0/warehouses/a"}
CLUSTER = {**WORKSPACE, "cluster_id": "0923-164208-abcd1234"}


@pytest.fixture(autouse=True)
def token(monkeypatch):
    monkeypatch.setenv("TOKEN", "secret-of-mine")


def project(root, files, engine=WAREHOUSE):
    profile = {
        "catalogs": {
            "unity": {"type": "spark", "hive": False},
            "hive": {"type": "spark"},
            "lake": {"type": "filesystem", "path": "lake"},
            "ice": {"type": "iceberg", "catalog": "hadoop", "warehouse": "ice", "default-namespace": "shop"},
        },
        "engines": [
            {"name": "dbx", "type": "databricks", "catalogs": ["unity", "hive", "lake", "ice"], **engine},
            {"name": "duck", "type": "duckdb", "catalogs": ["lake"]},
        ],
        "default_engine": "dbx",
    }
    orders = {"sources/orders.yaml": {"type": "source", "catalog": "unity", "table": "sales.orders"}}
    return ProjectFolder(root, {"profiles.yaml": {"default": profile}, **orders, **files})


def errors(root):
    return [(error.code, error.message) for error in compile_directory(root).errors]


def test_the_class_follows_from_the_options():
    assert declared_class(EngineSpec("dbx", "databricks", options=WAREHOUSE)) is DatabricksEngine
    assert declared_class(EngineSpec("dbx", "databricks", options=CLUSTER)) is DatabricksCluster


def test_a_cluster_is_a_server_of_spark_connect(tmp_path):
    spec = EngineSpec("dbx", "databricks", options={**CLUSTER, "host": "https://adb-1.invalid/"})
    engine = open_engine(spec, tmp_path, {"TOKEN": "dapi;1"})
    remote = engine.session_config()["spark.remote"]
    assert remote == "sc://adb-1.invalid:443/;token=dapi%3B1;x-databricks-cluster-id=0923-164208-abcd1234"


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"host": "adb 1"}, "host"),
        ({"cluster_id": "a"}, "cluster_id"),
        ({"http_path": ""}, "http_path"),
        ({"config": {"ANSI_MODE": False}}, "config"),
        ({"config": 1}, "config"),
        ({"max_fusion_depth": 0}, "max_fusion_depth"),
    ],
)
def test_wrong_options_are_named(changed, key):
    assert key in DatabricksEngine.check(WAREHOUSE | changed)


def test_what_is_missing_is_named(tmp_path):
    engine = {"cluster_id": "0923", "config": {"spark.executor.memory": "2g"}}
    found = errors(project(tmp_path, {}, engine).root)
    assert ("RVT-105", "engine 'dbx': `host` is missing") in found
    assert ("RVT-105", "engine 'dbx': `token` is missing") in found
    assert any(code == "RVT-104" and "spark.executor.memory" in message for code, message in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-- rivet:catalog: ice\nSELECT * FROM orders", "stores nothing in the catalog 'ice' (iceberg)"),
        ("-- rivet:catalog: hive\nSELECT * FROM orders", "stores nothing in the catalog 'hive' (spark)"),
        (
            "-- rivet:catalog: lake\n-- rivet:write_strategy: append\nSELECT * FROM orders",
            "the engine 'dbx' cannot store, and read again, what it gives",
        ),
        (
            "-- rivet:catalog: lake\n-- rivet:assert: not_null(id)\nSELECT * FROM orders",
            "the engine 'dbx' cannot store, and read again, what it gives",
        ),
    ],
)
def test_what_a_warehouse_cannot_publish_is_refused(tmp_path, text, message):
    found = errors(project(tmp_path, {"joints/copy.sql": text}).root)
    assert {code for code, _ in found} == {"RVT-328"}
    assert any(message in each for _, each in found)


def test_a_warehouse_takes_no_rows_of_others(tmp_path):
    files = {
        "joints/one.sql": "-- rivet:catalog: lake\n-- rivet:engine: duck\nSELECT 1 AS id",
        "joints/two.sql": "-- rivet:catalog: lake\nSELECT orders.* FROM orders JOIN one USING (id)",
    }
    (error,) = errors(project(tmp_path, files).root)
    assert error[0] == "RVT-328"
    assert "cannot cross from the engine 'duck' to 'dbx'" in error[1]


def test_its_rows_are_those_of_the_lake_for_others(tmp_path):
    files = {
        "joints/daily.sql": "-- rivet:catalog: lake\nSELECT * FROM orders",
        "joints/two.sql": "-- rivet:catalog: lake\n-- rivet:engine: duck\nSELECT count(*) AS n FROM daily",
    }
    (edge,) = project(tmp_path, files).assembly.engine_boundaries
    assert (edge.joint, edge.engines, edge.method) == ("daily", ("dbx", "duck"), "native_reference")


def test_a_cluster_has_no_catalogs_whose_settings_it_lacks(tmp_path):
    files = {"joints/copy.sql": "-- rivet:catalog: ice\nSELECT * FROM orders"}
    found = errors(project(tmp_path, files, CLUSTER).root)
    assert ("RVT-328", "the engine 'dbx' does not reach the catalog 'ice' (iceberg): its cluster has the tables of its "
            "own catalog, and files") in found  # fmt: skip


@pytest.mark.parametrize(
    ("version", "message"), [(None, "is not installed"), ("3.7.1", "3.7.1 is installed: the engine runs on 4.2")]
)
def test_a_missing_connector_is_told(monkeypatch, tmp_path, version, message):
    monkeypatch.setattr(installed, "connector_version", lambda: version)
    engine = open_engine(EngineSpec("dbx", "databricks", options=WAREHOUSE), tmp_path, {"TOKEN": "t"})
    with pytest.raises(RivetError, match=message) as caught:
        engine.session()
    assert caught.value.code == "RVT-123"
    assert "rivet_dagster[databricks]" in str(caught.value)


def test_doctor_says_that_the_workspace_does_not_answer(tmp_path):
    engine = open_engine(EngineSpec("dbx", "databricks", options=WAREHOUSE), tmp_path, {"TOKEN": "secret-of-mine"})
    found = list(engine.examine())
    assert "no workspace answers at adb-1.invalid:443" in found[-1].text
    assert "secret-of-mine" not in str(found)


def test_a_table_is_looked_up_in_the_catalog_of_the_session():
    asked = []

    class Session:
        own_catalog = "main"

        def rows(self, sql):
            asked.append(sql)
            return [{"json_metadata": '{"type": "MANAGED", "location": "abfss://x"}'}]

    described = Metastore(Session).describe(SparkTableName("sales", "orders"))
    assert described is not None
    assert described.location == "abfss://x"
    assert asked == ["DESCRIBE TABLE EXTENDED `main`.`sales`.`orders` AS JSON"]
