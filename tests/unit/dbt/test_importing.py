"""The command `import dbt`: usage, places, and that nothing is left half."""

import json
import os

import pytest
from support.dbt import write_dbt

from rivet_dagster.cli.main import main

VIEWS = {
    "models/a.sql": "select 1 as id",
    "models/b.sql": "select id from {{ ref('a') }}",
    "models/b.yml": "models: [{name: b, columns: [{name: id, data_tests: [not_null]}]}]",
    "seeds/s.csv": "id\n1\n",
}


def everything(folder):
    return sorted((str(path.relative_to(folder)), path.read_bytes()) for path in folder.rglob("*") if path.is_file())


def test_a_project_moves(tmp_path, capsys):
    old = write_dbt(tmp_path / "old", VIEWS)
    before = everything(old)
    new = tmp_path / "made" / "new"
    assert main(["import", "dbt", str(old), "--to", str(new), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["success"] is True
    assert [(entry["name"], entry["joint"], entry["status"]) for entry in report["models"]] == [
        ("a", "a", "unchanged"),
        ("b", "b", "unchanged"),
    ]
    assert report["tests"][0] == {
        "name": "not_null_b_id",
        "file": "models/b.yml",
        "line": 1,
        "joint": "b",
        "status": "unchanged",
        "reasons": [],
        "check": "not_null_id",
    }
    assert main(["-p", str(new), "compile", "--format", "json"]) == 0
    compiled = json.loads(capsys.readouterr().out)
    assert {joint["name"] for joint in compiled["joints"]} == {"a", "b", "s"}
    assert everything(old) == before
    assert os.listdir(tmp_path / "made") == ["new"]


def test_what_does_not_compile_is_left_out(tmp_path, capsys):
    """Errors that only the compiler finds: each is told at its line of the dbt project."""
    files = {
        **VIEWS,
        "models/wrong.sql": "{{ config(tags=['x']) }}\n\nselect id\n  from ) {{ ref('a') }}",
        "models/after.sql": "select * from {{ ref('wrong') }}",
        "models/hidden.sql": (
            "with a as (select 2 as id), c as (select * from {{ ref('a') }}) select * from a join c using (id)"
        ),
        "models/own.sql": "with a as (select * from {{ ref('a') }}) select * from a",
        "models/b.yml": "models:\n- {name: b, columns: [{name: id, data_tests: [not_null]}, "
        "{name: nowhere, tests: [unique]}]}",
    }
    old = write_dbt(tmp_path / "old", files)
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--format", "json"]) == 2
    report = json.loads(capsys.readouterr().out)
    models = {entry["name"]: entry for entry in report["models"]}
    assert {name for name, entry in models.items() if entry["status"] == "left_out"} == {"wrong", "after", "hidden"}
    assert "models/wrong.sql:4: " in models["wrong"]["reasons"][0]
    assert "RVT-207" in models["wrong"]["reasons"][0]
    assert "rename the CTE" in models["hidden"]["reasons"][0]
    tests = {entry["name"]: entry["status"] for entry in report["tests"]}
    assert tests == {"not_null_b_id": "unchanged", "unique_b_nowhere": "left_out"}
    assert main(["-p", str(tmp_path / "new"), "compile"]) == 0


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        (None, "RVT-141", None),
        ("name: [", "RVT-142", 2),
        ("version: 1", "RVT-142", 1),
        ("name: shop\nmodel-paths: {a: 1}", "RVT-142", 2),
        ("name: shop\nmodels: [a]", "RVT-142", 2),
    ],
)
def test_no_project(tmp_path, capsys, text, code, line):
    old = tmp_path / "old"
    old.mkdir()
    if text is not None:
        (old / "dbt_project.yml").write_text(text)
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--format", "json"]) == 10
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert (error["code"], error["line"]) == (code, line)
    assert os.listdir(tmp_path) == ["old"]


@pytest.mark.parametrize(
    ("target", "code"), [("old/new", "RVT-144"), ("old", "RVT-144"), ("full", "RVT-130"), ("file", "RVT-130")]
)
def test_wrong_targets(tmp_path, capsys, target, code):
    old = write_dbt(tmp_path / "old", VIEWS)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("a")
    (tmp_path / "file").write_text("a")
    before = everything(tmp_path)
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / target), "--format", "json"]) == 10
    assert json.loads(capsys.readouterr().out)["errors"][0]["code"] == code
    assert everything(tmp_path) == before


def test_an_empty_target_is_filled(tmp_path):
    (tmp_path / "new").mkdir()
    assert main(["import", "dbt", str(write_dbt(tmp_path / "old", VIEWS)), "--to", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / "rivet.yaml").is_file()


def test_nothing_is_left_of_a_failed_import(tmp_path, monkeypatch):
    old = write_dbt(tmp_path / "old", VIEWS)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rivet_dagster.dbt.importing.compile_directory", interrupted)
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / "deep" / "new")]) == 130
    assert os.listdir(tmp_path) == ["old"]


def test_the_report_as_text(tmp_path, capsys):
    files = {**VIEWS, "models/asks.sql": "select {{ run_query('select 1') }}"}
    old = write_dbt(tmp_path / "old", files)
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / "new")]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert "models: 1 left out, 2 unchanged" in lines
    at = lines.index("    asks  models/asks.sql:1")
    assert "calls run_query" in lines[at + 1]
