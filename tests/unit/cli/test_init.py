"""``init``: a project that compiles, and a directory that stays as it is if it has one."""

from __future__ import annotations

import os

import pytest

from rivet_dagster import compile_directory
from rivet_dagster.cli.main import main


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("options", [(), ("--example",)], ids=["alone", "example"])
def test_a_new_project_compiles(tmp_path, capsys, options):
    shop = tmp_path / "teams" / "shop"
    assert main(["init", str(shop), *options]) == 0
    out, err = capsys.readouterr()
    assert (out.splitlines()[-1], err) == (
        f"next: `rivet-dagster compile -p {shop}`, `rivet-dagster run -p {shop}`",
        "",
    )
    plan = compile_directory(shop).raise_errors()
    assert not plan.warnings
    assert any(joint.checks for joint in plan.joints)
    assert sorted(out.splitlines()[:-1]) == sorted(
        str(shop / name) for name in contents(shop) if ".rivet" not in name.parts
    )
    assert ".rivet/" in (shop / ".gitignore").read_text().splitlines()
    if options:
        assert {joint.type for joint in plan.joints} == {"source", "sql"}


@pytest.mark.parametrize("there", ["rivet.yaml", "profiles.yaml", "joints/greetings.sql", ".gitignore"])
def test_a_directory_with_such_files_stays_as_it_is(tmp_path, capsys, there):
    (tmp_path / there).parent.mkdir(exist_ok=True)
    (tmp_path / there).write_text("mine")
    assert main(["init", str(tmp_path)]) == 10
    assert f"RVT-130 {tmp_path} has {there} already" in capsys.readouterr().err
    assert contents(tmp_path) == dict.fromkeys(contents(tmp_path), b"mine")


def test_the_current_directory_is_the_default(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["init"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "next: `rivet-dagster compile`, `rivet-dagster run`"
    assert main(["compile"]) == 0
    assert main(["init", "notes.txt"]) == 10
    assert os.listdir(tmp_path).count("notes.txt") == 1
    assert main(["-p", "there", "init"]) == 0
    assert (tmp_path / "there" / "rivet.yaml").is_file()
