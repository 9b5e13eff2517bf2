"""The catalog ``spark`` where no Spark runs: its declarations, what compiles, and what only an engine knows."""

import os
import signal
from pathlib import Path
from time import sleep

import pytest
from support.folders import PROFILES, ProjectFolder, sink, source

from rivet_dagster.catalogs.registry import catalog_class, catalog_traits
from rivet_dagster.catalogs.spark import SparkCatalog
from rivet_dagster.catalogs.spark.definition import Buckets
from rivet_dagster.catalogs.spark.metastore import finish_uninterrupted
from rivet_dagster.catalogs.spark.names import SparkTableName
from rivet_dagster.cli.main import main
from rivet_dagster.engines.pyspark.config import session_config
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.session_needs import SessionNeeds


def project(tmp_path, files, **options) -> ProjectFolder:
    catalogs = PROFILES["default"]["catalogs"] | {"hive": {"type": "spark", **options}}
    engine = PROFILES["default"]["engines"][0] | {"catalogs": ["raw", "lake", "hive"]}
    profile = {"default": {"catalogs": catalogs, "engines": [engine]}}
    rows = {"sources/rows.yaml": source("rows", "id INT, day DATE")}
    return ProjectFolder(tmp_path, {"profiles.yaml": profile, **rows, **files})


def out(table="out", **fields):
    return sink(table, "rows", **fields) | {"catalog": "hive"}


def errors(folder: ProjectFolder) -> list[tuple[str, str]]:
    return [(error.code, error.message) for error in compile_directory(folder.root).errors]


def catalog(**options) -> SparkCatalog:
    return SparkCatalog(CatalogSpec("hive", "spark", options), Path("/project"))


@pytest.mark.parametrize(
    ("strategy", "compiles"),
    [
        ("replace", True),
        ("truncate_insert", True),
        ("append", True),
        ({"mode": "incremental_append", "watermark_column": "day"}, True),
        ({"mode": "snapshot", "partition_column": "day"}, True),
        ({"mode": "merge", "key_columns": ["id"]}, False),
        ({"mode": "delete_insert", "key_columns": ["id"]}, False),
        ({"mode": "scd2", "key_columns": ["id"]}, False),
    ],
    ids=str,
)
def test_modes_that_change_single_rows_are_refused(tmp_path, strategy, compiles):
    found = errors(project(tmp_path, {"sinks/out.yaml": out(write_strategy=strategy)}))
    assert [code for code, _ in found] == ([] if compiles else ["RVT-312"])


def test_what_hive_cannot_do_is_refused_when_the_project_compiles(tmp_path):
    files = {
        "sources/odd.yaml": {"type": "source", "catalog": "hive", "table": "a.b.c"},
        "sources/read.yaml": {"type": "source", "catalog": "hive", "table": "t", "options": {"header": True}},
        "sources/own.yaml": {"type": "source", "catalog": "hive", "table": "Default.OUT"},
        "sinks/again.yaml": out("default.Out"),
        "sinks/out.yaml": out("out", options={"compresion": "zstd"}),
    }
    found = errors(project(tmp_path, files))
    assert sorted(code for code, _ in found) == ["RVT-203", "RVT-203", "RVT-204", "RVT-310", "RVT-310"]
    texts = " ".join(message for _, message in found)
    for text in ("called 'a.b.c'", "'header'", "did you mean 'compression'"):
        assert text in texts


def test_error_tables_are_refused(tmp_path):
    ratios = "SELECT 1 / id AS ratio FROM rows"
    quarantine = sink("out", "ratios", on_error="quarantine") | {"catalog": "hive"}
    ((code, message),) = errors(project(tmp_path, {"joints/ratios.sql": ratios, "sinks/out.yaml": quarantine}))
    assert code == "RVT-312"
    assert "publishes no error tables" in message


def test_sinks_of_another_catalog_than_hive_are_refused(tmp_path):
    ((code, message),) = errors(project(tmp_path, {"sinks/out.yaml": out()}, hive=False))
    assert code == "RVT-402"
    assert "only Hive's tables are published" in message


def test_no_engine_starts_where_none_is_at_hand(tmp_path):
    folder = project(tmp_path, {"sources/theirs.yaml": {"type": "source", "catalog": "hive", "table": "theirs"}})
    opened = Runtime(folder.assembly, folder.root).catalog("hive")
    assert opened.columns("theirs", {}) is None
    for look in (
        lambda: opened.data_version("theirs", {}),
        lambda: opened.relation("theirs", {}),
        lambda: opened.current("theirs"),
    ):
        with pytest.raises(RivetError, match="RVT-403 only an engine can look into the catalog 'hive'"):
            look()
    with pytest.raises(RivetError, match="RVT-403 only an engine can look"):
        catalog().data_version("theirs", {})


def test_a_session_gets_the_settings_of_the_metastore():
    assert catalog(hive=False).session_needs("pyspark").config == {}
    assert catalog(metastore="thrift://meta:9083").session_needs("duckdb").config == {}
    config = catalog(metastore="meta", warehouse="/data/wh").session_needs("pyspark").config
    assert config["spark.sql.catalogImplementation"] == "hive"
    assert config["spark.sql.warehouse.dir"] == "/data/wh"
    remote = EngineSpec("spark", "pyspark", options={"remote": "sc://spark"})
    assert set(config) - set(session_config(remote, [SessionNeeds(config=config)])) == {
        "spark.sql.catalogImplementation",
        "spark.sql.warehouse.dir",
        "spark.driver.extraJavaOptions",
    }
    assert config["spark.hadoop.javax.jdo.option.ConnectionURL"] == "jdbc:derby:;databaseName=/project/meta;create=true"


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"database": "a-b"}, ["database"]),
        ({"database": "${DB}", "versions": "${N}"}, []),
        ({"versions": 0}, ["versions"]),
        ({"metastore": "http://meta"}, ["metastore"]),
        ({"metastore": "meta", "hive": False}, ["metastore"]),
        ({"hive": "no", "warehouse": 3}, ["hive", "warehouse"]),
    ],
    ids=str,
)
def test_wrong_options_are_told(options, wrong):
    assert sorted(SparkCatalog.check(options)) == wrong


def test_its_type_is_installed():
    assert catalog_class("spark") is SparkCatalog
    assert not catalog_traits()["spark"].error_tables


class Answers:
    """A session that gives fixed rows, by the beginning of a command."""

    def __init__(self, **answers) -> None:
        self._answers = answers

    def rows(self, sql):
        return next(rows for begin, rows in self._answers.items() if sql.startswith(begin))


@pytest.mark.parametrize(
    ("implementation", "location", "why"),
    [
        ("in-memory", "file:/warehouse", "is not Hive's"),
        ("hive", "s3a://bucket/shop.db", "is at s3a://bucket/shop.db, where no table can be switched"),
    ],
)
def test_tables_that_no_switch_publishes_are_refused(implementation, location, why):
    opened = catalog()
    described = [{"info_name": "Location", "info_value": location}]
    opened.attach(lambda: Answers(SET=[{"value": implementation}], DESCRIBE=described))
    with pytest.raises(RivetError, match="RVT-402") as caught:
        opened.begin("orders")
    assert why in str(caught.value)


def test_names_are_those_of_hive():
    assert SparkTableName.of("Shop.Orders", "default").identifier == ("spark_catalog", "shop", "orders")
    for name in ("a.b.c", "a b", "", "a.", ".a", "o`r", "ä"):
        with pytest.raises(RivetError, match="RVT-204"):
            SparkTableName.of(name, "default")


def test_a_sweep_says_that_it_does_not_look_into_it(tmp_path, capsys):
    folder = project(tmp_path, {"sinks/out.yaml": out()})
    assert main(["-p", str(folder.root), "sweep"]) == 0
    told = capsys.readouterr()
    assert told.out == "0 leftovers of dead runs removed\n"
    assert told.err == "hive: not swept: catalogs of the type spark cannot\n"


def test_an_interrupt_waits_for_the_end_of_a_change():
    done = []

    def change() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        sleep(0.3)
        done.append("switched")

    with pytest.raises(KeyboardInterrupt):
        finish_uninterrupted(change)
    assert done == ["switched"]
    with pytest.raises(ZeroDivisionError):
        finish_uninterrupted(lambda: 1 / 0)


def test_spark_connect_takes_no_buckets_from_a_table():
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(RivetError, match=r"RVT-402 shop\.orders has buckets"):
        Buckets.of(remote, SparkTableName("shop", "orders"))
