"""How far a write is, told while it goes on."""

import threading
import time
from dataclasses import astuple
from itertools import pairwise

import pytest
from support.slow import TICK, TWO_STAGES, ask_often, sleeping

from rivet_dagster.engines.contract import Progress


@pytest.fixture(autouse=True)
def _often(monkeypatch):
    ask_often(monkeypatch)


@pytest.fixture
def write(session, warehouse):
    """Write a query's rows, and what was told meanwhile."""

    def write(sql: str) -> list[Progress]:
        told: list[Progress] = []
        session.write(session.query(sql), warehouse.stage("t", {}).target, told.append)
        return told

    return write


@pytest.mark.parametrize("adaptive", [True, False])
def test_a_write_tells_numbers_that_grow_and_end_at_the_totals(session, write, adaptive):
    session.spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    session.spark.conf.set("spark.sql.adaptive.coalescePartitions.enabled", False)
    told = write(TWO_STAGES)
    assert len(told) > 4
    assert (told[0].stages, told[0].tasks) == (1, 8)
    assert told[0].tasks_done < 8
    assert any(0 < progress.tasks_done < 8 for progress in told)
    assert any((progress.stages_done, progress.stages) == (1, 2) for progress in told)
    for before, after in pairwise(told):
        assert all(a <= b for a, b in zip(astuple(before), astuple(after), strict=True))
    assert all(after.seconds - before.seconds >= TICK for before, after in pairwise(told[:-1]))
    assert all(progress.stages_done <= progress.stages for progress in told)
    assert all(progress.tasks_done <= progress.tasks for progress in told)
    assert astuple(told[-1])[:4] == (2, 2, 10, 10)


def test_the_work_of_another_session_is_not_counted(engine, session, write):
    other = engine.session()
    query = f"SELECT count(slept) AS n FROM (SELECT {sleeping('10L + id')} AS slept FROM range(0, 100, 1, 100))"
    thread = threading.Thread(target=lambda: other.rows(query))
    thread.start()
    told = write(TWO_STAGES)
    thread.join()
    other.close()
    assert {progress.stages for progress in told} == {1, 2}
    assert {progress.tasks for progress in told} <= {8, 9, 10}


def test_a_quick_write_tells_nothing(monkeypatch, write):
    monkeypatch.undo()
    assert write("SELECT 1 AS v") == []


def test_the_caller_is_told_in_its_own_thread(session, warehouse):
    threads: set[str] = set()
    here = threading.current_thread().name
    session.write(
        session.query(TWO_STAGES),
        warehouse.stage("t", {}).target,
        lambda _: threads.add(threading.current_thread().name),
    )
    assert threads == {here}


def test_what_the_listener_raises_stops_the_write(session, warehouse):
    def tired(_: Progress) -> None:
        raise ValueError("no more of it")

    started = time.monotonic()
    with pytest.raises(ValueError, match="no more of it"):
        session.write(
            session.query("SELECT count(*) AS n FROM range(1000000000000)"), warehouse.stage("t", {}).target, tired
        )
    assert time.monotonic() - started < 8
    assert list(session.spark.sparkContext.statusTracker().getActiveJobsIds()) == []
