"""Spark Connect: the conformance suite of engines, and the tests of this folder that speak of results alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import connect
from support.spark import REMOTE

HERE = Path(__file__).parent
RESULTS = [
    "test_corrupt_records.py",
    "test_error_tables.py",
    "test_group_run.py",
    "test_incremental_reading.py",
    "test_landing.py",
    "test_partitioned_writes.py",
    "test_small_files.py",
]
"""Files whose tests run on a server as they do on Spark in this process; the rest of them do, too, but takes long:
``RIVET_TEST_REMOTE=sc://localhost:15002 pytest tests/spark``."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield the address of a server for the tests of this file."""
    with connect.connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


@pytest.mark.parametrize(
    "files", [[connect.__file__], [str(HERE / name) for name in RESULTS]], ids=["conformance", "results"]
)
def test_everything_is_the_same_on_a_server(server, files):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]
    environ = {**os.environ, REMOTE: server}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout[-6000:]
    assert "[100%]" in done.stdout
