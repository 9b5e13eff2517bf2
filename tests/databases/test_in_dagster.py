"""A table of a database as a source in Dagster: what is seen before anything runs, in runs, and in sensors."""

from __future__ import annotations

import subprocess
import sys
import time

import dagster as dg
import pytest
from support.databases import execute, reading, source
from support.folders import MANIFEST, ProjectFolder
from support.postgres import Database
from support.sensors import Ticker, sensor_of

from rivet_dagster import load_definitions

SENSORS = {"moved": {"type": "source_changed", "sources": ["orders"], "target": 'key:"read"'}}
OBSERVED = {"hourly": {"sources": ["orders"], "cron_schedule": "@hourly"}}
GATED = {"quality": {"assertions": [{"type": "not_null", "columns": ["id"]}]}}


@pytest.fixture(scope="module")
def database(postgres) -> Database:
    found = postgres.database()
    execute(found, "CREATE TABLE orders (id int, value int)", "INSERT INTO orders VALUES (1, 5), (2, 7)")
    return found


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def folder(database, project) -> ProjectFolder:
    dagster = {"rivet.yaml": {**MANIFEST, "dagster": {"sensors": SENSORS, "observe": OBSERVED}}}
    return project(
        {
            **reading(database, "SELECT sum(value) AS total FROM orders", {"orders": source("orders", **GATED)}),
            **dagster,
        }
    )


def test_a_run_judges_the_source_and_tells_the_snapshot(folder, instance):
    job = load_definitions(folder.root).resolve_job_def("all")
    result = job.execute_in_process(instance=instance)
    (made,) = result.asset_materializations_for_node("read")
    assert made.metadata["rivet/inputs"].value["orders"].startswith("snapshot ")
    assert [check.passed for check in result.get_asset_check_evaluations()] == [True]
    assert folder.rows("read") == [{"total": 12}]


def test_a_failed_gate_of_the_source_publishes_nothing(database, folder, instance):
    execute(database, "INSERT INTO orders VALUES (NULL, 1)")
    job = load_definitions(folder.root).resolve_job_def("all")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    execute(database, "DELETE FROM orders WHERE id IS NULL")
    assert not result.success
    assert folder.versions("read") == []


def test_a_change_wakes_the_sensor(database, folder, instance):
    ticker = Ticker(sensor_of(folder.root, "moved"), instance)
    assert ticker.tick() == []
    assert ticker.skipped == "seen for the first time: orders"
    execute(database, "UPDATE orders SET value = 8 WHERE id = 2")
    deadline = time.monotonic() + 10  # the database counts a while later
    while not (requests := ticker.tick()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(requests) == 1
    observed = load_definitions(folder.root).resolve_job_def("hourly").execute_in_process(instance=instance)
    (event,) = observed.get_asset_observation_events()
    assert "dagster/data_version" in event.asset_observation_data.asset_observation.tags


def test_definitions_load_without_the_database_and_its_packages(folder):
    """Nothing is asked of the database before a run, and its driver is not imported."""
    (folder.root / "profiles.yaml").write_text(
        (folder.root / "profiles.yaml").read_text().replace("127.0.0.1", "no.such.invalid")
    )
    code = (
        "import sys\nfrom rivet_dagster import load_definitions\n"
        f"load_definitions({str(folder.root)!r})\nprint([m for m in ('psycopg', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip().endswith("[]"), done.stdout + done.stderr
