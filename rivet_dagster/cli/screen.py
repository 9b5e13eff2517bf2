"""Output on stderr during a run: lines and progress."""

from __future__ import annotations

from typing import Protocol, TextIO

from tqdm import tqdm

from rivet_dagster.engines.contract import Progress
from rivet_dagster.execution.progress import ProgressLines, progress_line


class Screen(Protocol):
    """Shows lines, and the progress of writing a joint's rows."""

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

    def line(self, text: str) -> None:
        """Print the line and flush it."""
        print(text, file=self._stream, flush=True)

    def show(self, joint: str, progress: Progress) -> None:
        """Print a progress line, if one is due."""
        self._progress(joint, progress)

    def close(self) -> None:
        """Do nothing: every line is finished."""


class Terminal(Lines):
    """For a terminal: the last line is a progress bar, redrawn in place and removed before another line is printed."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._bar: tqdm | None = None

    def line(self, text: str) -> None:
        """Remove the bar and print the line."""
        self.close()
        super().line(text)

    def show(self, joint: str, progress: Progress) -> None:
        """Draw the bar."""
        text = progress_line(joint, progress)
        if self._bar is None:
            layout = {"bar_format": "{desc} |{bar}|", "dynamic_ncols": True, "leave": False}
            self._bar = tqdm(total=progress.tasks, desc=text, file=self._stream, **layout)
        self._bar.total, self._bar.n = progress.tasks, progress.tasks_done
        self._bar.set_description_str(text)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def screen_on(stream: TextIO) -> Screen:
    """Return a Terminal if the stream is one, else Lines."""
    return Terminal(stream) if stream.isatty() else Lines(stream)
