"""The phases of a run and their times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
