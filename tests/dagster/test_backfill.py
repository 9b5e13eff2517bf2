"""A backfill launched as in the UI and run by Dagster's daemon: a range of partitions is one run and one query."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import dagster as dg
import pytest
from support.folders import PROFILES, ProjectFolder, in_order, sink, source
from support.spark import QUICK
from support.torture import at_length

from rivet_dagster.cli.doctor_instance import console_script, daemon_lives

EXAMPLE = Path(__file__).parents[2] / "docs/dagster.yaml"
SECONDS = 180
DAILY = {"type": "daily", "column": "day", "start": "2024-01-01", "end": "2024-01-11"}
DAYS = [f"2024-01-0{day}" for day in range(3, 7)]
SALES = {
    "data/orders.csv": "".join(["id,day\n", *(f"{n},2024-01-{1 + n % 10:02}\n" for n in range(30))]),
    "sources/orders.yaml": source("orders", "id INT, day STRING", partitions=DAILY),
    "joints/totals.sql": f"-- rivet:partitions: {DAILY}\nSELECT day, count(*) AS n FROM orders GROUP BY day",
    "sinks/report.yaml": sink("report", "totals", partitions=DAILY),
}
LAUNCH = """
mutation {
  launchPartitionBackfill(backfillParams: {
    assetSelection: [{path: ["totals"]}, {path: ["report"]}], partitionNames: %s
  }) { __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } }
}
"""


@pytest.fixture
def sales(tmp_path) -> ProjectFolder:
    """Write a project with Spark's event log."""
    (tmp_path / "log").mkdir()
    config = {
        "spark.ui.enabled": False,
        "spark.sql.shuffle.partitions": 2,
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK,
        "spark.eventLog.enabled": True,
        "spark.eventLog.rolling.enabled": False,
        "spark.eventLog.compress": False,
        "spark.eventLog.dir": (tmp_path / "log").as_uri(),
    }
    engine = {**PROFILES["default"]["engines"][0], "config": config}
    profiles = {"default": {**PROFILES["default"], "engines": [engine]}}
    root = tmp_path / "project"
    load = f"from rivet_dagster import load_definitions\ndefs = load_definitions({str(root)!r})\n"
    return ProjectFolder(root, {**SALES, "profiles.yaml": profiles, "defs.py": load})


@pytest.fixture
def environ(tmp_path, monkeypatch) -> dict[str, str]:
    """Return the environment of a real instance."""
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(EXAMPLE, home)
    with (home / "dagster.yaml").open("a") as file:
        file.write("\nrun_queue:\n  dequeue_interval_seconds: 1\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    return dict(os.environ)


@pytest.fixture
def daemon(sales, environ, tmp_path):
    """Start Dagster's daemon; it ends with the test."""
    started = []

    def start() -> subprocess.Popen[bytes]:
        log = (tmp_path / "daemon.log").open("wb")
        command = [*console_script("dagster-daemon"), "run", "-f", str(sales.root / "defs.py")]
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log, start_new_session=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(30)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)


def wait_until(condition: Callable[[], object], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)


def queries(file: Path) -> int:
    """Return the number of a Spark application's SQL executions with jobs."""
    events = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    jobs = [event["Properties"] for event in events if event["Event"] == "SparkListenerJobStart"]
    return len({properties.get("spark.sql.execution.id") for properties in jobs})


@at_length
def test_a_backfill_of_a_range_is_one_run_and_one_query(sales, environ, daemon, tmp_path):
    query = LAUNCH % json.dumps(DAYS)
    answer_file = tmp_path / "answer.json"
    command = [
        *console_script("dagster-graphql"),
        "-f",
        str(sales.root / "defs.py"),
        "-t",
        query,
        "-o",
        str(answer_file),
    ]
    subprocess.run(command, env=environ, capture_output=True, check=True, timeout=SECONDS)
    answer = json.loads(answer_file.read_text())["data"]["launchPartitionBackfill"]
    assert answer["__typename"] == "LaunchBackfillSuccess", answer

    process = daemon()
    with dg.DagsterInstance.get() as instance:
        wait_until(lambda: any(run.is_finished for run in instance.get_runs()), process, tmp_path / "daemon.log")
        assert daemon_lives(environ)
        (run,) = instance.get_runs()
        assert run.status == dg.DagsterRunStatus.SUCCESS, [e.user_message for e in instance.all_logs(run.run_id)]
        assert run.tags["dagster/backfill"] == answer["backfillId"]
        for name in ("totals", "report"):
            found = instance.fetch_materializations(dg.AssetKey(name), limit=100).records
            assert {record.partition_key for record in found} == set(DAYS)
            assert {record.run_id for record in found} == {run.run_id}
    assert sales.rows("report") == in_order({"day": day, "n": 3} for day in DAYS)
    wait_until(lambda: not list((tmp_path / "log").glob("*.inprogress")), process, tmp_path / "daemon.log")
    (application,) = (tmp_path / "log").iterdir()
    assert queries(application) == 2  # the query, and its row count for each partition
