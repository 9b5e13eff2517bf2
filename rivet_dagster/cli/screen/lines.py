"""The screen for files and pipes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from threading import RLock
from typing import TextIO

from rivet_dagster.cli.screen.contract import Screen, Verdict
from rivet_dagster.engines.contract import Progress
from rivet_dagster.execution.progress import ProgressLines


class Lines(Screen):
    """Whole lines that are never redrawn; those about progress are rate-limited."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._progress = ProgressLines(self._line)
        self._lock = RLock()

    def begin(self, groups: Collection[str]) -> None:
        """Do nothing: waves tell which groups there are."""

    def wave(self, number: int, groups: Sequence[str]) -> None:
        """Print the groups of the wave."""
        self._line(f"wave {number}: {', '.join(groups)}")

    def state(self, group: str, state: str, rows: int | None = None) -> None:
        """Print the state of the group."""
        self._line(f"{group}: {state}")

    def verdict(self, verdict: Verdict) -> None:
        """Print the verdict."""
        self._line(f"{verdict.joint}: check {verdict.check} {verdict.text}")

    def phase(self, group: str, name: str) -> None:
        """Do nothing: the report has the times of all phases."""

    def show(self, joint: str, progress: Progress) -> None:
        """Print a progress line, if one is due."""
        with self._lock:
            self._progress.show(joint, progress)

    def close(self) -> None:
        """Do nothing: every line is finished."""

    def _line(self, text: str) -> None:
        with self._lock:
            print(text, file=self._stream, flush=True)
