"""The ``dg`` command on a Dagster project with a rivet component."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest
from support.forked import SCRIPT, Ended, executable
from support.small_shop import environ_with_duckdb, install_duckdb, small_shop
from support.torture import at_length

PYPROJECT = """\
[project]
name = "shop"
version = "1.0.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "shop"
code_location_name = "shop"
"""
DEFINITIONS = """\
from pathlib import Path

import dagster as dg


@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""


class DagsterProject:
    """A Dagster project in a folder, with a rivet project in ``sales``."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sales = small_shop(root / "sales")
        self.defs = root / "src/shop/defs"
        self.defs.mkdir(parents=True)
        (root / "home").mkdir()
        (root / "pyproject.toml").write_text(PYPROJECT)
        (root / "src/shop/definitions.py").write_text(DEFINITIONS)
        for package in (self.defs.parent, self.defs):
            (package / "__init__.py").touch()


IMPORTED = ["dagster_dg_cli.cli", "dagster.components", "rivet_dagster.definitions.load", "support.duckdb_engine"]


@pytest.fixture
def shop(tmp_path, monkeypatch) -> DagsterProject:
    install_duckdb(monkeypatch, tmp_path)
    return DagsterProject(tmp_path / "shop")


@pytest.fixture
def environ(tmp_path, shop, monkeypatch) -> Mapping[str, str]:
    """Return the variables of Dagster's commands."""
    monkeypatch.delenv("DAGSTER_IS_DEV_CLI", raising=False)
    known = environ_with_duckdb(tmp_path)
    paths = (str(shop.root / "src"), str(Path(__file__).parents[2]), known["PYTHONPATH"])
    return {**known, "PYTHONPATH": os.pathsep.join(paths), "DAGSTER_HOME": str(shop.root / "home")}


@pytest.fixture
def call(shop, environ) -> Iterator[Callable[..., Ended]]:
    """Yield a function that runs a ``dg`` command in the project."""
    with executable(environ, IMPORTED, SCRIPT.with_name("dg")) as dg:
        yield partial(dg, shop.root)


@pytest.fixture
def output(call) -> Callable[..., str]:
    """Return a function that returns the output of a ``dg`` command, which succeeds."""

    def output(*words: str) -> str:
        done = call(*words)
        assert done.code == 0, done.out + done.err
        return done.out

    return output


@at_length
def test_a_component_is_found_scaffolded_checked_and_launched(shop, environ, call, output):
    types = json.loads(output("list", "components", "--json"))["items"]
    assert "rivet_dagster.RivetProjectComponent" in {one["key"] for one in types}

    output("scaffold", "defs", "rivet_dagster.RivetProjectComponent", "sales", "--project-path", "sales")
    written = (shop.defs / "sales/defs.yaml").read_text()
    assert "project: '{{ context.project_root }}/sales'" in written

    found = json.loads(output("list", "defs", "--json"))
    assert {one["asset_key"] for one in found["assets"]} == {
        "orders", "paid", "revenue", "by_customer", "history",
    }  # fmt: skip
    assert {one["name"] for one in found["jobs"]} == {"all"}

    # With the state, processes other than `dg` and `dagster dev` read it and never the files.
    shop.sales.write({"joints/bad.sql": "SELECT FROM FROM", "sinks/bad.yaml": {"type": "sink", "upstrem": "paid"}})
    loaded = subprocess.run(
        [SCRIPT.with_name("dagster"), "definitions", "validate", "-m", "shop.definitions", "-d", shop.root],
        cwd=shop.root,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert loaded.returncode == 0, loaded.stderr

    refused = call("check", "defs")
    lines = (refused.out + refused.err).splitlines()
    assert refused.code == 1
    errors = [line for line in lines if line.startswith(("rivet_dagster.errors.RivetError: RVT-", "RVT-"))]
    assert [line.removeprefix("rivet_dagster.errors.RivetError: ").split(": ")[0] for line in errors] == [
        "RVT-315 joints/bad.sql:1",
        "RVT-205 sinks/bad.yaml:1",
        "RVT-205 sinks/bad.yaml:1",
        "RVT-203 sinks/bad.yaml:2",
    ]
    assert lines.index(errors[0]) < 30

    for name in ("joints/bad.sql", "sinks/bad.yaml"):
        (shop.sales.root / name).unlink()
    output("launch", "--assets", "paid")
    assert len(shop.sales.table("paid", ".rivet/workspace")) == 3
