"""Watching the stages of one piece of work, on a Spark application of this process and over Spark Connect."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from rivet_dagster.engines.pyspark.waiting import THREAD_PREFIX, TICK_SECONDS, unheard

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class Stage(NamedTuple):
    """A stage that has begun: of those that have not, Spark will skip some."""

    id: int
    tasks_done: int
    tasks: int


See = Callable[[Sequence[Stage]], None]
"""Told of stages in another thread than that which waits for the work."""


@contextmanager
def polled(context: SparkContext, tag: str, see: See) -> Iterator[None]:
    """Ask once a second for the stages of the jobs under ``tag``, until the block ends.

    In a thread of its own: whoever waits for an answer of a JVM that is busy or dead hears no interrupt.
    """
    ended = threading.Event()
    status = _JobStatus(context, tag)

    def poll() -> None:
        while not ended.wait(TICK_SECONDS):
            try:
                stages = status.begun()
            except unheard():
                return  # Spark itself is gone, which the work says better
            see(stages)

    threading.Thread(target=poll, name=f"{THREAD_PREFIX}progress", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def heard(spark: SparkSession, see: See) -> Iterator[None]:
    """Hear what the server tells of all that ``spark`` runs until the block ends."""

    def handler(stages: Iterable[Any] | None, **_: Any) -> None:
        begun = [s for s in stages or () if s.done or s.num_completed_tasks]
        see([Stage(s.stage_id, s.num_completed_tasks, s.num_tasks) for s in begun])

    spark.registerProgressHandler(handler)
    try:
        yield
    finally:
        spark.removeProgressHandler(handler)


class _JobStatus:
    """The jobs under a tag; those that have ended are not asked for again, because each question costs a call."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._context = context
        self._tag = tag
        self._ended: set[int] = set()

    def begun(self) -> list[Stage]:
        """The begun stages of the jobs that had not ended when they were last asked for."""
        # The tracker of pyspark finds no jobs by tag; that of Spark does.
        jobs = self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag)
        tracker = self._context.statusTracker()
        # Not by their running tasks: Spark brings that number up to date only when a task ends or an executor reports.
        running = set(tracker.getActiveStageIds())
        stages = []
        for job in set(jobs) - self._ended:
            info = tracker.getJobInfo(job)
            if info is None or info.status != "RUNNING":
                self._ended.add(job)
            for stage in info.stageIds if info else ():
                found = tracker.getStageInfo(stage)
                if found and (stage in running or found.numCompletedTasks):
                    stages.append(Stage(stage, found.numCompletedTasks, found.numTasks))
        return stages
