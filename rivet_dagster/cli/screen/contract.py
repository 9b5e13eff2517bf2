"""The screen of a run, and what is shown on it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from rivet_dagster.execution.progress import ProgressListener

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
