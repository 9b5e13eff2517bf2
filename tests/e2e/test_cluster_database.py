"""A table that a cluster's executors copy to a database: one dies after its rows are there, and is replaced."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.cluster import standalone_cluster
from support.databases import profiles, rows
from support.folders import ProjectFolder
from support.postgres import Database

from .test_cluster import config

ROWS = 20_000
SINK = {"type": "sink", "catalog": "shop", "table": "orders", "upstream": ["made"]}
RUN = """
import sys
from functools import partial
sys.path.insert(0, sys.argv[1])
from e2e.test_cluster_database import dies_once
from rivet_dagster.catalogs.jdbc.postgres import kind
from pathlib import Path
from rivet_dagster import compile_directory
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime

kind.copy_rows = partial(dies_once, sys.argv[2])
root = Path(sys.argv[3])
runtime = Runtime(compile_directory(root).raise_errors(), root)
group = runtime.assembly.group("orders")
assert run_group(runtime, group.name, group.joints, "run/orders").published is not None
"""


def dies_once(marker, write, batches):
    """Copy the rows; the first call of all then kills the executor that it runs in, before Spark knows of its end."""
    from rivet_dagster.catalogs.jdbc.published.copying import copy_rows

    result = copy_rows(write, batches)
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return result
    daemon = os.getppid()
    executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(executor, signal.SIGKILL)
    signal.pause()
    return result


@pytest.mark.nightly
def test_the_rows_of_an_executor_that_died_are_there_once(tmp_path, postgres):
    database: Database = postgres.database()
    query = f"SELECT id, id * 2 AS n FROM range(0, {ROWS}, 1, 4)"
    with standalone_cluster(tmp_path) as cluster:
        found = profiles(database)
        found["default"]["engines"][0] |= {"master": cluster.address, "config": config()}
        files = {"profiles.yaml": found, "joints/made.sql": query, "sinks/orders.yaml": SINK}
        folder = ProjectFolder(tmp_path / "project", files)
        marker = tmp_path / "died"
        command = [sys.executable, "-c", RUN, str(Path(__file__).parents[1]), str(marker), str(folder.root)]
        environ = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    assert marker.exists()
    assert rows(database, "SELECT count(*), count(DISTINCT id), sum(n) FROM orders") == [
        (ROWS, ROWS, ROWS * (ROWS - 1))
    ]
