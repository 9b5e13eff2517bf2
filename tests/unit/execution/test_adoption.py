"""Which tables a joint takes over: those with its columns, that no other project has published."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from support.adoption import make_folder
from support.folders import ProjectFolder, source
from support.tables import catalog, publish, refused

from rivet_dagster.cli.main import main
from rivet_dagster.execution.adoption import adopt_table, refuse_other_columns
from rivet_dagster.model.schema import Field
from rivet_dagster.model.storage import ExistingTable, Statistics
from rivet_dagster.model.target import Target
from rivet_dagster.model.write_plan import Append, History, ReplaceAll

TABLE = ExistingTable("t", Statistics(1, 9, (("id", "bigint"), ("at", "date"))))


@pytest.mark.parametrize(
    ("columns", "plan", "wrong"),
    [
        ((Field("at", "date"), Field("ID", "bigint")), ReplaceAll(), None),
        ((Field("id"), Field("at")), Append(), None),
        ((Field("id", "int"), Field("at", "date")), ReplaceAll(), "id is bigint and not int"),
        ((Field("id", "bigint"),), Append(), "at is not the joint's"),
        ((Field("id"), Field("at"), Field("n")), Append(), "n is missing"),
        ((Field("id", "int"), Field("n")), Append(), "id is bigint and not int, at is not the joint's, n is missing"),
        ((Field("id"), Field("at"), Field("n")), Append(schema_change="add"), None),
        ((Field("id"), Field("at"), Field("n")), History(keys=("id",), schema_change="ignore"), None),
    ],
)
def test_the_columns_are_the_joints(columns, plan, wrong):
    target = Target(catalog="lake", table="t", write=plan)
    if wrong is None:
        refuse_other_columns(TABLE, columns, target)
    else:
        error = refused(refuse_other_columns, TABLE, columns, target)
        assert (error.code, error.diagnostics[0].message) == ("RVT-514", f"t has other columns than the joint: {wrong}")


@pytest.fixture
def shop(tmp_path):
    orders = "-- rivet:catalog: lake\n-- rivet:table: orders\nSELECT id FROM raw"
    files = {"sources/raw.yaml": source("raw.csv", "id BIGINT"), "joints/cleaned.sql": orders, "data/raw.csv": "id\n"}
    return ProjectFolder(tmp_path, files)


def test_a_table_that_another_project_publishes_is_named(shop, capsys):
    lake = catalog(shop.root, "lake")
    version = publish(lake, [1], run="4f1c/facts/2026-01-01").version
    assert main(["-p", str(shop.root), "adopt", "cleaned"]) == 1
    error = capsys.readouterr().err
    assert "RVT-404" in error
    assert f"is a table of another project: its version {version} was published by 4f1c/facts/2026-01-01" in error
    publish(lake, [1], run="4f1c/cleaned/2026-01-01")
    assert main(["-p", str(shop.root), "adopt", "cleaned"]) == 0
    assert "is published from here already" in capsys.readouterr().out


def test_a_run_that_adopts_writes_to_no_table_of_another_project(shop):
    """`adopt: true` is as the command; the table of this project's own joint is written to again and again."""
    lake, joint = catalog(shop.root, "lake"), shop.assembly.computed("cleaned")
    target = replace(shop.assembly.target("cleaned"), adopt=True)
    publish(lake, [1], run="4f1c/facts/2026-01-01")
    assert "is a table of another project" in str(refused(adopt_table, lake, joint, target))
    of_none = ("rollback to 00000001-5be2f7c3", "by hand, of 00000001-5be2f7c3", "environment pr-7 9c41/orders/1")
    for identity in ("4f1c/cleaned/2026-01-01", *of_none):
        version = publish(lake, [1], run=identity).version
        assert adopt_table(lake, joint, target).version == version


@pytest.mark.parametrize(
    ("name", "why"),
    [("raw", "'raw' is not stored"), ("clean", "no joint is named 'clean'; did you mean 'cleaned'?")],
)
def test_only_the_table_of_a_stored_joint_is_taken_over(shop, capsys, name, why):
    for options in ([], ["--undo"]):
        assert main(["-p", str(shop.root), "adopt", name, *options]) == 1
        assert f"RVT-306 {why}" in capsys.readouterr().err


def test_a_folder_is_taken_over_by_the_command_and_given_up(shop, capsys):
    assert main(["-p", str(shop.root), "adopt", "cleaned"]) == 1
    assert "RVT-403 there is no table file://" in capsys.readouterr().err
    make_folder(shop.root / "lake/orders", {"a.parquet": [1, 2]})
    assert main(["-p", str(shop.root), "adopt", "cleaned"]) == 0
    out = capsys.readouterr().out
    assert "cleaned: takes over file://" in out
    assert "2 rows\n    id  bigint\n  files: 1 of Parquet\n" in out
    assert main(["-p", str(shop.root), "versions", "list", "cleaned", "--format", "json"]) == 0
    (version,) = json.loads(capsys.readouterr().out)["versions"]
    assert (version["rows"], version["identity"], version["state"]) == (2, "adopted", "current")
    assert main(["-p", str(shop.root), "adopt", "cleaned", "--undo"]) == 0
    assert not (shop.root / "lake/orders").is_symlink()


def test_a_folder_in_partitions_is_taken_over_by_a_joint_with_the_same(shop, capsys):
    folder = make_folder(shop.root / "lake/orders", {"day=2024-01-01/0.parquet": [1], "day=2024-01-02/0.parquet": [2]})
    assert main(["-p", str(shop.root), "adopt", "cleaned"]) == 1
    error = capsys.readouterr().err
    assert "it is partitioned by day, and the joint is not partitioned" in error
    assert "Have `partitions` of the joint, or its strategy's `partition_by`, name the same." in error
    daily = "-- rivet:partitions: {type: daily, column: day, start: 2024-01-01}"
    by_day = "-- rivet:write_strategy: {mode: delete_insert, partition_by: [day]}"
    query = "-- rivet:catalog: lake\n-- rivet:table: orders\nSELECT id, DATE'2024-01-03' AS day FROM raw"
    for declared in (daily, by_day):
        shop.write({"joints/cleaned.sql": f"{declared}\n{query}"})
        assert main(["-p", str(shop.root), "adopt", "cleaned"]) == 0
        out = capsys.readouterr().out
        assert "    day  date\n  files: 2 of Parquet, which are written anew" in out
        assert "  partitions: 2 by day\n" in out
        assert folder.is_symlink()
        assert main(["-p", str(shop.root), "adopt", "cleaned", "--undo"]) == 0
        capsys.readouterr()
    assert sorted(path.name for path in folder.iterdir()) == ["day=2024-01-01", "day=2024-01-02"]


def test_nothing_is_taken_over_in_an_environment(shop, capsys, monkeypatch):
    make_folder(shop.root / "lake/orders", {"a.parquet": [1, 2]})
    assert main(["-p", str(shop.root), "environment", "create", "pr-7"]) == 0
    monkeypatch.setenv("RIVET_ENVIRONMENT", "pr-7")
    for options in ([], ["--undo"]):
        assert main(["-p", str(shop.root), "adopt", "cleaned", *options]) == 1
        assert "RVT-413 in the environment 'pr-7' no table is taken over" in capsys.readouterr().err
    assert not (shop.root / "lake/orders").is_symlink()
