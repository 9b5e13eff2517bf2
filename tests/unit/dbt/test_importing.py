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


def test_a_target_through_a_link(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert main(["import", "dbt", str(write_dbt(tmp_path / "old", VIEWS)), "--to", str(tmp_path / "link")]) == 0
    assert (tmp_path / "real" / "rivet.yaml").is_file()
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("target", ["n" * 300, "loop", f"{'ä' * 120}/x", "file/new"])
def test_targets_that_cannot_be_made(tmp_path, capsys, target):
    old = write_dbt(tmp_path / "old", VIEWS)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("a")
    code = main(["import", "dbt", str(old), "--to", str(tmp_path / target), "--format", "json"])
    if "ä" in target:
        assert code == 0
    else:
        assert (code, json.loads(capsys.readouterr().out)["errors"][0]["code"]) == (10, "RVT-130")
        assert sorted(os.listdir(tmp_path)) == ["file", "loop", "old"]


def test_a_snapshot_of_a_relation_that_does_not_compile_is_left_out(tmp_path, capsys):
    files = {
        **VIEWS,
        "snapshots/s.yml": "snapshots: [{name: h, relation: ref('a'), "
        "config: {unique_key: nothing, strategy: check, check_cols: all}}]",
    }
    old = write_dbt(tmp_path / "old", files)
    code = main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 2, report
    others = {entry["name"]: entry["status"] for entry in report["others"]}
    assert (others["h"], others["s"]) == ("left_out", "unchanged")


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        ("select id from values (1) as t(id) where id = {{ env_var('X') }} and id in (1, '{{ env_var('Y') }}')", True),
        ("select {{ env_var('X') }} as a, concat('b', {{ env_var('X') }}) b from values (1) as t(id) limit 1", True),
        ("select * from {{ env_var('X') }}.orders", False),
        ("select * from {{ table_of() }}", False),
        ("select id as {{ env_var('X') }} from values (1) as t(id)", False),
        ("select id from values (1) as t(id) order by id {{ env_var('X') }}", False),
    ],
)
def test_variables_of_the_environment_are_values(tmp_path, capsys, text, is_there):
    files = {"models/m.sql": text, "macros/m.sql": "{% macro table_of() %}{{ env_var('X') }}.t{% endmacro %}"}
    old = write_dbt(tmp_path / "old", files)
    code = main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert (code, report["models"][0]["status"]) == ((0, "changed") if is_there else (2, "left_out"))
    if not is_there:
        assert "which only a run knows and gives as a value" in report["models"][0]["reasons"][0]


def test_the_folder_has_the_rights_of_the_umask_which_stays(tmp_path):
    old, new = write_dbt(tmp_path / "old", {"models/m.sql": "select 1 as id"}), tmp_path / "new"
    before = os.umask(0o027)
    try:
        assert main(["import", "dbt", str(old), "--to", str(new)]) == 0
    finally:
        assert os.umask(before) == 0o027
    assert new.stat().st_mode & 0o777 == 0o750


def test_variables_of_the_environment_that_nothing_uses(tmp_path, capsys):
    """A run needs none of them, and none is told."""
    files = {
        **VIEWS,
        "models/gone.sql": "select {{ env_var('A') }} as x, {{ run_query('select 1') }} as y",
        "models/b.sql": "{{ config(meta={'a': env_var('M')}, schema=env_var('S'), pre_hook=env_var('P')) }}"
        "select 1 as id",
        "models/b.yml": "models: [{name: b, docs: {node_color: \"{{ env_var('C') }}\"}}]",
        "macros/unused.sql": "{% macro unused() %}{{ env_var('U') }}{% endmacro %}",
        "profiles.yml": "shop: {outputs: {dev: {type: spark, schema: s, host: \"{{ env_var('H') }}\", "
        "port: \"{{ env_var('PORT') | as_number }}\", token: \"{{ env_var('T') }}\"}}}",
    }
    project = (
        "name: shop\nprofile: shop\nvars: {v: \"{{ env_var('V') }}\"}\nmodels: {+database: \"{{ env_var('D') }}\"}"
    )
    old = write_dbt(tmp_path / "old", files, project)
    main(["import", "dbt", str(old), "--to", str(tmp_path / "new"), "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert {entry["kind"] for entry in report["others"]} <= {"macro", "hook", "seed", "snapshot", "source"}
    written = (tmp_path / "new" / "rivet.yaml").read_text()
    assert [name for name in "AMSPCHTVD" if f"${{{name}}}" in written] == []


def test_the_text_of_odd_names_does_not_steer_a_terminal(tmp_path, capsys):
    old = write_dbt(tmp_path / "old", {"models/a\x1b[2J\nb.sql": "select 1 as id", "models/x.sql": "{% broken"})
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / "new")]) == 2
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "a\\x1b[2J b -> a__2j_b  models/a\\x1b[2J b.sql:1" in text
