"""The progress of a write, reported while the caller waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from rivet_dagster.engines.contract import Progress
from rivet_dagster.engines.pyspark.stages import Stage, StageListener

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
def reporting(report: Callable[[Progress], None], listen: Listen, tag: str) -> Iterator[Callable[[], None]]:
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
