"""The ``dg`` command on a Dagster project with a rivet component."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.folders import ProjectFolder
from support.shop import SHOP

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
        self.sales = ProjectFolder(root / "sales", SHOP)
        self.defs = root / "src/shop/defs"
        self.defs.mkdir(parents=True)
        (root / "home").mkdir()
        (root / "pyproject.toml").write_text(PYPROJECT)
        (root / "src/shop/definitions.py").write_text(DEFINITIONS)
        for package in (self.defs.parent, self.defs):
            (package / "__init__.py").touch()

    def call(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a Dagster command, without RIVET_PROFILE in the environment."""
        paths = [str(self.root / "src"), str(Path(__file__).parents[2])]
        known = {key: value for key, value in os.environ.items() if key not in ("RIVET_PROFILE", "DAGSTER_IS_DEV_CLI")}
        return subprocess.run(
            [str(Path(sys.executable).with_name(command)), *words],
            cwd=self.root,
            env={**known, "PYTHONPATH": os.pathsep.join(paths), "DAGSTER_HOME": str(self.root / "home")},
            capture_output=True,
            text=True,
        )

    def dg(self, *words: str) -> str:
        """Return the output of a ``dg`` command that succeeds."""
        done = self.call("dg", *words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def shop(tmp_path):
    return DagsterProject(tmp_path / "shop")


def test_a_component_is_found_scaffolded_checked_and_launched(shop):
    types = json.loads(shop.dg("list", "components", "--json"))["items"]
    assert "rivet_dagster.RivetProjectComponent" in {one["key"] for one in types}

    shop.dg("scaffold", "defs", "rivet_dagster.RivetProjectComponent", "sales", "--project-path", "sales")
    written = (shop.defs / "sales/defs.yaml").read_text()
    assert "project: '{{ context.project_root }}/sales'" in written

    found = json.loads(shop.dg("list", "defs", "--json"))
    assert {one["asset_key"] for one in found["assets"]} == {
        "orders", "customers", "paid", "scored", "named", "large", "large_table",
    }  # fmt: skip
    assert {one["name"] for one in found["jobs"]} == {"all"}

    # With the state, processes other than `dg` and `dagster dev` read it and never the files.
    shop.sales.write({"joints/bad.sql": "SELECT FROM FROM", "sinks/bad.yaml": {"type": "sink", "upstrem": "large"}})
    loaded = shop.call("dagster", "definitions", "validate", "-m", "shop.definitions", "-d", str(shop.root))
    assert loaded.returncode == 0, loaded.stderr

    refused = shop.call("dg", "check", "defs")
    lines = (refused.stdout + refused.stderr).splitlines()
    assert refused.returncode == 1
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
    shop.dg("launch", "--assets", "paid")
    assert len(shop.sales.table("paid", ".rivet/workspace")) == 3
