"""Each command, found in the program's own tree, on bad input: nothing there, wrong names, broken files, closed pipes.

And interrupted, at its first import and at the first file of the project that it opens.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from support.commands import COMMANDS, OF_PROJECTS, WITHOUT_PROJECT, arguments, formats
from support.folders import ProjectFolder
from support.forked import CLOSED, READ, UNREAD, Executable, executable
from support.small_shop import environ_with_duckdb, install_duckdb, small_shop

from rivet_dagster.cli.main import main

JSON = [(path, format_) for path in COMMANDS for format_ in formats(path) if format_ == "json"]


def named(path) -> str:
    return " ".join(path)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def shop(tmp_path, monkeypatch) -> ProjectFolder:
    install_duckdb(monkeypatch, tmp_path)
    return small_shop(tmp_path / "shop")


VALID = {
    ("catalog", "create"): {"name": "sea", "type_": "filesystem", "options": "path=sea"},
    ("engine", "create"): {"name": "small", "type_": "duck"},
    ("catalog", "describe"): {"name": "lake"},
    ("lineage",): {"name": "history"},
    ("diff",): {"environment": "nightly"},
    ("environment", "create"): {"name": "nightly"},
    ("environment", "merge"): {"name": "nightly"},
    ("environment", "drop"): {"name": "nightly"},
    ("versions", "list"): {"joint": "history"},
    ("versions", "rollback"): {"joint": "history"},
    ("versions", "publish"): {"joint": "history"},
    ("versions", "drop"): {"joint": "history"},
    ("watermark", "set"): {"sink": "history", "value": "2026-01-31"},
    ("watermark", "reset"): {"sink": "history"},
    ("show",): {"joint": "history"},
    ("run",): {"dry_run": "--dry-run"},
}
"""Values with which a command does something; without them any will do."""


def call(path, **values: str) -> list[str]:
    """Return a complete call of a command, on the project ``shop``."""
    return arguments(path, **{**VALID.get(path, {}), **values})


@pytest.fixture
def cli(capfd):
    """Return a function that runs a command in this process and returns its exit code, stdout and stderr."""

    def cli(*given: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(argument) for argument in given])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return cli


# no project


@pytest.mark.parametrize("path", [path for path in OF_PROJECTS if path != ("spark", "archive")], ids=named)
def test_in_a_directory_that_is_no_project(path, cli, tmp_path, monkeypatch):
    install_duckdb(monkeypatch, tmp_path)
    tmp_path = tmp_path / "empty"
    tmp_path.mkdir()
    code, out, err = cli(*call(path), "-p", tmp_path)
    assert code == 10
    assert "RVT-101" in out + err
    assert "rivet.yaml" in out + err
    assert bool(out) == (path == ("doctor",))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("path", "format_"), [case for case in JSON if case[0] in OF_PROJECTS], ids=str)
def test_in_a_directory_that_is_no_project_json_tells_it(path, format_, cli, tmp_path):
    code, out, err = cli(*call(path), "--format", format_, "-p", tmp_path)
    found = json.loads(out)
    assert (code, found["success"], err) == (10, False, "")
    assert "RVT-101" in [error["code"] for error in found.get("errors") or found["findings"]]


# unknown names

NEARLY = {
    "joint": ("histry", "'history'"),
    "joints": ("histry", "'history'"),
    "sink": ("histry", "'history'"),
    "paths": ("tests/revenu.test.yaml", "'tests/revenue.test.yaml'"),
    "file": ("jont", "'joint'"),
    "shell": ("bahs", "'bash'"),
}
"""By the name of an argument, a value that is nearly a known one, and that one."""

NAMES = {
    ("lineage",): ("histry", "'history'"),
    ("catalog", "describe"): ("lak", "'lake'"),
    ("environment", "merge"): ("nightl", "'nightly'"),
    ("environment", "drop"): ("nightl", "'nightly'"),
}
"""The same for what has but a ``name``."""

NEW = {("environment", "create"), ("catalog", "create"), ("engine", "create"), ("init",), ("import", "dbt")}
"""Commands whose argument is the name of something new, or of a folder elsewhere."""

UNKNOWN = [
    (path, parameter.name)
    for path, command in COMMANDS.items()
    for parameter in command.params
    if parameter.param_type_name == "argument" and path not in NEW and parameter.name not in ("value", "version")
]


@pytest.mark.parametrize(("path", "name"), UNKNOWN, ids=str)
def test_an_unknown_name_is_told_with_the_nearest(path, name, cli, shop):
    wrong, right = NAMES[path] if name == "name" else NEARLY[name]
    assert cli("environment", "create", "nightly", "-p", shop.root)[0] == 0
    project = () if path in WITHOUT_PROJECT else ("-p", shop.root)
    code, out, err = cli(*call(path, **{name: wrong}), *project)
    assert (code in (1, 10), out) == (True, "")
    assert wrong.rpartition("/")[2] in err
    assert right in err


OPTIONS = {
    "profile": ("defalt", "'default'"),
    "environment": ("nightl", "'nightly'"),
    "type_": ("filesytem", "'filesystem'"),
    "catalogs": ("lak", "'lake'"),
    "format": ("jsn", "'json'"),
}
OTHER_OPTIONS = {
    (("engine", "create"), "type_"): ("duckbd", "'duckdb'"),
    (("upkeep",), "catalogs"): ("lak", "wants upkeep"),  # no catalog of this project does, so none is near
}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (path, parameter.name)
        for path, command in COMMANDS.items()
        for parameter in command.params
        if parameter.name in OPTIONS and (path, parameter.name) != (("run",), "environment")  # which a run makes
    ],
    ids=str,
)
def test_an_unknown_value_of_an_option_is_told_with_the_nearest(path, name, cli, shop):
    wrong, right = OTHER_OPTIONS.get((path, name), OPTIONS[name])
    assert cli("environment", "create", "nightly", "-p", shop.root)[0] == 0
    project = () if path in WITHOUT_PROJECT else ("-p", shop.root)
    code, out, err = cli(*call(path, **{name: wrong}), *project)
    assert code in (1, 10)
    assert wrong in out + err
    assert right in out + err


# broken files


@pytest.mark.parametrize(("file", "line"), [("rivet.yaml", 2), ("profiles.yaml", 3)])
@pytest.mark.parametrize("path", OF_PROJECTS, ids=named)
def test_a_file_that_is_no_yaml_is_told_with_its_line(path, file, line, cli, shop):
    valid = (shop.root / file).read_text()
    lines = valid.splitlines()
    shop.write({file: "\n".join([*lines[: line - 1], "wrong: [", *lines[line - 1 :]])})
    code, out, err = cli(*call(path), "-p", shop.root)
    assert code == 10
    assert f"RVT-102 {file}:" in out + err


OF_PROFILES = {
    ("catalog", "create"), ("catalog", "list"), ("catalog", "describe"), ("engine", "create"), ("engine", "list"),
    ("spark", "archive"), ("spark", "start"), ("spark", "stop"), ("spark", "status"), ("sweep",),
}  # fmt: skip
"""Commands for which the joints need not be right."""


@pytest.mark.parametrize("path", OF_PROJECTS, ids=named)
def test_a_joint_that_is_no_yaml_is_told_with_its_line(path, cli, shop):
    shop.write({"sources/orders.yaml": "type: source\ntable: [\n"})
    code, out, err = cli(*call(path), "-p", shop.root)
    assert code == (1 if path not in OF_PROFILES else 10 if path[0] == "spark" else 0)
    assert ("RVT-202 sources/orders.yaml:" in out + err) == (path not in OF_PROFILES)


# pipes and interrupts, in real processes

IMPORTED = """
    rivet_dagster.cli.process rivet_dagster.cli.main rivet_dagster.loading rivet_dagster.execution.environments
    rivet_dagster.execution.showing rivet_dagster.project_tests.running rivet_dagster.catalogs.iceberg
    rivet_dagster.catalogs.spark rivet_dagster.engines.pyspark.server.starting support.duckdb_engine
    rich.table rich.tree
""".split()
"""What commands import, but for those of ``rivet_dagster.cli``, whose import is a moment of interrupts, and Dagster."""


@pytest.fixture(scope="module")
def rivet_dagster(tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    with pytest.MonkeyPatch.context() as patch:
        install_duckdb(patch, folder)
    with executable(environ_with_duckdb(folder), IMPORTED) as called:
        yield called


@pytest.fixture(scope="module")
def finished(rivet_dagster, tmp_path_factory) -> Path:
    """Return a project that has run, which each test may copy."""
    root = small_shop(tmp_path_factory.mktemp("finished") / "shop").root
    assert rivet_dagster(root, "run", stdout=UNREAD).code == 0  # which prints on stderr alone
    assert rivet_dagster(root, "environment", "create", "nightly").code == 0
    return root


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("path", COMMANDS, ids=named)
def test_a_stdout_that_is_closed_or_that_nobody_reads_is_no_traceback(
    path, rivet_dagster: Executable, finished, tmp_path
):
    ended = {}
    for stdout in (READ, CLOSED, UNREAD):
        shutil.copytree(finished, tmp_path / stdout, symlinks=True)
        given = ["environment", "create", "pr-7"] if path == ("environment", "create") else call(path)
        ended[stdout] = rivet_dagster(tmp_path / stdout, *given, stdout=stdout)
        assert "Traceback" not in ended[stdout].err
        assert "Exception ignored" not in ended[stdout].err
        assert "RVT-599" not in ended[stdout].err
    assert ended[CLOSED].code == ended[READ].code
    assert ended[UNREAD].code == (1 if ended[READ].out else ended[READ].code)


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize("path", COMMANDS, ids=named)
def test_an_interrupt_ends_with_130_wherever_it_comes(path, rivet_dagster: Executable, finished):
    moments = ["open rivet.yaml"] if path in OF_PROJECTS else []
    for moment in [*moments, "import rivet_dagster.cli."] if path != ("completion",) else moments:
        ended = rivet_dagster(finished, *call(path), interrupted=moment)
        assert (ended.code, ended.err) == (130, "interrupted\n"), moment
        assert ended.out == "" or path == ("doctor",)  # which prints each finding at once


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(("path", "format_"), [case for case in JSON if case[0] in OF_PROJECTS], ids=str)
def test_an_interrupted_command_of_json_prints_a_document(path, format_, rivet_dagster: Executable, finished):
    ended = rivet_dagster(finished, *call(path), "--format", format_, interrupted="open rivet.yaml")
    assert (ended.code, json.loads(ended.out)) == (130, {"success": False, "errors": []})
