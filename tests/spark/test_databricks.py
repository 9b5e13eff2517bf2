"""The engine ``databricks`` on the interface of the connector of SQL warehouses, with a Spark behind it."""

import datetime as dt
import inspect
import json
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.databricks import Connection, Cursor, Warehouse
from support.folders import ProjectFolder
from support.slow import sleeping

from rivet_dagster.engines.contract import Typed
from rivet_dagster.engines.databricks import DatabricksEngine
from rivet_dagster.engines.registry import open_engine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import CatalogTable, Files
from rivet_dagster.testing.engine import EngineConformance

TOKEN = "dapi-not-to-be-seen"
OPTIONS = {"host": "adb-1.invalid", "token": TOKEN, "http_path": "/sql/1.0/warehouses/a"}


@pytest.fixture
def warehouse(in_this_process, application, monkeypatch):
    """Return the stand-in, which the connector's own ``connect`` leads to."""
    with application.session() as session:
        stand_in = Warehouse(session.spark, TOKEN)
        monkeypatch.setattr("databricks.sql.connect", stand_in.connect)
        yield stand_in


def engine_of(check_interrupt=None, **options):
    return DatabricksEngine(EngineSpec("dbx", "databricks", options=OPTIONS | options), None, check_interrupt)


def table_of(spark, rows):
    name = f"t{uuid.uuid4().hex}"
    spark.createDataFrame(rows).write.saveAsTable(name)
    return CatalogTable(("spark_catalog", "default", name))


class TestWarehouse(EngineConformance):
    endless = f"SELECT count(slept) AS v FROM (SELECT {sleeping('200L + n')} AS slept FROM numbers)"

    @pytest.fixture(autouse=True)
    def running(self, warehouse):
        self.spark = warehouse.spark

    def new_engine(self, check_interrupt=None):
        return engine_of(check_interrupt, config={"TIMEZONE": "UTC"})

    def relation_of(self, kind, rows, folder):
        return table_of(self.spark, rows) if kind is CatalogTable else super().relation_of(kind, rows, folder)


def test_the_stand_in_has_the_interface_of_the_connector():
    from databricks import sql
    from databricks.sql import client

    for mine, theirs in ((Connection, client.Connection), (Cursor, client.Cursor)):
        for name, method in inspect.getmembers(mine, inspect.isfunction):
            if not name.startswith("_"):
                real = inspect.signature(getattr(theirs, name)).parameters
                assert set(inspect.signature(method).parameters) <= set(real), name
    assert list(inspect.signature(sql.connect).parameters)[:3] == ["server_hostname", "http_path", "access_token"]
    accepted = inspect.signature(client.Connection.__init__).parameters
    assert {"catalog", "session_configuration"} <= set(accepted)
    for option in ("user_agent_entry", "enable_telemetry", "_port"):
        assert option in inspect.getsource(client) or option in inspect.getsource(inspect.getmodule(client.Session))


def test_rows_become_files_that_spark_reads_alike(warehouse, tmp_path):
    query = """SELECT id, CAST(id AS DECIMAL(10,2)) AS price, DATE'2024-02-29' AS day, map('a', id) AS m,
        TIMESTAMP'2024-07-01 12:30:00 UTC' AS at, TIMESTAMP_NTZ'2024-07-01 12:30:00' AS wall,
        named_struct('x', array(1, NULL)) AS s, CAST(NULL AS BINARY) AS b FROM range(100)"""
    with engine_of().session() as session:
        frame = session.query(query)
        session.write(frame, Files("parquet", (str(tmp_path),), {"compression": "zstd"}))
        schema = session.schema(frame)
    read = warehouse.spark.read.parquet(str(tmp_path))
    expected = warehouse.spark.sql(query)
    assert [(each.name, each.dataType.simpleString()) for each in read.schema] == expected.dtypes
    assert read.schema.jsonValue() == json.loads(schema)
    assert sorted(map(str, read.collect())) == sorted(map(str, expected.collect()))
    (file,) = tmp_path.glob("*.parquet")
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


def test_a_query_is_sent_as_written_with_its_views_before_it(warehouse):
    text = "SELECT /*+ BROADCAST(b) */ a.v\n  -- a comment\nFROM a JOIN b ON a.v = b.v AND a.v >= :least"
    with engine_of().session() as session:
        session.register("a", session.query("SELECT explode(array(1, 2, :top)) AS v", {"top": 3}))
        session.register("b", session.query("SELECT 3 AS v UNION ALL SELECT 2 AS v"))
        session.register("unused", session.query("SELECT 1 AS v"))
        frame = session.query(text, {"least": Typed(2, "bigint")})
        assert sorted(session.to_arrow(frame)["v"].to_pylist()) == [2, 3]
        assert text in warehouse.statements[-1]
        assert "unused" not in warehouse.statements[-1]
        with pytest.raises(RivetError, match=":top has two values"):
            session.query("SELECT * FROM a WHERE v < :top", {"top": 2})


def test_an_error_of_a_row_has_its_line_in_the_query(warehouse):
    with engine_of().session() as session:
        session.register("a", session.query("SELECT explode(array(1, 0)) AS v"))
        frame = session.query("SELECT\n  1 / v AS w\nFROM a")
        with pytest.raises(RivetError) as caught:
            session.to_arrow(frame)
    assert (caught.value.code, caught.value.diagnostics[0].line) == ("RVT-520", 2)


def test_what_a_python_joint_returned_is_stored_and_not_queried(warehouse, tmp_path):
    with engine_of().session() as session:
        frame = session.from_value(pa.table({"id": [1, 2], "at": pa.array([0, None], pa.timestamp("us", "UTC"))}))
        assert session.columns(frame) == (("id", "bigint"), ("at", "timestamp"))
        session.write(frame, Files("parquet", (str(tmp_path),)))
        session.register("returned", frame)
        with pytest.raises(RivetError) as caught:
            session.query("SELECT * FROM returned")
    assert caught.value.code == "RVT-519"
    rows = [
        (row.id, row.at and row.at.astimezone(dt.UTC)) for row in warehouse.spark.read.parquet(str(tmp_path)).collect()
    ]
    assert rows == [(1, dt.datetime(1970, 1, 1, tzinfo=dt.UTC)), (2, None)]


def test_a_lost_connection_may_come_back_and_a_wrong_token_is_not_printed(warehouse):
    with engine_of().session() as session:
        warehouse.open.clear()
        with pytest.raises(RivetError) as caught:
            session.rows("SELECT 1 AS v")
    assert caught.value.code == "RVT-510"
    spec = EngineSpec("dbx", "databricks", options={**OPTIONS, "token": "${DATABRICKS_TOKEN}"})
    engine = open_engine(spec, Path(), {"DATABRICKS_TOKEN": "dapi-another-one"})
    with pytest.raises(RivetError) as caught:
        engine.session()
    assert caught.value.code == "RVT-502"
    assert "dapi-another-one" not in str(caught.value)
    assert "the token ${DATABRICKS_TOKEN} is not valid" in str(caught.value)


def test_connections_end_with_the_session(warehouse):
    session = engine_of().session()
    reader = session.batches(session.query("SELECT id FROM range(200000)"))
    assert reader.read_next_batch().num_rows > 0
    assert len(warehouse.open) == 2
    session.close()
    assert not warehouse.open


PROFILE = {
    "catalogs": {
        "unity": {"type": "spark", "hive": False},
        "lake": {"type": "filesystem", "path": "lake"},
    },
    "engines": [
        {"name": "dbx", "type": "databricks", "catalogs": ["unity", "lake"], **OPTIONS},
        {"name": "duck", "type": "duckdb", "catalogs": ["lake"]},
    ],
    "default_engine": "dbx",
}


def test_a_group_of_the_warehouse_is_read_by_one_of_another_engine(warehouse, tmp_path):
    spark = warehouse.spark
    name = f"orders_{uuid.uuid4().hex}"
    spark.sql(f"CREATE TABLE {name} AS SELECT id, id % 3 AS customer, CAST(id AS DOUBLE) AS amount FROM range(30)")
    files = {
        "profiles.yaml": {"default": PROFILE},
        "sources/orders.yaml": {"type": "source", "catalog": "unity", "table": f"default.{name}", "filter": "id >= 3"},
        "sources/few.yaml": {"type": "source", "catalog": "unity", "table": name, "engine": "dbx", "limit": 5},
        "joints/large.sql": "SELECT * FROM orders WHERE amount > 10",
        "joints/totals.sql": "-- rivet:catalog: lake\n"
        "SELECT customer, sum(amount) AS total FROM large GROUP BY customer",
        "joints/best.sql": "-- rivet:catalog: lake\n-- rivet:engine: duck\n-- rivet:assert: not_null(total)\n"
        "SELECT customer, total FROM totals WHERE total > 100",
        "joints/few_rows.sql": "-- rivet:catalog: lake\n-- rivet:engine: duck\nSELECT count(*) AS n FROM few",
    }
    project = ProjectFolder(tmp_path / "project", files)
    boundaries = project.assembly.engine_boundaries
    assert {(edge.joint, edge.engines, edge.method) for edge in boundaries} == {
        ("totals", ("dbx", "duck"), "native_reference"),
        ("few", ("dbx", "duck"), "arrow_passthrough"),
    }
    project.run_all()
    totals = {customer: sum(float(n) for n in range(3, 30) if n % 3 == customer and n > 10) for customer in range(3)}
    assert {row["customer"]: row["total"] for row in project.rows("totals")} == totals
    assert {row["customer"] for row in project.rows("best")} == {key for key, total in totals.items() if total > 100}
    assert project.rows("few_rows") == [{"n": 5}]
