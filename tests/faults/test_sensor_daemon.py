"""Sensors in Dagster's own daemon: a landed file is read once, also if the daemon is killed and restarted."""

import os
import signal
import sys
from pathlib import Path

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.folders import MANIFEST, ProjectFolder, sink, source
from support.small_shop import PROFILES, environ_with_duckdb, install_duckdb
from support.torture import at_length

from .conftest import wait_until

DAEMON = """
import os, sys
os.environ["DAGSTER_HOME"] = sys.argv[1]
os.dup2(os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
os.execv(sys.argv[3], sys.argv[3:])
"""
LANDING = {
    "type": "files",
    "source": "orders",
    "target": '+key:"history"',
    "minimum_interval_seconds": 1,
    "default_status": "RUNNING",
}


@pytest.fixture
def landing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    """Write a project that runs without a JVM, also in the processes of the daemon."""
    install_duckdb(monkeypatch, tmp_path)
    monkeypatch.setenv("PYTHONPATH", environ_with_duckdb(tmp_path)["PYTHONPATH"])
    folder = ProjectFolder(
        tmp_path / "project",
        {
            "profiles.yaml": PROFILES,
            "sources/orders.yaml": source("landing", "id INT", options={"landing": True}),
            "sinks/history.yaml": sink("history", "orders", write_strategy={"mode": "append"}),
            "rivet.yaml": {**MANIFEST, "dagster": {"sensors": {"landing": LANDING}}},
        },
    )
    (folder.root / "data/landing").mkdir()
    loading = f"from rivet_dagster import load_definitions\ndefs = load_definitions({str(folder.root)!r})\n"
    return folder.write({"defs.py": loading})


def land(folder: ProjectFolder, number: int) -> None:
    """Put a file with this number into the landing zone, whole."""
    pq.write_table(pa.table({"id": pa.array([number], pa.int32())}), folder.root / f"data/{number}")
    os.replace(folder.root / f"data/{number}", folder.root / f"data/landing/{number}.parquet")


@at_length
def test_a_landed_file_leads_to_one_run_even_if_the_daemon_is_killed(landing, start, tmp_path, monkeypatch):
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text(
        "telemetry: {enabled: false}\n"
        "run_coordinator: {module: dagster.core.run_coordinator, class: DefaultRunCoordinator}\n"
    )
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    log = tmp_path / "daemon.log"
    log.touch()

    def daemon():
        script = Path(sys.executable).with_name("dagster-daemon")
        return start("-c", DAEMON, home, log, script, "run", "-f", landing.root / "defs.py")

    def ticked(words: str) -> bool:
        return f"Sensor landing skipped: {words}" in log.read_text()

    with dg.DagsterInstance.get() as instance:

        def runs() -> list[dg.RunRecord]:
            return list(instance.get_run_records())

        process = daemon()
        wait_until(lambda: ticked("no new file among 0"), process)
        land(landing, 1)
        wait_until(lambda: [one.dagster_run.status for one in runs()] == [dg.DagsterRunStatus.SUCCESS], process)
        assert landing.rows("history") == [{"id": 1}]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        process = daemon()
        wait_until(lambda: ticked("no change in 1 files"), process)
        assert len(runs()) == 1
        land(landing, 2)
        wait_until(lambda: len(runs()) == 2, process)
        keys = {one.dagster_run.tags["dagster/run_key"] for one in runs()}
        assert len(keys) == 2
