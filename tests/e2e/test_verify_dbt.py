"""`import dbt --verify`: tables as dbt leaves them in an embedded metastore, beside what the imported project makes."""

import json
import subprocess
import sys

import pytest
from support.dbt import write_dbt

from rivet_dagster.cli.main import main

TABLE = "{{ config(materialized='table') }} "
FILES = {
    "profiles.yml": "shop: {target: dev, outputs: {dev: {type: spark, method: session, schema: shop, host: NA, "
    "server_side_parameters: {spark.sql.shuffle.partitions: '1', spark.ui.enabled: 'false'}}}}",
    "seeds/raw.csv": "id,city,net\n1,Oslo,2.5\n2,Rome,4.0\n3,Rome,\n",
    "models/cleaned.sql": "select id, city, coalesce(net, 0.0) as net from {{ ref('raw') }}",
    "models/cities.sql": f"{TABLE} select city, sum(net) as net, count(*) n from {{{{ ref('cleaned') }}}} group by 1",
    "models/sources.yml": "sources: [{name: crm, tables: [{name: visits}]}]",
    "models/visited.sql": f"{TABLE} select city, days from {{{{ source('crm', 'visits') }}}}",
    "models/late.sql": f"{TABLE} select id, net from {{{{ ref('cleaned') }}}}",
    "models/later.sql": f"{TABLE} select sum(net) as net from {{{{ ref('late') }}}}",
    "models/retyped.sql": f"{TABLE} select id, city from {{{{ ref('raw') }}}}",
    "models/absent.sql": f"{TABLE} select id from {{{{ ref('raw') }}}}",
    "models/apart.sql": "{{ config(materialized='table', schema='marts') }} select id from {{ ref('raw') }}",
    "models/broken.sql": f"{TABLE} select cast(raise_error('no rate') as int) as id from {{{{ ref('raw') }}}}",
    "models/reader.sql": f"{TABLE} select id from {{{{ ref('broken') }}}}",
    "models/gated.sql": f"{TABLE} select id from {{{{ ref('raw') }}}}",
    "models/lost.sql": f"{TABLE} select id from {{{{ ref('raw') }}}}",
    "models/all.yml": "models: [{name: late, columns: [{name: id, data_tests: [unique]}]}, "
    "{name: gated, columns: [{name: id, data_tests: [{accepted_values: {values: [1, 2]}}]}]}]",
    "snapshots/kept.sql": "{% snapshot kept %}{{ config(unique_key='id', strategy='check', check_cols='all') }}"
    "select id, city from {{ ref('raw') }}{% endsnapshot %}",
}

DBT = """
import glob
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").enableHiveSupport().config("spark.ui.enabled", "false").getOrCreate()
spark.sql("create database shop")
spark.sql("create database shop_marts")
spark.sql("create database crm")
def table(name, query):
    spark.sql(f"create table {name} using parquet as {query}")
table("shop.raw", "select * from values (1L, 'Oslo', 2.5D), (2L, 'Rome', 4.0D), (3L, 'Rome', null) as t(id, city, net)")
spark.sql("create view shop.cleaned as select id, city, coalesce(net, 0.0D) as net from shop.raw")
table("crm.visits", "select * from values ('Oslo', 3), ('Rome', 2), ('Rome', 2) as t(city, days)")
table("shop.visited", "select city, days from crm.visits")
table("shop.cities", "select * from values ('Oslo', 2.5D, 1L), ('Rome', 4.0D, 2L) as t(city, net, n)")
table("shop.late", "select * from values (1L, 2.5D), (2L, 9.0D), (4L, 1.0D) as t(id, net)")
table("shop.later", "select 12.5D as net")
table("shop.retyped", "select cast(id as string) as id, city, true as extra from shop.raw")
table("shop_marts.apart", "select id from shop.raw")
table("shop.broken", "select '1' as id")
table("shop.reader", "select '1' as id")
table("shop.gated", "select id from shop.raw")
table("shop.lost", "select id from shop.raw")
table("shop.kept", '''select id, city, md5(city) as dbt_scd_id, timestamp'2024-05-01' as dbt_updated_at,
    timestamp'2024-05-01' as dbt_valid_from, cast(null as timestamp) as dbt_valid_to from shop.raw
    union all select 1L, 'Bergen', 'x', timestamp'2024-04-01', timestamp'2024-04-01', timestamp'2024-05-01' ''')
spark.stop()
for path in glob.glob("spark-warehouse/shop.db/lost/*.parquet"):
    with open(path, "w") as file:
        file.write("no Parquet at all")
"""


def everything(folder):
    return sorted((str(path.relative_to(folder)), path.read_bytes()) for path in folder.rglob("*") if path.is_file())


@pytest.mark.nightly
def test_an_import_is_compared_with_dbt(tmp_path):
    old, new = write_dbt(tmp_path / "old", FILES), tmp_path / "new"
    subprocess.run([sys.executable, "-c", DBT], cwd=old, check=True, capture_output=True)
    before = everything(old)
    command = ["import", "dbt", old, "--to", new, "--verify", "dev", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-m", "rivet_dagster.cli.process", *map(str, command)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2, done.stderr
    assert everything(old) == before
    document = json.loads(done.stdout)
    assert document["success"] is False
    assert {entry["status"] for entry in (*document["models"], *document["others"])} <= {"unchanged", "changed"}
    tables = {table["name"]: table for table in document["verification"]["tables"]}
    equal = {"raw", "cleaned", "cities", "visited", "apart", "kept"}
    assert {name for name, table in tables.items() if table["verdict"] == "equal"} == equal
    assert tables["apart"]["dbt"] == "shop_marts.apart"
    assert tables["kept"]["reasons"] == [
        "the current versions are compared (dbt_valid_to is NULL), and without dbt_valid_from"
    ]
    assert {tables[name]["rows_in_dbt"] for name in equal} == {2, 3}

    late, later, retyped = tables["late"], tables["later"], tables["retyped"]
    assert [table["verdict"] for table in (late, later, retyped)] == ["differs"] * 3
    assert (late["rows"], late["columns"]) == ({"added": 1, "removed": 1, "changed": 1}, {"net": 1})
    assert late["samples"]["changed"] == [{"old": {"id": 2, "net": 9.0}, "new": {"id": 2, "net": 4.0}}]
    assert later["reasons"] == ["what it is computed from differs, too: late"]
    assert [(each["column"], each["change"]) for each in retyped["schema"]] == [("id", "retyped"), ("extra", "dropped")]

    assert (tables["absent"]["verdict"], tables["absent"]["reasons"]) == ("missing", ["there is no shop.absent"])
    failed = {name: table["reasons"][0] for name, table in tables.items() if table["verdict"] == "failed"}
    assert set(failed) == {"broken", "reader", "gated"}
    assert "no rate" in failed["broken"]
    assert failed["reader"] == "it did not run: what it reads was not published"
    assert failed["gated"] == "nothing was published, as the check accepted_values_id failed"
    assert tables["lost"]["verdict"] == "not_compared"
    assert len(tables) == len(equal) + 3 + 1 + 3 + 1

    # The rows are in the environment alone.
    assert main(["-p", str(new), "environment", "drop", "dbt-verify"]) == 0
    assert [path for path in (new / "warehouse").iterdir() if not path.name.startswith(".")] == []
    assert not (tmp_path / "metastore_db").exists()
