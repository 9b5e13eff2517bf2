"""The example on Sail and on DuckDB: the tables of Spark, one by one, on a machine without Java."""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.example import copy_of_the_example

TABLES = (
    *("airport_hours", "carrier_fleets", "carrier_punctuality", "disruptions", "reference_gaps", "route_bad_days"),
    *("route_map", "route_watchlist", "weather_impact"),
)


@contextmanager
def run_on(profile, folder):
    """Run the example with a profile and no program on PATH, so no Java; a server that it starts ends afterwards."""
    project = copy_of_the_example(folder)
    program = Path(sys.executable).with_name("rivet-dagster")
    environ = {key: value for key, value in os.environ.items() if key not in ("JAVA_HOME", "PYSPARK_GATEWAY_PORT")}
    environ |= {"PATH": str(folder), "RIVET_PROFILE": profile}
    run = [str(program), "-p", str(project)]
    try:
        done = subprocess.run([*run, "run"], env=environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        yield project, run, environ
    finally:
        if profile == "sail":
            subprocess.run([*run, "spark", "stop"], env=environ, timeout=60, check=True)


@pytest.fixture(scope="module")
def on_sail(tmp_path_factory):
    with run_on("sail", tmp_path_factory.mktemp("sail")) as ran:
        yield ran


@pytest.fixture(scope="module")
def on_duckdb(tmp_path_factory):
    with run_on("duckdb", tmp_path_factory.mktemp("duckdb")) as ran:
        yield ran


@pytest.mark.parametrize("ran", [pytest.param("on_sail", marks=pytest.mark.nightly), "on_duckdb"])
def test_each_table_is_that_of_spark(request, ran, example_run):
    project = request.getfixturevalue(ran)[0]
    for table in TABLES:
        ours, theirs = (read(folder / "warehouse" / table) for folder in (project, example_run.project))
        assert columns(ours) == columns(theirs), table
        assert rows(ours) == rows(theirs), table
        assert ours.num_rows > 0


@pytest.mark.nightly
def test_the_projects_tests_pass(on_sail):
    _, run, environ = on_sail
    done = subprocess.run([*run, "test", "--engine", "sail"], env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("passed") == done.stdout.count("test.yaml") > 0


@pytest.mark.nightly
def test_rows_are_shown_and_plans_analyzed(on_sail):
    project, run, environ = on_sail
    environ = {**environ, "RIVET_PROFILE": "default"}
    for arguments in (["show", "carrier_months", "--format", "csv"], ["compile", "--analyze"]):
        command = [*run, *arguments, "--engine", "sail"]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    subprocess.run([*run, "spark", "stop"], env={**environ, "RIVET_PROFILE": "server"}, timeout=60, check=True)
    assert not list((project / ".rivet" / "sail").glob("sail.json"))


def read(folder: Path) -> pa.Table:
    return pq.read_table(folder)


def columns(table: pa.Table) -> list[tuple[str, str]]:
    """Return names and types; whether a column can hold NULL is what an engine has inferred of the query."""
    return [(field.name, str(field.type)) for field in table.schema]


def rows(table: pa.Table) -> list[str]:
    """Return the rows as sorted texts; -0.0 and 0.0 are one value, as in SQL."""

    def value(each: Any) -> Any:
        return each + 0.0 if isinstance(each, float) else each

    return sorted(repr([value(each) for each in row.values()]) for row in table.to_pylist())
