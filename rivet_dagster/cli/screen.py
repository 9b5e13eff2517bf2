"""Output on stderr during a run: lines and progress."""

from __future__ import annotations

from threading import RLock
from typing import Protocol, TextIO

from tqdm import tqdm

from rivet_dagster.engines.contract import Progress
from rivet_dagster.execution.progress import ProgressLines, progress_line


class Screen(Protocol):
    """Shows lines, and the progress of writing the rows of joints; several threads may use one."""

    def line(self, text: str) -> None:
        """Print a line."""

    def show(self, joint: str, progress: Progress) -> None:
        """Show the progress of a write; may be called often."""

    def close(self) -> None:
        """Remove an unfinished line, if there is one."""


class Lines(Screen):
    """For files and pipes: lines are never redrawn, and progress lines are rate-limited."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._progress = ProgressLines(self.line)
        self._lock = RLock()

    def line(self, text: str) -> None:
        """Print the line and flush it."""
        with self._lock:
            print(text, file=self._stream, flush=True)

    def show(self, joint: str, progress: Progress) -> None:
        """Print a progress line, if one is due."""
        with self._lock:
            self._progress(joint, progress)

    def close(self) -> None:
        """Do nothing: every line is finished."""


class Terminal(Lines):
    """For a terminal: the last line is a progress bar, redrawn in place and removed before another line is printed.

    While several joints are written it shows them together.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._bar: tqdm | None = None
        self._written: dict[str, Progress] = {}

    def line(self, text: str) -> None:
        """Remove the bar and print the line."""
        with self._lock:
            self.close()
            super().line(text)

    def show(self, joint: str, progress: Progress) -> None:
        """Draw the bar."""
        with self._lock:
            self._written[joint] = progress
            total = sum(each.tasks for each in self._written.values())
            done = sum(each.tasks_done for each in self._written.values())
            text = progress_line(joint, progress) if len(self._written) == 1 else _together(self._written, done, total)
            if self._bar is None:
                layout = {"bar_format": "{desc} |{bar}|", "dynamic_ncols": True, "leave": False}
                self._bar = tqdm(total=total, desc=text, file=self._stream, **layout)
            self._bar.total, self._bar.n = total, done
            self._bar.set_description_str(text)

    def close(self) -> None:
        """Remove the bar; joints that are still written will show again."""
        with self._lock:
            self._written.clear()
            if self._bar is not None:
                self._bar.close()
                self._bar = None


def _together(written: dict[str, Progress], done: int, total: int) -> str:
    return f"{', '.join(written)}: {done} of {total} tasks ({100 * done // total}%)"


def screen_on(stream: TextIO) -> Screen:
    """Return a Terminal if the stream is one, else Lines."""
    return Terminal(stream) if stream.isatty() else Lines(stream)
