"""Adding up the progress of Spark's stages."""

from contextlib import contextmanager
from dataclasses import astuple
from types import SimpleNamespace

import pytest

from rivet_dagster.engines.contract import Progress
from rivet_dagster.engines.pyspark.connect import ConnectAdapter
from rivet_dagster.engines.pyspark.progress import Stage, Tally, report_progress


def tallied(*seen: list[Stage]) -> list[tuple[int, int, int, int]]:
    tally = Tally()
    found = []
    for stages in seen:
        tally.update(stages)
        progress = tally.progress(1)
        found.append(astuple(progress)[:4] if progress else None)
    return found


def test_stages_add_up_and_those_that_are_no_longer_reported_still_count():
    assert tallied([], [Stage(0, 2, 8)], [Stage(0, 8, 8), Stage(1, 1, 4)], [Stage(1, 4, 4)]) == [
        None, (0, 1, 2, 8), (1, 2, 9, 12), (2, 2, 12, 12),
    ]  # fmt: skip


def test_a_repeated_stage_does_not_reduce_the_progress():
    assert tallied([Stage(0, 7, 8)], [Stage(0, 0, 1)], [Stage(0, 1, 1)], [Stage(0, 8, 8)]) == [
        (0, 1, 7, 8), (0, 1, 7, 8), (0, 1, 7, 8), (1, 1, 8, 8),
    ]  # fmt: skip


def test_tasks_that_end_twice_do_not_exceed_the_total():
    assert tallied([Stage(0, 9, 8)]) == [(1, 1, 8, 8)]


class FakeJobs:
    """Jobs with stages set by hand."""

    def __init__(self) -> None:
        self.listener = None

    @contextmanager
    def listen(self, tag, listener):
        self.listener = listener
        yield


def test_the_end_reports_everything_as_done():
    reported: list[Progress] = []
    jobs = FakeJobs()
    with report_progress(reported.append, jobs.listen, "t") as tick:
        tick()
        jobs.listener([Stage(0, 3, 8)])
        tick()
        jobs.listener([Stage(0, 5, 8), Stage(1, 1, 2)])
    assert [astuple(progress)[:4] for progress in reported] == [(0, 1, 3, 8), (2, 2, 10, 10)]
    assert 0 <= reported[0].seconds <= reported[1].seconds


def test_a_write_without_reported_progress_reports_no_end():
    reported: list[Progress] = []
    jobs = FakeJobs()
    with report_progress(reported.append, jobs.listen, "t"):
        jobs.listener([Stage(0, 3, 8)])
    assert reported == []


def test_a_failed_write_is_not_reported_as_done():
    reported: list[Progress] = []
    jobs = FakeJobs()

    def work() -> None:
        with report_progress(reported.append, jobs.listen, "t") as tick:
            jobs.listener([Stage(0, 3, 8)])
            tick()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    assert [progress.tasks_done for progress in reported] == [3]


class FakeConnect:
    """The part of a Connect session that reports progress, with handlers called like those of its client."""

    def __init__(self) -> None:
        self.handlers = []

    def registerProgressHandler(self, handler) -> None:
        self.handlers.append(handler)

    def removeProgressHandler(self, handler) -> None:
        self.handlers.remove(handler)

    def tell(self, *stages: tuple[int, int, int, bool], done: bool = False) -> None:
        infos = [
            SimpleNamespace(stage_id=i, num_completed_tasks=ended, num_tasks=tasks, num_bytes_read=0, done=over)
            for i, ended, tasks, over in stages
        ]
        for handler in self.handlers:
            handler(stages=infos, inflight_tasks=2, operation_id="o", done=done)


# Reported by a server for a join with a sort: stages that will be skipped are listed as not begun.
JOIN = [
    (),
    ((0, 0, 8, False), (1, 0, 4, False)),
    ((0, 5, 8, False), (1, 0, 4, False)),
    ((0, 8, 8, True), (1, 4, 4, True), (2, 0, 8, False), (3, 0, 4, False), (4, 4, 6, False)),
    ((0, 8, 8, True), (5, 0, 4, False), (10, 0, 6, False), (1, 4, 4, True), (6, 0, 8, False), (9, 0, 8, False),
     (2, 0, 8, False), (7, 6, 6, True), (3, 0, 4, False), (11, 1, 2, False), (8, 0, 4, False), (4, 6, 6, True)),
]  # fmt: skip


def test_over_connect_only_stages_that_have_begun_are_counted():
    reported: list[Progress] = []
    spark = FakeConnect()
    with report_progress(reported.append, ConnectAdapter(spark).listen, "t") as tick:
        for stages in JOIN:
            spark.tell(*stages)
            tick()
    assert [astuple(progress)[:4] for progress in reported] == [
        (0, 1, 5, 8), (2, 3, 16, 18), (4, 5, 25, 26), (5, 5, 26, 26),
    ]  # fmt: skip
    assert spark.handlers == []


def test_over_connect_a_write_that_fails_leaves_no_handler():
    spark = FakeConnect()
    with pytest.raises(ZeroDivisionError), report_progress(print, ConnectAdapter(spark).listen, "t"):
        raise ZeroDivisionError
    assert spark.handlers == []
