"""Runs on a standalone Spark cluster: a worker dies in the middle of one, another one is interrupted."""

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
from support.class_archive import java_options
from support.cluster import standalone_cluster
from support.example import copy_of_the_example
from support.folders import PROFILES, ProjectFolder, sink, source
from support.slow import sleeping
from support.torture import TORTURE, at_length

TASKS = 24
SLOW = f"""
SELECT part, count(slept) AS n
FROM (SELECT id % 4 AS part, {sleeping("1000L")} AS slept FROM range(0, {TASKS}, 1, {TASKS}))
GROUP BY part
"""
"""Tasks of a second each, on a core of each worker."""

SINK = sink("slow", "slow", name="slow_rows")
CONFIG = {
    "spark.sql.shuffle.partitions": 2,
    "spark.ui.enabled": False,
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}

STOPPED = 10
"""Seconds from an interrupt until the cluster runs nothing for it any more."""


def config() -> dict[str, object]:
    """Return the settings of a run; its executors start from the archive of classes."""
    return {**CONFIG, "spark.executor.extraJavaOptions": java_options()}


SALES = {
    "data/orders.csv": "id,customer,amount\n1,ada,10\n2,bob,20\n3,ada,5\n4,,-1\n",
    "sources/orders.yaml": source("orders", "id INT, customer STRING, amount INT"),
    "joints/paid.sql": "-- rivet:assert: not_null(customer)\nSELECT * FROM orders WHERE amount > 0",
    "joints/scored.py": "def transform(paid):\n    return paid.to_arrow().append_column('score', [[1, 2, 3]])\n",
    "joints/totals.sql": "SELECT customer, sum(amount) AS total, max(score) AS score FROM scored GROUP BY customer",
    "sinks/report.yaml": sink("report", "totals"),
}
TOTALS = [{"customer": "ada", "total": 15, "score": 3}, {"customer": "bob", "total": 20, "score": 2}]


@at_length
def test_a_run_survives_the_loss_of_a_worker_and_an_interrupt_ends_another(tmp_path):
    slow = {"joints/slow.sql": SLOW, "sinks/slow_rows.yaml": SINK}
    with standalone_cluster(tmp_path) as cluster:
        (engine,) = PROFILES["default"]["engines"]
        engine = {**engine, "master": cluster.address, "config": config()}
        profiles = {"default": {**PROFILES["default"], "engines": [engine]}}
        folder = ProjectFolder(tmp_path / "project", {**SALES, **slow, "profiles.yaml": profiles})
        log = tmp_path / "run.log"
        with started(folder.root, log) as run:
            wait_for_tasks(run, log)
            cluster.workers[0].kill()
            printed, _ = run.communicate(timeout=600)
        again = tmp_path / "again.log"
        with started(folder.root, again, "slow_rows") as run:
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
    assert folder.rows("slow") == [{"part": part, "n": TASKS // 4} for part in range(4)]
    assert folder.rows("report") == TOTALS


WRITTEN = f"""
SELECT id, CAST(id AS DOUBLE) AS net, slept IS NULL AS slept
FROM (SELECT id, {sleeping("IF(id = 20, 9000L, 1000L)")} AS slept FROM range(0, {TASKS}, 1, {TASKS}))
"""
"""Tasks that write a row each, of which one is so slow that Spark runs a copy of it."""

VERDICTS = [
    {"type": "expression", "name": "passes", "sql": "net * 2 >= net"},
    {"type": "expression", "name": "warns", "sql": "net <> 5.0D", "severity": "warn"},
    {"type": "accepted_values", "name": "slept", "column": "slept", "values": [False, True]},
]


@at_length
def test_checks_see_each_written_row_once_where_tasks_of_the_write_run_twice(tmp_path):
    speculation = {"spark.speculation": True, "spark.speculation.quantile": 0.5, "spark.speculation.interval": "100ms"}
    files = {"joints/written.sql": WRITTEN, "sinks/written_rows.yaml": sink("written", "written", assertions=VERDICTS)}
    with standalone_cluster(tmp_path) as cluster:
        (engine,) = PROFILES["default"]["engines"]
        engine = {**engine, "master": cluster.address, "config": {**config(), **speculation}}
        profiles = {"default": {**PROFILES["default"], "engines": [engine]}}
        folder = ProjectFolder(tmp_path / "project", {**files, "profiles.yaml": profiles})
        log = tmp_path / "run.log"
        with started(folder.root, log) as run:
            wait_for_tasks(run, log, "written_rows")
            cluster.workers[0].kill()
            printed, _ = run.communicate(timeout=600)
    report = json.loads(printed)
    assert report["success"], report
    checks = {check["check"]: (check["passed"], check["violations"]) for check in report["checks"]}
    assert checks == {"passes": (True, 0), "warns": (False, 1), "slept": (True, 0)}
    assert sorted(folder.table("written").column("id").to_pylist()) == list(range(TASKS))


if TORTURE:

    def test_the_example_makes_the_same_tables(example_run, tmp_path):
        project = copy_of_the_example(tmp_path)
        with standalone_cluster(tmp_path) as cluster:
            profiles = yaml.safe_load((project / "profiles.yaml").read_text())
            (engine,) = profiles["default"]["engines"]
            engine["master"] = cluster.address
            engine["config"] |= config()
            (project / "profiles.yaml").write_text(yaml.safe_dump(profiles))
            with started(project, tmp_path / "run.log") as run:
                printed, _ = run.communicate(timeout=600)
        assert json.loads(printed)["success"], printed
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


def wait_for_tasks(run: subprocess.Popen[str], log: Path, group: str = "slow_rows") -> None:
    """Return as soon as some tasks of the slow group are done, and others are not."""
    progress = re.compile(rf"{group}: \d+ of \d+ stages, (\d+) of (\d+) tasks")
    while run.poll() is None:
        for done, tasks in progress.findall(log.read_text()):
            if int(done):
                assert int(done) < int(tasks)
                return
        time.sleep(0.1)
    raise AssertionError(log.read_text())
