"""The progress of a write, by the stages of Spark that run under a tag."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rivet_dagster.engines.contract import Progress
from rivet_dagster.engines.pyspark.waiting import lost_connection_errors
from rivet_dagster.engines.waiting import THREAD_PREFIX, TICK_SECONDS

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class Stage(NamedTuple):
    """A stage that has begun; others are not counted, since Spark will skip some of them."""

    id: int
    tasks_done: int
    tasks: int


StageListener = Callable[[Sequence[Stage]], None]
"""A function that is called with stages, in another thread than the one that waits for the work."""


@contextmanager
def stages_polled(context: SparkContext, tag: str, listener: StageListener) -> Iterator[None]:
    """Pass the stages of the jobs under ``tag`` to ``listener`` once a second, until the block ends.

    They are polled in a thread of its own: a thread that waits for an answer of a busy or dead JVM cannot be
    interrupted.
    """
    ended = threading.Event()
    status = _JobStatus(context, tag)

    def poll() -> None:
        while not ended.wait(TICK_SECONDS):
            try:
                stages = status.begun()
            except lost_connection_errors():
                return  # Spark has died, which the work itself reports
            listener(stages)

    threading.Thread(target=poll, name=f"{THREAD_PREFIX}progress", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def stages_received(spark: SparkSession, listener: StageListener) -> Iterator[None]:
    """Pass the stages of all that ``spark`` runs, as the server sends them, to ``listener`` until the block ends."""

    def handler(stages: Iterable[Any] | None, **_: Any) -> None:
        begun = [s for s in stages or () if s.done or s.num_completed_tasks]
        listener([Stage(s.stage_id, s.num_completed_tasks, s.num_tasks) for s in begun])

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


class _JobStatus:
    """The jobs under a tag; those that have ended are not queried again, since each query is a call to the JVM."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._context = context
        self._tag = tag
        self._ended: set[int] = set()

    def begun(self) -> list[Stage]:
        """Return the begun stages of the jobs that had not ended at the last query."""
        # Spark's own status tracker finds jobs by tag, pyspark's does not.
        jobs = self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag)
        tracker = self._context.statusTracker()
        # Not by the number of running tasks, which Spark updates only when a task ends or an executor reports.
        running = set(tracker.getActiveStageIds())
        stages = []
        for job in set(jobs) - self._ended:
            info = tracker.getJobInfo(job)
            if info is None or info.status != "RUNNING":
                self._ended.add(job)
            for stage in info.stageIds if info else ():
                status = tracker.getStageInfo(stage)
                if status and (stage in running or status.numCompletedTasks):
                    stages.append(Stage(stage, status.numCompletedTasks, status.numTasks))
        return stages


Listen = Callable[[str, StageListener], AbstractContextManager[None]]
"""The type of ``SparkAdapter.listen``."""


class Tally:
    """The sum over stages. No number decreases: a stage that Spark repeats or forgets keeps its last numbers."""

    def __init__(self) -> None:
        self._stages: Mapping[int, Stage] = {}

    def update(self, stages: Sequence[Stage]) -> None:
        """Take the current numbers of stages; another thread may ask for the sum at the same time."""
        updated = dict(self._stages)
        for stage in stages:
            known = updated.get(stage.id, stage)
            tasks = max(known.tasks, stage.tasks)
            # A task that Spark ran twice (speculation) may have been counted twice.
            done = min(max(known.tasks_done, stage.tasks_done), tasks)
            updated[stage.id] = Stage(stage.id, done, tasks)
        self._stages = updated

    def progress(self, seconds: float) -> Progress | None:
        """Return the sum; None as long as there is no task."""
        stages = self._stages.values()
        tasks = sum(stage.tasks for stage in stages)
        if not tasks:
            return None
        stages_done = sum(stage.tasks_done == stage.tasks for stage in stages)
        return Progress(stages_done, len(stages), sum(stage.tasks_done for stage in stages), tasks, seconds)


@contextmanager
def report_progress(report: Callable[[Progress], None], listen: Listen, tag: str) -> Iterator[Callable[[], None]]:
    """Listen to the work under ``tag`` that the block waits for, and yield a function that reports its progress.

    If progress was ever reported, it is reported once more, with everything done, at the end of a block that does not
    raise.
    """
    tally = Tally()
    started = time.monotonic()
    reported = False

    def tick() -> None:
        nonlocal reported
        progress = tally.progress(time.monotonic() - started)
        if progress:
            reported = True
            report(progress)

    with listen(tag, tally.update):
        yield tick
    last = tally.progress(time.monotonic() - started) if reported else None
    if last:
        report(Progress(last.stages, last.stages, last.tasks, last.tasks, last.seconds))
