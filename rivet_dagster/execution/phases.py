"""The phases of a run and their times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

BRANCH, CONFIG, WRITE, QUALITY, PUBLISH, CLEAN_UP = "branch", "config", "write", "quality", "publish", "clean_up"
PHASES = (BRANCH, CONFIG, WRITE, QUALITY, PUBLISH, CLEAN_UP)


class PhaseClock:
    """Seconds spent in each phase; a phase entered twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block to ``name``."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] += time.perf_counter() - started
