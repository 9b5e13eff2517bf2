"""Where dbt's tables are: the target that is named, their schemas and names, and the metastore."""

import json

import pytest
from support.dbt import write_dbt

from rivet_dagster.cli.main import main
from rivet_dagster.dbt.declared import DbtTarget
from rivet_dagster.dbt.importing import import_dbt_project
from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.relations import DbtMetastore, find_metastore, relations_of
from rivet_dagster.dbt.values import NOT_READ
from rivet_dagster.errors import RivetError

PROFILES = """
shop:
  target: dev
  outputs:
    dev: {type: spark, method: session, schema: dev_me, host: NA}
    prod: {type: spark, method: session, schema: shop, host: NA}
    lake: {type: snowflake, schema: shop}
    odd: 3
"""
MODELS = {
    "profiles.yml": PROFILES,
    "models/plain.sql": "{{ config(materialized='table') }} select 1 as id, '{{ target.schema }}' as s",
    "models/apart.sql": "{{ config(materialized='table', schema='marts') }} select 1 as id",
    "models/named.sql": "{{ config(alias='other') }} select 1 as id",
    "models/within.sql": "{{ config(materialized='ephemeral') }} select 1 as id",
    "models/asks.sql": "select {{ run_query('select 1') }} as id",
    "models/ages.sql": "select 1 as id",
    "models/ages_v2.sql": "select 2 as id",
    "models/ages.yml": "models: [{name: ages, latest_version: 2, versions: [{v: 1, defined_in: ages}, {v: 2}]}]",
    "seeds/days.csv": "id\n1\n",
    "snapshots/kept.sql": "{% snapshot kept %}{{ config(unique_key='id', strategy='check', check_cols='all', "
    "target_schema='history') }} select * from {{ ref('plain') }}{% endsnapshot %}",
}


def relations(root, tmp_path, output):
    report = import_dbt_project(root, tmp_path / "new", output)
    return {each.name: each for each in relations_of(read_dbt_project(root, NOT_READ, output), report, root)}


def test_names_of_tables(tmp_path):
    found = relations(write_dbt(tmp_path / "old", MODELS), tmp_path, "prod")
    assert {name: str(each) for name, each in found.items()} == {
        "plain": "shop.plain",
        "apart": "shop_marts.apart",
        "named": "shop.other",
        "asks": "shop.asks",
        "ages_v1": "shop.ages_v1",
        "ages_v2": "shop.ages_v2",
        "days": "shop.days",
        "kept": "history.kept",
    }
    assert found["asks"].reason == "the import has left it out"
    assert found["kept"].history is not None
    assert [found[name].joints for name in ("plain", "ages_v2", "days")] == [("plain",), ("ages_v2",), ("days",)]
    # The project is that of the target, as with `dbt --target prod`.
    assert "target_schema: shop" in (tmp_path / "new" / "rivet.yaml").read_text()


def test_macros_that_name_tables(tmp_path):
    """What a macro computes is in dbt's manifest; what is not there is not known."""
    macro = "{% macro generate_schema_name(name, node) %}{{ name or 'flat' }}{% endmacro %}"
    nodes = {
        "model.shop.apart": {"schema": "marts", "alias": "apart"},
        "model.shop.ages.v2": {"schema": "flat", "alias": "ages_v2"},
    }
    files = {"macros/names.sql": macro, "target/manifest.json": json.dumps({"nodes": nodes})}
    found = relations(write_dbt(tmp_path / "old", MODELS | files), tmp_path, "dev")
    assert (str(found["apart"]), str(found["ages_v2"])) == ("marts.apart", "flat.ages_v2")
    assert str(found["plain"]) == ""
    assert "generate_schema_name" in found["plain"].reason
    assert "target/manifest.json" in found["plain"].reason


@pytest.mark.parametrize(
    ("output", "said"),
    [("prdo", "did you mean 'prod'?"), ("odd", "it is no output of the profile 'shop'")],
)
def test_a_target_that_is_none(tmp_path, capsys, output, said):
    old, new = write_dbt(tmp_path / "old", MODELS), tmp_path / "new"
    assert main(["import", "dbt", str(old), "--to", str(new), "--verify", output]) == 10
    error = capsys.readouterr().err
    assert "RVT-145 profiles.yml:4: " in error
    assert said in error
    assert not new.exists()


@pytest.mark.parametrize("profiles", [None, "shop: [", "other: {outputs: {}}"])
def test_without_a_profile_there_is_no_target(tmp_path, capsys, profiles):
    files = {"models/a.sql": "select 1 as id"} | ({} if profiles is None else {"profiles.yml": profiles})
    old = write_dbt(tmp_path / "old", files)
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--verify", "dev", "--format", "json"]) == 10
    assert json.loads(capsys.readouterr().out)["errors"][0]["code"] == "RVT-145"
    assert not (tmp_path / "new").exists()


def test_a_target_that_spark_cannot_read(tmp_path, capsys):
    old, new = write_dbt(tmp_path / "old", MODELS), tmp_path / "new"
    assert main(["import", "dbt", str(old), "--to", str(new), "--verify", "lake"]) == 10
    error = capsys.readouterr().err
    assert "RVT-146 profiles.yml:7: Spark cannot read the tables of the target 'lake'" in error
    assert "snowflake" in error
    assert not new.exists()


THRIFT = "spark.hadoop.hive.metastore.uris"
DERBY = "spark.hadoop.javax.jdo.option.ConnectionURL"
OWN = "spark.sql.catalog.spark_catalog"


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("session", {THRIFT: "thrift://meta:9083"}, DbtMetastore({})),
        ("thrift", {THRIFT: "thrift://meta:9083"}, DbtMetastore({})),
        ("session", {DERBY: "jdbc:derby:;databaseName=/m"}, DbtMetastore({})),
        ("session", {f"{OWN}.uri": "http://rest"}, DbtMetastore({})),
        ("session", {"spark.sql.defaultCatalog": "lake"}, DbtMetastore({"hive": False}, "lake")),
        ("session", {"spark.sql.defaultCatalog": "lake", THRIFT: "thrift://m"}, DbtMetastore({}, "lake")),
        # A catalog of other tables, or how Hive's are read, does not say where dbt's are.
        ("session", {"spark.sql.catalog.lake.uri": "http://rest"}, None),
        ("session", {f"{OWN}.type": "hive"}, None),
        ("thrift", {}, None),
        ("http", {}, None),
    ],
)
def test_metastores_of_settings(tmp_path, method, settings, expected):
    target = DbtTarget(method=method, values={"server_side_parameters": settings, "host": "spark.example"})
    if expected is not None:
        assert find_metastore(target, tmp_path, {}) == expected
        return
    with pytest.raises(RivetError) as raised:
        find_metastore(target, tmp_path, {})
    assert raised.value.code == "RVT-146"
    assert ("server (" in str(raised.value)) == (method != "session")


def test_the_metastore_of_spark_or_of_the_folder(tmp_path):
    (tmp_path / "metastore_db").mkdir()
    found = find_metastore(DbtTarget(), tmp_path, {})
    assert found.embedded == tmp_path / "metastore_db"
    assert found.options == {"warehouse": str(tmp_path / "spark-warehouse")}
    other = DbtTarget(values={"server_side_parameters": {"spark.sql.warehouse.dir": "/w"}})
    assert find_metastore(other, tmp_path, {}).options == {}
    with pytest.raises(RivetError, match="server"):
        find_metastore(DbtTarget(method="thrift"), tmp_path, {})
    (tmp_path / "hive-site.xml").write_text("<configuration/>")
    for method in ("session", "thrift"):
        assert find_metastore(DbtTarget(method=method), tmp_path, {"SPARK_CONF_DIR": str(tmp_path)}) == DbtMetastore({})


def test_postgres_is_compared_by_other_commands(tmp_path):
    with pytest.raises(RivetError) as raised:
        find_metastore(DbtTarget(adapter="postgres"), tmp_path, {})
    assert "rivet-dagster adopt" in raised.value.diagnostics[0].remediation
