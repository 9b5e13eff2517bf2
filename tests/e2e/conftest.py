"""Fixtures: the example project, run once from beginning to end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest
from support.example import copy_of_the_example, use_spark_of_tests

from rivet_dagster import CompiledAssembly, compile_directory, load_definitions
from rivet_dagster.engines.pyspark import PySparkEngine


@dataclass(frozen=True)
class ExampleRun:
    """A copy of the example, its plan, and its run."""

    project: Path
    assembly: CompiledAssembly
    result: dg.ExecuteInProcessResult


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the example with its data, without the files of a demo in the repository."""
    return copy_of_the_example(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="session")
def example_run(example: Path, application: PySparkEngine) -> ExampleRun:
    """Materialize everything through Dagster in this process, with the Spark master of the tests."""
    use_spark_of_tests(example)
    with dg.DagsterInstance.ephemeral() as instance:
        job = load_definitions(example).resolve_job_def("all")
        result = job.execute_in_process(instance=instance)
    return ExampleRun(example, compile_directory(example), result)
