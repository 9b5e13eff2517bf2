"""Ctrl-C in the middle of work, in the one Spark of this process; tests/faults does it to runs in other processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from support.folders import sink

from rivet_dagster.cli.main import main

# A day of work for jobs: a sleep over the rows of a test would be computed by the optimizer, which no cancel reaches.
SLOW = "SELECT given.id, count(*) AS n FROM given CROSS JOIN range(100000000000000) AS r WHERE r.id % 7 > 8 GROUP BY 1"
FILES = {
    "joints/given.sql": "SELECT id FROM range(1)",
    "joints/slow.sql": SLOW,
    "joints/quick.sql": "SELECT id FROM given",
    "sinks/out.yaml": sink("out", "slow"),
    "tests/slow.test.yaml": "target: slow\ninputs: {given: {rows: [{id: 1}]}}\nexpected: {rows: [{id: 1, n: 1}]}\n",
    "tests/quick.test.yaml": "target: quick\ninputs: {given: {rows: [{id: 1}]}}\nexpected: {rows: [{id: 1}]}\n",
    "rivet.yaml": "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\ntests: tests\n",
}
SECONDS = 120


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("DAGSTER_HOME", "RIVET_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@contextmanager
def ctrl_c_when(condition: Callable[[], object], number: int = signal.SIGINT) -> Iterator[None]:
    """Send this process a SIGINT, or another signal, as soon as the condition holds."""

    def watch() -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and not condition():
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        watcher.join()


@pytest.mark.parametrize(
    ("command", "number"),
    [
        (["show", "slow"], signal.SIGINT),
        (["test", "-k", "slow"], signal.SIGINT),
        (["run"], signal.SIGINT),
        (["run"], signal.SIGTERM),  # from a service manager
    ],
    ids=["show", "test", "run", "run ended by SIGTERM"],
)
def test_an_interrupt_stops_the_query_that_a_command_waits_for(
    project, application, in_this_process, capfd, command, number
):
    root = project(FILES).root
    before = signal.getsignal(signal.SIGTERM)
    session = application.session()
    jobs = session.spark.sparkContext.statusTracker()
    try:
        with ctrl_c_when(jobs.getActiveJobsIds, number):
            assert main([*command, "-p", str(root)]) == 130
    finally:
        signal.signal(signal.SIGTERM, before)
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err
    assert out == ""
    deadline = time.monotonic() + SECONDS
    while jobs.getActiveJobsIds():
        assert time.monotonic() < deadline, "the job goes on"
        time.sleep(0.05)
    session.close()
    assert not (root / "lake/out").exists()


def test_ctrl_c_ends_a_watch(project, application, in_this_process, capfd):
    root = project(FILES).root
    seen: list[str] = []

    def waits() -> bool:
        seen.append(capfd.readouterr().err)
        return "watching for saved files" in "".join(seen)

    with ctrl_c_when(waits):
        assert main(["test", "--watch", "-k", "quick", "-p", str(root)]) == 130
    err = "".join(seen) + capfd.readouterr().err
    assert "1 passed" in err
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err
