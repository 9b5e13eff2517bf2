"""Sail: the conformance suite of engines, and tests of other folders that speak of rows alone, on its server.

They run in a process of their own, since this one runs a Spark.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import sail_sessions
from support.spark import REMOTE, SAIL_SERVER

HERE = Path(__file__).parent
SAME = {
    "test_catalog_conformance.py": ["TestFilesystem"],
    "test_gate_isolation.py": ["test_the_gate_reads_the_batch_and_not_the_published_rows"],
    "test_group_run.py": [
        "test_a_fused_group_gives_the_rows_of_its_joints_run_one_by_one",
        "test_a_failing_gate_publishes_nothing_and_leaves_the_table_byte_for_byte",
        "test_a_union_whose_columns_differ_fails_at_the_sink",
    ],
    "test_incremental_reading.py": ["test_this_means_the_published_rows_of_the_target", "test_nan_is_no_watermark"],
    "test_landing.py": ["test_changed_files_are_merged", "test_files_of_any_name_in_any_folder_are_read"],
    "test_partitioned_writes.py": [],
    "test_scd2.py": [],
    "test_templates.py": [],
    "test_write_strategies.py": [],
}
"""Files whose tests have on Sail the results that they have on Spark, with those of them that have (empty: all)."""
OTHERWISE = (
    "test_a_map_is_rejected_before_anything_runs",  # Sail compares maps
    "test_maps_are_merged_though_spark_compares_none",  # map() is refused there, as casts of texts to times, and uuid()
    "(test_days_of_another_time_zone and TIMESTAMP and not TIMESTAMP_NTZ)",
    "test_columns_and_types",
    "test_the_joint_is_computed_once",
)
"""Tests of these that have other results, and why."""
TOO_LONG = 900


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return the folder of the server of this file's tests, and end that after them."""
    folder = tmp_path_factory.mktemp("sail")
    yield folder
    for record in folder.glob("*.json"):
        pid = int(record.read_text().partition('"pid":')[2].partition(",")[0])
        os.kill(pid, signal.SIGTERM)


def run(server: Path, *files: str) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    environ = {**os.environ, REMOTE: "sail", SAIL_SERVER: str(server)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=TOO_LONG)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def test_the_engine(server):
    assert "[100%]" in run(server, "-m", "not nightly", sail_sessions.__file__)


@pytest.mark.nightly
def test_clients_that_die_and_clients_that_wait(server):
    assert "[100%]" in run(server, "-m", "nightly", sail_sessions.__file__)


@pytest.mark.nightly
def test_rows_are_those_of_spark(server):
    assert "[100%]" in run(server, "-m", "not nightly", "-k", f"not ({' or '.join(OTHERWISE)})", *selected())


def selected() -> list[str]:
    """Return what pytest is to run, as it is told."""
    files = {str(HERE / name): tests for name, tests in SAME.items()}
    return [argument for file, tests in files.items() for argument in _arguments(file, tests)]


def _arguments(file: str, tests: list[str]) -> list[str]:
    return [f"{file}::{test}" for test in tests] or [file]
