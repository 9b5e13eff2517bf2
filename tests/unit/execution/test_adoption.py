"""Which tables a joint takes over: those with its columns, that no other project has published."""

from __future__ import annotations

import json

import pytest
from support.adoption import make_folder
from support.folders import ProjectFolder, source
from support.tables import catalog, publish, refused

from rivet_dagster.cli.main import main
from rivet_dagster.execution.adoption import refuse_other_columns
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


def test_nothing_is_taken_over_in_an_environment(shop, capsys, monkeypatch):
    make_folder(shop.root / "lake/orders", {"a.parquet": [1, 2]})
    assert main(["-p", str(shop.root), "environment", "create", "pr-7"]) == 0
    monkeypatch.setenv("RIVET_ENVIRONMENT", "pr-7")
    for options in ([], ["--undo"]):
        assert main(["-p", str(shop.root), "adopt", "cleaned", *options]) == 1
        assert "RVT-413 in the environment 'pr-7' no table is taken over" in capsys.readouterr().err
    assert not (shop.root / "lake/orders").is_symlink()
