"""Stopping Spark's work: timeouts, interrupts of the process, the end of a session."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from rivet_dagster.engines.pyspark.waiting import wait_for
from rivet_dagster.errors import RivetError

ENDLESS = "SELECT count(*) AS n FROM range(1000000000000)"
SECONDS = 60.0
"""Seconds, generous for what happens at once on an idle machine; the query would take ten times as long."""


@pytest.fixture
def active_jobs(session):
    tracker = session.spark.sparkContext.statusTracker()
    return lambda: list(tracker.getActiveJobsIds())


def until(condition) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def interrupt_when(condition) -> threading.Thread:
    def watch() -> None:
        until(condition)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def test_spark_does_not_replace_the_interrupt_handler_of_the_process(session):
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_timeout_stops_the_query(session, active_jobs):
    started = time.monotonic()
    with pytest.raises(TimeoutError, match=r"no answer within 0\.5 s"):
        session.rows(ENDLESS, timeout=0.5)
    assert time.monotonic() - started < SECONDS
    assert active_jobs() == []
    assert session.rows("SELECT 1 AS v", timeout=60) == [{"v": 1}]


@pytest.mark.parametrize("action", ["write", "rows", "to_arrow"])
def test_an_interrupt_stops_the_query(session, warehouse, active_jobs, action, tmp_path):
    staged = warehouse.begin("t")
    # Not a bare range: writing it row by row, Spark does not check whether its tasks are to stop.
    frame = session.query(ENDLESS)
    calls = {
        "write": lambda: session.write(frame, staged.target),
        "rows": lambda: session.rows(ENDLESS),
        "to_arrow": lambda: session.to_arrow(frame),
    }
    watcher = interrupt_when(active_jobs)
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        calls[action]()
    assert time.monotonic() - started < SECONDS
    watcher.join()
    assert active_jobs() == []
    staged.abort()
    assert not Path(staged.target.paths[0]).exists()


def test_a_timeout_stops_one_query_and_closing_the_session_stops_the_others(engine, session, active_jobs):
    errors: list[Exception] = []

    def run() -> None:
        try:
            session.rows(ENDLESS)
        except RivetError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(active_jobs)
    running = active_jobs()
    other = engine.session()
    with pytest.raises(TimeoutError):
        other.rows(ENDLESS, timeout=0.3)
    other.close()
    assert active_jobs() == running
    session.close()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert "cancelled" in str(errors[0])


def test_cancelling_is_repeated_until_the_query_ends():
    cancelled: list[float] = []
    ended = threading.Event()

    def work() -> None:
        while len(cancelled) < 3:
            time.sleep(0.01)
        ended.set()

    with pytest.raises(TimeoutError):
        wait_for(work, lambda: cancelled.append(time.monotonic()), timeout=0.1)
    assert ended.is_set()


def test_errors_of_the_work_are_raised_unchanged():
    with pytest.raises(ZeroDivisionError):
        wait_for(lambda: 1 // 0, lambda: None)
