"""The plugin of pytest, found by its entry point in a process of its own: what it collects, and what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
MANIFEST = "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n"
IMPORTED = """
import sys

def pytest_unconfigure():
    names = sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "dagster", "sqlglot", "yaml"})
    ours = sorted(name.partition(".")[2] for name in sys.modules if name.startswith("rivet_dagster."))
    print(f"imported: {names}, ours: {ours}")
"""


@pytest.fixture
def collected(tmp_path):
    """Return a function that collects a folder in a process that finds the plugin by pyproject's entry point."""
    installed = tmp_path / "installed"
    info = installed / "rivet_probe-0.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rivet-probe\nVersion: 0.0\n")
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    lines = [f"{name} = {value}" for name, value in declared.items()]
    (info / "entry_points.txt").write_text("\n".join(["[pytest11]", *lines]))
    (installed / "imported.py").write_text(IMPORTED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(installed)])}

    def collected(folder: Path) -> str:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "imported", "-p", "no:cacheprovider"]
        command += ["--rootdir", str(folder), str(folder)]
        return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False).stdout

    return collected


@pytest.fixture
def folder(tmp_path):
    location = tmp_path / "work"
    for name in ("sources", "joints", "sinks", "tests", "elsewhere"):
        (location / name).mkdir(parents=True)
    (location / "profiles.yaml").write_text("default: {}\n")
    (location / "tests/a.test.yaml").write_text("name: one\ntarget: x\nerror: E\n---\ntarget: y\nerror: E\n")
    (location / "elsewhere/b.test.yaml").write_text("target: z\nerror: E\n")
    (location / "tests/test_python.py").write_text("def test_python():\n    pass\n")
    return location


def test_tests_of_a_project_are_collected_and_no_engine_is_imported(collected, folder):
    (folder / "rivet.yaml").write_text(MANIFEST)
    lines = collected(folder).splitlines()
    assert lines[:3] == ["tests/a.test.yaml::one", "tests/a.test.yaml::a", "tests/test_python.py::test_python"]
    (imported,) = [line for line in lines if line.startswith("imported: ")]
    assert "pyspark" not in imported
    assert "dagster" not in imported


def test_elsewhere_the_plugin_does_nothing(collected, folder):
    lines = collected(folder).splitlines()
    assert lines[0] == "tests/test_python.py::test_python"
    assert "imported: [], ours: ['pytest_plugin', 'version']" in lines
