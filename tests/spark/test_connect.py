"""Spark Connect: the conformance suite of engines, and some tests of this folder that speak of results alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import connect
from support.spark import REMOTE
from support.torture import TORTURE

HERE = Path(__file__).parent
SAME = {
    "test_corrupt_records.py": ["test_they_stand_beside_the_errors_of_evaluation"],
    "test_error_tables.py": [],
    "test_group_run.py": [
        "test_a_fused_group_gives_the_rows_of_its_joints_run_one_by_one",
        "test_a_failing_gate_publishes_nothing_and_leaves_the_table_byte_for_byte",
        "test_a_python_joint_may_return_rows_of_every_supported_type[return base.to_arrow()]",
        "test_a_python_joint_may_return_rows_of_every_supported_type[return base.to_spark()]",
        "test_an_error_inside_a_fused_group_names_the_joint_and_the_line_at_fault[paid-orders-1 / (id - id) AS id]",
    ],
    "test_incremental_reading.py": ["test_this_means_the_published_rows_of_the_target"],
    "test_landing.py": ["test_changed_files_are_merged"],
    "test_observed_checks.py": [
        "test_no_row_that_violates_a_random_condition_or_cannot_be_judged_is_missed[0]",
    ],
    "test_partitioned_writes.py": ["test_a_merge_works_inside_the_window"],
    "test_separation.py": ["test_they_are_the_same_where_spark_compiles_the_queries", "test_rules"],
    "test_small_files.py": [],
}
"""Files whose tests run on a server as they do on Spark in this process, with those of them that always do (empty: all
of them). The rest of this folder does, too, but takes long: ``RIVET_TEST_REMOTE=sc://localhost:15002 pytest
tests/spark``."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield the address of a server for the tests of this file."""
    with connect.connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.mark.nightly
@pytest.mark.parametrize("part", ["conformance", *(["results"] if TORTURE else [])])
def test_everything_is_the_same_on_a_server(server, part):
    files = [connect.__file__] if part == "conformance" else selected()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    environ = {**os.environ, REMOTE: server}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "[100%]" in done.stdout


def selected() -> list[str]:
    """Return what pytest is to run, as it is told."""
    files = {str(HERE / name): [] if TORTURE else tests for name, tests in SAME.items()}
    return [argument for file, tests in files.items() for argument in ([f"{file}::{t}" for t in tests] or [file])]
