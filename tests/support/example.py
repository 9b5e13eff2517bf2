"""The example project: copies without the files of a demo in the repository, and its one run from beginning to end."""

from __future__ import annotations

import runpy
import shutil
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from rivet_dagster import CompiledAssembly, compile_directory, load_definitions
from rivet_dagster.engines.pyspark import PySparkEngine
from support.spark import MASTER, WITH_CODE

EXAMPLE = Path(__file__).parents[2] / "example_repo"
SETTINGS = "telemetry: {enabled: false}\nnux: {enabled: false}\n"


@dataclass(frozen=True)
class ExampleRun:
    """A copy of the example, its plan, its run, and the instance of Dagster that knows of it."""

    project: Path
    assembly: CompiledAssembly
    result: dg.ExecuteInProcessResult
    home: Path


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the example with its data."""
    return copy_of_the_example(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="session")
def example_run(example: Path, application: PySparkEngine, tmp_path_factory: pytest.TempPathFactory) -> ExampleRun:
    """Materialize everything through Dagster in this process, with the Spark master of the tests."""
    use_spark_of_tests(example)
    home = tmp_path_factory.mktemp("home")
    (home / "dagster.yaml").write_text(SETTINGS)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        result = load_definitions(example).resolve_job_def("all").execute_in_process(instance=instance)
    return ExampleRun(example, compile_directory(example), result, home)


def copy_of_the_example(folder: Path) -> Path:
    """Copy the example with its data to ``folder``."""
    place = folder / EXAMPLE.name
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("data", "warehouse", ".rivet", "__pycache__"))
    runpy.run_path(str(place / "get_data.py"), run_name="__main__")
    return place


def use_spark_of_tests(project: Path) -> None:
    """Have the example's profiles name the Spark master of the tests, and Spark compile its queries over many rows."""
    profiles = project / "profiles.yaml"
    text = profiles.read_text()
    assert "master: local[*]" in text
    code = "".join(f"        {name}: {value}\n" for name, value in WITH_CODE.items())
    text = text.replace("master: local[*]", f"master: {MASTER}").replace("      config:\n", f"      config:\n{code}")
    profiles.write_text(text)
