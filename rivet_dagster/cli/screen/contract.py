"""The screen of a run, and what is shown on it.

The screen for files and pipes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Protocol, TextIO

from rivet_dagster.engines.contract import Progress
from rivet_dagster.execution.progress import ProgressLines, ProgressListener

RUNNING, AGAIN, WAITS = "running", "running again", "will be tried again"
DONE, FAILED, CANCELED, NOT_STARTED = "done", "FAILED", "canceled", "not started"
"""The states of a group, as the screen words them."""


@dataclass(frozen=True)
class Verdict:
    """The result of a check, as soon as it is known; ``error`` is why it could not run."""

    joint: str
    check: str
    passed: bool
    blocking: bool
    violations: int | None = None
    error: str | None = None

    @property
    def text(self) -> str:
        """The verdict in a few words.

        >>> Verdict("orders", "unique_id", False, False, 7).text
        'warning: 7 violations'
        """
        if self.passed:
            return "passed"
        lines = (self.error or "").strip().splitlines()
        why = lines[0] if lines else f"{self.violations:,} violation{'' if self.violations == 1 else 's'}"
        return f"{'FAILED' if self.blocking else 'warning'}: {why}"


class Screen(ProgressListener, Protocol):
    """Shows a run; several threads may use one."""

    def begin(self, groups: Collection[str]) -> None:
        """Take the groups that the run has."""

    def wave(self, number: int, groups: Sequence[str]) -> None:
        """Announce a wave of the plan and its groups in this run."""

    def state(self, group: str, state: str, rows: int | None = None) -> None:
        """Show the state that a group, or another step of the run, has now."""

    def verdict(self, verdict: Verdict) -> None:
        """Show the result of a check."""

    def close(self) -> None:
        """Remove what is unfinished, and leave the cursor as it was."""


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
