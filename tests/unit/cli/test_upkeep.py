"""Upkeep without an engine: the options, which tables of a project are treated, and the command."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from support.folders import MANIFEST, ProjectFolder, source

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.capabilities.upkeep import UpkeepReport
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.iceberg.names import TableName
from rivet_dagster.catalogs.iceberg.settings.connection import pyiceberg_properties, spark_needs
from rivet_dagster.catalogs.iceberg.settings.options import wrong_options
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import (
    ExpireSnapshots,
    RemoveOrphanFiles,
    UpkeepOptions,
    parse_upkeep,
    wrong_upkeep,
)
from rivet_dagster.catalogs.iceberg.upkeep.expiring import remove_orphan_files
from rivet_dagster.cli.main import main
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.errors import RivetError

HADOOP = {"catalog": "hadoop", "warehouse": "warehouse", "default-namespace": "shop"}

# Options


def test_the_defaults_are_those_of_the_documentation():
    wanted = UpkeepOptions(
        ExpireSnapshots(timedelta(days=7), 5), RemoveOrphanFiles(timedelta(days=3)), {}, rewrite_manifests=True
    )
    for value in (None, True, {}, {"rewrite_manifests": True, "expire_snapshots": None, "rewrite_data_files": True}):
        assert wrong_upkeep(value) is None
        assert parse_upkeep(value) == wanted


def test_each_step_and_all_of_them_can_be_off():
    steps = ["expire_snapshots", "remove_orphan_files", "rewrite_data_files", "rewrite_manifests"]
    off = dict.fromkeys(steps, False)
    assert wrong_upkeep(off) is None
    assert parse_upkeep(off) == UpkeepOptions(None, None, None, rewrite_manifests=False)
    for step in steps:
        options = parse_upkeep({step: False})
        assert [name for name in steps if getattr(options, name) in (None, False)] == [step]
    assert parse_upkeep(False) is None
    assert not IcebergCatalog.wants_upkeep({**HADOOP, "upkeep": False})
    assert IcebergCatalog.wants_upkeep(HADOOP)
    assert IcebergCatalog.wants_upkeep({**HADOOP, "upkeep": {"expire_snapshots": {"older_than": "${AGE}"}}})


def test_values_are_iceberg_s():
    given = {
        "expire_snapshots": {"older_than": "36h"},
        "remove_orphan_files": {"older_than": "1d"},
        "rewrite_data_files": {"target-file-size-bytes": 1000, "rewrite-all": True, "delete-ratio-threshold": 0.5},
    }
    assert wrong_upkeep(given) is None
    options = parse_upkeep(given)
    assert options.expire_snapshots == ExpireSnapshots(timedelta(hours=36), 5)
    assert options.remove_orphan_files == RemoveOrphanFiles(timedelta(days=1))
    assert options.rewrite_data_files == {
        "target-file-size-bytes": "1000", "rewrite-all": "true", "delete-ratio-threshold": "0.5",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("yes", "must be a mapping of expire_snapshots, rewrite_data_files, rewrite_manifests, remove_orphan_files"),
        ({"expire_snapshot": {}}, "has the unknown key 'expire_snapshot'; did you mean 'expire_snapshots'?"),
        ({"expire_snapshots": "7d"}, "has a wrong `expire_snapshots`: it must be a mapping, true or false, not '7d'"),
        ({"expire_snapshots": {"older": "7d"}}, "unknown key 'expire_snapshots.older'; did you mean 'older_than'"),
        ({"expire_snapshots": {"older_than": 7}}, "`expire_snapshots.older_than`: it must be a duration like 30s"),
        ({"expire_snapshots": {"retain_last": 0}}, "`expire_snapshots.retain_last`: it must be a whole number"),
        ({"remove_orphan_files": {"older_than": "23h"}}, "`remove_orphan_files.older_than`: it must be at least 1d"),
        ({"rewrite_data_files": {"min-input-file": 2}}, "did you mean 'min-input-files' or"),
        ({"rewrite_data_files": {"min-input-files": "two"}}, "it must be a whole number of at least 1, not 'two'"),
        ({"rewrite_data_files": {"rewrite-all": 1}}, "it must be true or false, not 1"),
        ({"rewrite_data_files": {"rewrite-job-order": "up"}}, "it must be one of none, bytes-asc"),
        ({"rewrite_manifests": {}}, "has a wrong `rewrite_manifests`: it must be true or false, not a mapping"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(value, sentence):
    assert sentence in wrong_upkeep(value)
    assert sentence in wrong_options({**HADOOP, "upkeep": value})["upkeep"]


def test_all_errors_are_told_at_once_and_unknown_values_not_judged():
    wrong = wrong_upkeep({"expire": {}, "expire_snapshots": {"retain_last": -1, "older_than": "x"}})
    assert wrong.count("; ") >= 2
    assert wrong_upkeep({"expire_snapshots": {"older_than": "${AGE}"}, "rewrite_data_files": "${REWRITE}"}) is None


def test_neither_spark_nor_pyiceberg_gets_the_option(tmp_path):
    options = {**HADOOP, "upkeep": {"rewrite_manifests": False}}
    assert not [key for key in spark_needs("lake", options, tmp_path).config if "upkeep" in key]
    assert "upkeep" not in pyiceberg_properties("lake", options, tmp_path)


@pytest.mark.parametrize(("location", "lists_prefixes"), [("s3://bucket/t", True), ("file:/lake/t", False)])
def test_orphans_are_listed_by_iceberg_where_hadoop_has_no_file_system(location, lists_prefixes):
    called = []

    class Session:
        def rows(self, sql: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
            called.append((sql, parameters))
            return [{"orphan_file_location": "a"}, {"orphan_file_location": "b"}]

    assert remove_orphan_files(Session(), TableName("lake", ("a", "b"), "t"), location, None) == 2
    ((sql, parameters),) = called
    assert sql.startswith("CALL `lake`.system.remove_orphan_files(table => :table, older_than => :older_than")
    assert parameters["table"] == "`a`.`b`.`t`"
    assert ("prefix_listing" in parameters) == lists_prefixes


# Projects


def project(root: Any, **options: Any) -> ProjectFolder:
    catalogs = {
        "raw": {"type": "filesystem", "path": "data", "format": "csv"},
        "files": {"type": "filesystem", "path": "files"},
        "lake": {"type": "iceberg", **HADOOP, **options},
        "unused": {"type": "iceberg", **HADOOP, "warehouse": "unused"},
    }
    engine = {"name": "spark", "type": "pyspark", "catalogs": list(catalogs)}
    quarantine = {"on_error": {"mode": "quarantine", "errors_table": "shop.bad"}}

    def sink(catalog: str, table: str, **more: Any) -> dict[str, Any]:
        return {"type": "sink", "catalog": catalog, "table": table, "upstream": ["numbers"], **more}

    return ProjectFolder(
        root,
        {
            "profiles.yaml": {"default": {"catalogs": catalogs, "engines": [engine]}},
            "sources/rows.yaml": source("rows.csv", "id INT, text STRING"),
            "sources/others.yaml": {"type": "source", "catalog": "lake", "table": "shop.others"},
            "joints/numbers.sql": "SELECT r.id, CAST(r.text AS INT) AS number FROM rows r JOIN others o ON o.id = r.id",
            "sinks/orders.yaml": sink("lake", "orders", **quarantine),
            "sinks/weeks.yaml": sink("lake", "marts.weeks"),
            "sinks/plain.yaml": sink("files", "plain"),
        },
    )


@pytest.fixture
def treated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tables whose upkeep was done; that of ``marts.weeks`` fails, and ``shop.bad`` is not there yet."""
    names: list[str] = []

    def upkeep(catalog: IcebergCatalog, table: str, session: object) -> UpkeepReport | None:
        names.append(table)
        if table == "marts.weeks":
            raise RivetError("RVT-414", "the disk is full")
        return None if table == "shop.bad" else UpkeepReport(table, snapshots_expired=3, files_deleted=9, seconds=0.5)

    class Session:
        def close(self) -> None:
            names.append("closed")

    monkeypatch.setattr(IcebergCatalog, "upkeep", upkeep)
    monkeypatch.setattr(PySparkEngine, "session", lambda engine: Session())
    return names


@pytest.fixture
def call(tmp_path, capsys) -> Callable[..., tuple[int, str, str]]:
    def command(*arguments: str, **options: Any) -> tuple[int, str, str]:
        folder = project(tmp_path, **options)
        code = main(["-p", str(folder.root), *arguments])
        return code, *capsys.readouterr()

    return command


def test_the_tables_that_the_project_writes_are_treated_and_errors_stop_no_others(call, treated):
    code, out, err = call("upkeep", "--format", "json")
    assert code == 2
    assert treated == ["marts.weeks", "orders", "shop.bad", "closed"]
    document = json.loads(out)
    assert document["success"] is False
    orders, bad = document["tables"]
    assert (orders["catalog"], orders["table"], orders["joint"], orders["published"]) == (
        "lake",
        "orders",
        "orders",
        True,
    )
    assert (orders["snapshots_expired"], orders["files_deleted"], orders["skipped"]) == (3, 9, {})
    assert bad == {"catalog": "lake", "table": "shop.bad", "joint": "orders", "published": False}
    (error,) = document["errors"]
    assert (error["code"], error["joint"], error["file"]) == ("RVT-414", "weeks", "sinks/weeks.yaml")
    assert err == ""


def test_the_text_names_tables_and_what_was_done(call, treated):
    code, out, err = call("upkeep", "--catalog", "lake")
    assert code == 2
    assert out.splitlines() == [
        "lake: marts.weeks: failed",
        "lake: orders: 3 snapshots expired (9 files)",
        "lake: shop.bad: not published yet",
        "2 tables kept in order",
    ]
    assert err.startswith("RVT-414 sinks/weeks.yaml:1: joint weeks: the disk is full")


def test_a_sweep_can_be_followed_by_upkeep(call, treated):
    assert call("sweep")[0] == 0
    assert treated == []
    code, out, _ = call("sweep", "--upkeep")
    assert code == 2
    assert out.startswith(
        "0 leftovers of dead runs removed\nlake: marts.weeks: failed\nlake: orders: 3 snapshots expired"
    )


def test_upkeep_that_is_off_starts_nothing(call, treated):
    assert call("upkeep", upkeep=False) == (0, "0 tables kept in order\n", "")
    assert treated == []


@pytest.mark.parametrize("name", ["files", "unused", "lak"])
def test_a_catalog_without_upkeep_is_a_wrong_argument(call, treated, name):
    code, out, err = call("upkeep", "--catalog", name)
    assert (code, out, treated) == (10, "", [])
    assert f"this project has no table in a catalog '{name}' that wants upkeep" in err
    assert "lake" in err


def test_a_wrong_option_is_an_error_of_the_profile(tmp_path):
    (error,) = compile_directory(project(tmp_path, upkeep={"remove_orphan_files": {"older_than": "2h"}}).root).errors
    assert (error.code, error.file) == ("RVT-104", "profiles.yaml")
    assert "catalog 'lake': `upkeep` has a wrong `remove_orphan_files.older_than`: it must be at least" in error.message


def test_a_schedule_names_catalogs_of_the_profile(tmp_path):
    folder = project(tmp_path)
    nightly = {"type": "upkeep", "cron_schedule": "0 3 * * *", "catalogs": ["lake", "lak"]}
    folder.write({"rivet.yaml": {**MANIFEST, "dagster": {"schedules": {"nightly": nightly}}}})
    (error,) = compile_directory(folder.root).errors
    assert (error.code, error.file, error.line is not None) == ("RVT-104", "rivet.yaml", True)
    assert "schedule 'nightly': `catalogs`: the profile has no catalog 'lak'; did you mean 'lake'?" in error.message
