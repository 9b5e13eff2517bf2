"""The example on a standalone Spark cluster: a worker dies in the middle of a group, another run is interrupted."""

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from support.cluster import standalone_cluster
from support.example import copy_of_the_example
from support.slow import sleeping

SLOW = f"""
SELECT part, count(slept) AS n
FROM (SELECT id % 4 AS part, {sleeping("400L + id")} AS slept FROM range(0, 48, 1, 24))
GROUP BY part
"""
"""24 tasks of one second each, on a core of each worker."""

SINK = "{type: sink, upstream: [slow], catalog: warehouse, table: slow, name: slow_rows}"


STOPPED = 10
"""Seconds from an interrupt until the cluster runs nothing for it any more."""

TASKS = re.compile(r"slow_rows: \d+ of \d+ stages, (\d+) of (\d+) tasks")


def test_a_run_survives_the_loss_of_a_worker_and_an_interrupt_ends_another(example_run, tmp_path):
    project = copy_of_the_example(tmp_path)
    (project / "joints/slow.sql").write_text(SLOW)
    (project / "sinks/slow_rows.yaml").write_text(SINK)
    log = tmp_path / "run.log"
    with standalone_cluster(tmp_path) as cluster:
        profiles = yaml.safe_load((project / "profiles.yaml").read_text())
        (engine,) = profiles["default"]["engines"]
        engine["master"] = cluster.address
        engine["config"] |= {"spark.driver.memory": "1g", "spark.executor.memory": "512m"}
        engine["config"] |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
        (project / "profiles.yaml").write_text(yaml.safe_dump(profiles))
        with started(project, log) as run:
            wait_for_tasks(run, log)
            cluster.workers[0].kill()
            printed, _ = run.communicate(timeout=600)
        again = tmp_path / "again.log"
        with started(project, again, "slow_rows") as run:
            wait_for_tasks(run, again)
            run.send_signal(signal.SIGINT)
            interrupted = time.monotonic()
            run.communicate(timeout=60)
            assert run.returncode == 130
        while cluster.master.log.read_text().count("Removing app") < 2:
            assert time.monotonic() - interrupted < STOPPED
            time.sleep(0.1)
    assert "slow_rows: done" in log.read_text()
    report = json.loads(printed)
    assert report["success"], report
    assert pq.read_table(project / "warehouse/slow").sort_by("part").to_pylist() == [
        {"part": part, "n": 12} for part in range(4)
    ]
    published = [joint.table for joint in example_run.assembly.joints if joint.catalog == "warehouse"]
    assert len(published) == 9
    for table in published:
        found, expected = (pq.read_table(place / "warehouse" / table) for place in (project, example_run.project))
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist())), table


@contextmanager
def started(project: Path, log: Path, *joints: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "rivet_dagster.cli.process", "-p", str(project), "run", *joints]
    with log.open("w") as progress:
        run = subprocess.Popen([*command, "--format", "json"], stdout=subprocess.PIPE, stderr=progress, text=True)
    try:
        yield run
    finally:
        run.kill()
        run.communicate()


def wait_for_tasks(run: subprocess.Popen[str], log: Path) -> None:
    """Return as soon as some tasks of the slow group are done, and others are not."""
    while run.poll() is None:
        for done, tasks in TASKS.findall(log.read_text()):
            if int(done):
                assert int(done) < int(tasks)
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text())
