"""The progress of a write, reported while somebody waits for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

from rivet_dagster.engines.contract import Progress
from rivet_dagster.engines.pyspark.stages import See, Stage

Watch = Callable[[str, See], AbstractContextManager[None]]
"""``SparkAdapter.watch``."""


class Tally:
    """Adds up stages. No number falls: a stage that Spark runs again or has forgotten keeps what it had."""

    def __init__(self) -> None:
        self._stages: Mapping[int, Stage] = {}

    def see(self, stages: Sequence[Stage]) -> None:
        """Take in what is known now; another thread may ask for the sum meanwhile."""
        seen = dict(self._stages)
        for stage in stages:
            known = seen.get(stage.id, stage)
            tasks = max(known.tasks, stage.tasks)
            # A task that ran twice, to be on the safe side, may have ended twice.
            done = min(max(known.tasks_done, stage.tasks_done), tasks)
            seen[stage.id] = Stage(stage.id, done, tasks)
        self._stages = seen

    def progress(self, seconds: float) -> Progress | None:
        """The sum; None while there is no task."""
        stages = self._stages.values()
        tasks = sum(stage.tasks for stage in stages)
        if not tasks:
            return None
        stages_done = sum(stage.tasks_done == stage.tasks for stage in stages)
        return Progress(stages_done, len(stages), sum(stage.tasks_done for stage in stages), tasks, seconds)


@contextmanager
def reporting(report: Callable[[Progress], None], watch: Watch, tag: str) -> Iterator[Callable[[], None]]:
    """Watch the work under ``tag`` that the block waits for; calling what this yields reports how far it is.

    If that was ever reported, the end of the block reports that everything is done; a block that raises does not.
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

    with watch(tag, tally.see):
        yield tick
    last = tally.progress(time.monotonic() - started) if reported else None
    if last:
        report(Progress(last.stages, last.stages, last.tasks, last.tasks, last.seconds))
