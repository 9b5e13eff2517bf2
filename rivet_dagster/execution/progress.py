"""The phases of a group, listeners for its progress, and one that writes lines at a pace that a person can read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rivet_dagster.engines.contract import Progress

FIRST_SECONDS = 5.0
GREATEST_STEP = 60.0


class ProgressListener(Protocol):
    """Is called in the thread in which a group runs."""

    def show(self, joint: str, progress: Progress) -> None:
        """Take the progress of the write of a joint's rows; called about once a second."""

    def phase(self, group: str, name: str) -> None:
        """Take the name of a phase that a group enters."""


class ProgressLines(ProgressListener):
    """Writes a line after 5, 10, 20, 40 and 80 seconds of a write, then one a minute; none about phases."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._due: dict[str, float] = {}

    def show(self, joint: str, progress: Progress) -> None:
        """Write the line if one is due."""
        due = self._due.get(joint, FIRST_SECONDS)
        if progress.seconds >= due:
            self._write(progress_line(joint, progress))
            self._due[joint] = _next(due, progress.seconds)

    def phase(self, group: str, name: str) -> None:
        """Do nothing: of a long phase there are lines, a short one is over before anybody reads of it."""


def progress_line(name: str, progress: Progress) -> str:
    """Return the progress as a line of text.

    >>> progress_line("daily_report", Progress(3, 5, 240, 800, 20.4))
    'daily_report: 3 of 5 stages, 240 of 800 tasks (30%), 20 s'
    """
    stages = f"{progress.stages_done} of {progress.stages} stages"
    tasks = f"{progress.tasks_done} of {progress.tasks} tasks ({progress.percent}%)"
    return f"{name}: {stages}, {tasks}, {progress.seconds:.0f} s"


def _next(due: float, seconds: float) -> float:
    """Return the first time after ``seconds`` at which a line is due.

    >>> _next(5.0, 5.1), _next(5.0, 27.0), _next(40.0, 41.0), _next(80.0, 81.0)
    (10.0, 40.0, 80.0, 140.0)
    """
    while due <= seconds:
        due += min(due, GREATEST_STEP)
    return due


BRANCH, CONFIG, WRITE, QUALITY, PUBLISH, CLEAN_UP = "branch", "config", "write", "quality", "publish", "clean_up"
PHASES = (BRANCH, CONFIG, WRITE, QUALITY, PUBLISH, CLEAN_UP)


class PhaseClock:
    """The seconds spent in each phase, summed up if a phase is entered more than once.

    ``entered`` is called with the name of each phase that begins.
    """

    def __init__(self, entered: Callable[[str], None] = lambda _: None) -> None:
        self._entered = entered
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time of the block to the phase ``name``."""
        self._entered(name)
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - started
