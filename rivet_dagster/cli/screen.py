"""What a person sees on stderr while a run goes on."""

from __future__ import annotations

from typing import Protocol, TextIO

from tqdm import tqdm

from rivet_dagster.engines.contract import Progress
from rivet_dagster.execution.progress import ProgressLines, progress_line


class Screen(Protocol):
    """Lines, and how far the write of a joint's rows is."""

    def line(self, text: str) -> None:
        """Print a line of its own."""

    def show(self, joint: str, progress: Progress) -> None:
        """Show how far it is; to be called often."""

    def close(self) -> None:
        """Leave nothing but whole lines."""


class Lines(Screen):
    """For files and pipes: nothing is taken back, and progress is told at a readable pace."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._progress = ProgressLines(self.line)

    def line(self, text: str) -> None:
        """Print it at once."""
        print(text, file=self._stream, flush=True)

    def show(self, joint: str, progress: Progress) -> None:
        """Print a line, if it is time for one."""
        self._progress(joint, progress)

    def close(self) -> None:
        """Nothing is open."""


class Terminal(Lines):
    """For a terminal: the last line is a bar that is drawn anew, and goes when another line comes."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._bar: tqdm | None = None

    def line(self, text: str) -> None:
        """Print it where the bar was."""
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
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def screen_on(stream: TextIO) -> Screen:
    """What suits the stream."""
    return Terminal(stream) if stream.isatty() else Lines(stream)
