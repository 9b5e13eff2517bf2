"""Progress of a write, as DuckDB estimates it."""

from __future__ import annotations

import time
from collections.abc import Callable

from rivet_dagster.engines.contract import Progress

_TASKS = 100


class PercentReport:
    """Calls a listener with DuckDB's percentage, as the tasks of one stage, and never with a lower one."""

    def __init__(self, listener: Callable[[Progress], None], percent: Callable[[], float]) -> None:
        self._listener = listener
        self._percent = percent
        self._started = time.monotonic()
        self._done = -1

    def tick(self) -> None:
        """Report the percentage, if DuckDB has one by now."""
        percent = int(self._percent())
        if percent >= 0:
            self._done = max(self._done, min(percent, _TASKS - 1))
            self._report(self._done)

    def end(self) -> None:
        """Report that all is done, if anything has been reported."""
        if self._done >= 0:
            self._report(_TASKS)

    def _report(self, done: int) -> None:
        seconds = time.monotonic() - self._started
        self._listener(Progress(done // _TASKS, 1, done, _TASKS, seconds))
