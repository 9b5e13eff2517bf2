"""`engine create` and `engine list` with each type of engine."""

import json

import pytest
from support.folders import ProjectFolder

from rivet_dagster.cli.main import main
from rivet_dagster.engines.registry import concurrency_limit
from rivet_dagster.entry_points import _BUILT_IN, ENGINES
from rivet_dagster.project.load import load_project

DATABRICKS = ("host=adb-1.invalid", "token=${TOKEN}")
DECLARED = [
    ("databricks", (*DATABRICKS, "http_path=/sql/1.0/warehouses/a")),
    ("databricks", (*DATABRICKS, "cluster_id=0923-164208-abcd1234")),
    ("duckdb", ("threads=2",)),
    ("pyspark", ("master=local[1]",)),
    ("pyspark", ("remote=local",)),
    ("pyspark", ("remote=sail",)),
]
OTHERS = [(type_, ()) for type_ in sorted(set(_BUILT_IN[ENGINES]) - {type_ for type_, _ in DECLARED})]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "dapi-not-to-be-seen")
    return ProjectFolder(tmp_path, {})


@pytest.mark.parametrize(("type_", "options"), [*DECLARED, *OTHERS], ids=str)
def test_an_engine_is_written_and_listed(project, capsys, monkeypatch, type_, options):
    monkeypatch.setattr("socket.create_connection", _refused)
    arguments = [argument for option in (*options, "concurrency_limit=3") for argument in ("--option", option)]
    command = ["engine", "create", "another", "--type", type_, "--catalogs", "lake", *arguments]
    assert main([*command, "-p", str(project.root)]) == 0, capsys.readouterr().err
    assert main(["engine", "list", "--format", "json", "-p", str(project.root)]) == 0
    printed = capsys.readouterr().out
    assert "dapi-not-to-be-seen" not in printed
    listed = json.loads(printed[printed.index("{") :])["engines"]
    assert [(each["name"], each["type"]) for each in listed] == [("spark", "pyspark"), ("another", type_)]
    declared = load_project(project.root).profile.engine("another")
    assert declared is not None
    assert concurrency_limit(declared) == 3


@pytest.mark.parametrize("limit", ["0", "-1", "two", "1.5"])
def test_a_wrong_limit_is_refused_and_nothing_is_written(project, capsys, limit):
    before = (project.root / "profiles.yaml").read_text()
    command = ["engine", "create", "another", "--type", "duckdb", "--option", f"concurrency_limit={limit}"]
    assert main([*command, "-p", str(project.root)]) == 10
    assert "RVT-501 engine 'another': `concurrency_limit` must be a whole number" in capsys.readouterr().err
    assert (project.root / "profiles.yaml").read_text() == before


def _refused(*_, **__):
    raise ConnectionRefusedError("refused")
