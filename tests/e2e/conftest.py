"""The example project, run once from beginning to end."""

from __future__ import annotations

import runpy
import shutil
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from support.spark import MASTER

from rivet_dagster import CompiledAssembly, compile_directory, load_definitions
from rivet_dagster.engines.pyspark import PySparkEngine

EXAMPLE = Path(__file__).parents[2] / "example_repo"


@dataclass(frozen=True)
class ExampleRun:
    """A copy of the example, its plan, and its run."""

    project: Path
    assembly: CompiledAssembly
    result: dg.ExecuteInProcessResult


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example with its data, away from what a demo left in the repository."""
    place = tmp_path_factory.mktemp("example") / "example_repo"
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("data", "warehouse", ".rivet", "__pycache__"))
    runpy.run_path(str(place / "get_data.py"), run_name="__main__")
    return place


@pytest.fixture(scope="session")
def example_run(example: Path, application: PySparkEngine) -> ExampleRun:
    """Everything materialized through Dagster, in this process; only Spark's master is the tests' own."""
    profiles = example / "profiles.yaml"
    text = profiles.read_text()
    assert "master: local[*]" in text
    profiles.write_text(text.replace("master: local[*]", f"master: {MASTER}"))
    with dg.DagsterInstance.ephemeral() as instance:
        job = load_definitions(example).resolve_job_def("all")
        result = job.execute_in_process(instance=instance)
    return ExampleRun(example, compile_directory(example), result)
