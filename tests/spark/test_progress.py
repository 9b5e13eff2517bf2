"""Progress of a write while it runs."""

import os
import signal
import threading
import time
from dataclasses import astuple
from itertools import pairwise

import pytest
from support.slow import TICK, TWO_STAGES, poll_often, sleeping

from rivet_dagster.engines.contract import Progress


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    poll_often(monkeypatch)


@pytest.fixture
def write(session, warehouse):
    """Write a query's rows; return the progress that the listener got in the caller's thread."""
    here = threading.current_thread()

    def write(sql: str) -> list[Progress]:
        reported: list[Progress] = []

        def listen(progress: Progress) -> None:
            assert threading.current_thread() is here
            reported.append(progress)

        session.write(session.query(sql), warehouse.begin("t").target, listen)
        return reported

    return write


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("adaptive", [True, False])
def test_progress_of_a_write_grows_and_ends_at_the_totals(session, write, adaptive):
    session.spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    session.spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", False)
    reported = write(TWO_STAGES)
    assert len(reported) > 4
    assert (reported[0].stages, reported[0].tasks) == (1, 8)
    assert reported[0].tasks_done < 8
    assert any(0 < progress.tasks_done < 8 for progress in reported)
    assert any((progress.stages_done, progress.stages) == (1, 2) for progress in reported)
    for before, after in pairwise(reported):
        assert all(a <= b for a, b in zip(astuple(before), astuple(after), strict=True))
    assert all(after.seconds - before.seconds >= TICK for before, after in pairwise(reported[:-1]))
    assert all(progress.stages_done <= progress.stages for progress in reported)
    assert all(progress.tasks_done <= progress.tasks for progress in reported)
    assert astuple(reported[-1])[:4] == (2, 2, 10, 10)


@pytest.mark.nightly
def test_the_work_of_another_session_is_not_counted(engine, session, write):
    other = engine.session()
    query = f"SELECT count(slept) AS n FROM (SELECT {sleeping('10L + id')} AS slept FROM range(0, 50, 1, 50))"
    thread = threading.Thread(target=lambda: other.rows(query))
    thread.start()
    reported = write(TWO_STAGES)
    thread.join()
    other.close()
    assert {progress.stages for progress in reported} == {1, 2}
    assert {progress.tasks for progress in reported} <= {8, 9, 10}


def test_a_quick_write_reports_no_progress(monkeypatch, write):
    poll_often(monkeypatch, 3600.0)
    assert write("SELECT 1 AS v") == []


def tire(_: Progress) -> None:
    raise ValueError


def interrupt(_: Progress) -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(("listener", "error"), [(tire, ValueError), (interrupt, KeyboardInterrupt)])
def test_an_exception_of_the_progress_listener_stops_the_write(session, warehouse, listener, error):
    """The query would take five minutes."""
    frame = session.query(f"SELECT {sleeping('1000L + id')} AS slept FROM range(0, 600, 1, 600)")
    target = warehouse.begin("t").target
    started = time.monotonic()
    with pytest.raises(error):
        session.write(frame, target, listener)
    assert time.monotonic() - started < 60
    assert list(session.spark.sparkContext.statusTracker().getActiveJobsIds()) == []


def test_a_stage_is_reported_before_its_first_task_has_ended(write):
    reported = write(f"SELECT {sleeping('1500L + id')} AS slept FROM range(0, 2, 1, 2)")
    assert astuple(reported[0])[:4] == (0, 1, 0, 2)
