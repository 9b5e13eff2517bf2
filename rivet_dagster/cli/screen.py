"""The screen of a run on stderr: lines for files and pipes; terminals have a bar below for each running group, too."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from io import UnsupportedOperation
from threading import RLock
from typing import Protocol, TextIO

from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from rivet_dagster.cli.console import console_on, moves_cursor
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


_STYLES = {DONE: "green", NOT_STARTED: "yellow", CANCELED: "yellow", WAITS: "yellow", AGAIN: "yellow"}
_FAILED = "bold red"
_STDERR = 2
_NAME, _PHASE, _BAR, _WORK = 22, 8, 10, 26
"""The widths of columns, that of names at most: together with spinner and time they fit 80 columns."""


@dataclass(frozen=True)
class _Running:
    bar: TaskID
    since: float


class Terminal(Screen):
    """Bars by rich, which clears them before another line is printed and at the end."""

    def __init__(self, stream: TextIO) -> None:
        # A descriptor of its own: Dagster may send this process's stderr to a file, where bars are of no use.
        self._given, self._stream = stream, _duplicate(stream)
        self._closed = False
        self._console = console_on(self._stream)
        self._name = Column(no_wrap=True, overflow="ellipsis", width=_NAME)
        spinner = SpinnerColumn("line" if self._console.options.ascii_only else "dots", finished_text=" ")
        self._bars = Bars(
            spinner,
            _text("description", self._name),
            _text("fields[phase]", Column(no_wrap=True, width=_PHASE)),
            BarColumn(_BAR),
            _text("fields[work]", Column(no_wrap=True, overflow="ellipsis", width=_WORK)),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._lock = RLock()
        self._running: dict[str, _Running] = {}
        self._open: set[str] = set()
        self._total = 0
        self._all = self._bars.add_task("starting", total=None, phase="", work="")
        self._bars.start()
        self._output = OwnOutput(self._pass_on) if _is_stderr(stream) else None

    def begin(self, groups: Collection[str]) -> None:
        """Show the number of groups in the first bar, that of the run."""
        with self._lock:
            self._open, self._total = {*groups}, len(groups)
            self._name.width = min(_NAME, max(map(len, groups), default=0))
            self._count()

    def wave(self, number: int, groups: Sequence[str]) -> None:
        """Print the groups of the wave."""
        self._print((f"wave {number}", "bold cyan"), (f"  {', '.join(groups)}", ""))

    def state(self, group: str, state: str, rows: int | None = None) -> None:
        """Add or remove the bar of the group; print a line once it has ended."""
        with self._lock:
            running = self._running.pop(group, None)
            if running is not None:
                self._bars.remove_task(running.bar)
            if state in (RUNNING, AGAIN):
                bar = self._bars.add_task(group, total=None, phase="", work="")
                self._running[group] = _Running(bar, time.monotonic())
            if state == RUNNING:
                return
            took = [f"{time.monotonic() - running.since:.1f} s"] if running is not None else []
            counted = [f"{rows:,} row{'' if rows == 1 else 's'}"] if rows is not None else []
            aside = ", ".join(counted + took)
            self._print(
                (group, "bold"), (f"  {state}", _STYLES.get(state, _FAILED)), (f"  {aside}" if aside else "", "dim")
            )
            if state not in (AGAIN, WAITS):
                self._open.discard(group)
                self._count()

    def verdict(self, verdict: Verdict) -> None:
        """Print the verdict."""
        style = "green" if verdict.passed else _FAILED if verdict.blocking else "yellow"
        self._print((f"  {verdict.joint}.{verdict.check}  ", ""), (verdict.text, style))

    def phase(self, group: str, name: str) -> None:
        """Show the phase of the group, and no progress until there is some."""
        with self._lock:
            running = self._running.get(group)
            if running is not None:
                for task in self._bars.tasks:
                    if task.id == running.bar:  # `update` cannot take a total away again
                        task.total, task.finished_time = None, None
                self._bars.update(running.bar, phase=name, completed=0, work="", refresh=True)

    def show(self, joint: str, progress: Progress) -> None:
        """Draw the bar of the group whose exit is written."""
        with self._lock:
            running = self._running.get(joint)
            if running is not None:
                stages = f"{progress.stages_done}/{progress.stages} stages"
                work = f"{stages}, {progress.tasks_done}/{progress.tasks} tasks"
                self._bars.update(
                    running.bar, total=progress.tasks, completed=progress.tasks_done, work=work, refresh=True
                )

    def close(self) -> None:
        """Remove the bars."""
        with self._lock:
            output, self._output = self._output, None
        if output is not None:
            output.close()
        with self._lock:
            self._bars.stop()
            self._closed = True
            if self._stream is not self._given:
                self._stream.close()

    def _count(self) -> None:
        done = self._total - len(self._open)
        work = f"{done} of {self._total} groups"
        self._bars.update(self._all, description="run", total=self._total, completed=done, work=work)

    def _pass_on(self, line: str) -> None:
        with self._lock:
            if self._closed:
                print(line, file=self._given)
            else:
                self._print((line, "dim"))

    def _print(self, *parts: tuple[str, str]) -> None:
        self._console.print(Text.assemble(*parts), soft_wrap=True)


def _text(field: str, column: Column) -> TextColumn:
    return TextColumn(f"{{task.{field}}}", markup=False, table_column=column)


def _is_stderr(stream: TextIO) -> bool:
    try:
        return stream.fileno() == _STDERR
    except (UnsupportedOperation, OSError):
        return False


def _duplicate(stream: TextIO) -> TextIO:
    """Return another stream on the file of ``stream``; itself if it has none."""
    try:
        descriptor = os.dup(stream.fileno())
    except (UnsupportedOperation, OSError):
        return stream
    return os.fdopen(descriptor, "w", encoding=stream.encoding, errors="replace")


def screen_on(stream: TextIO) -> Screen:
    """Return a Terminal if the stream is one on which lines can be redrawn, else Lines."""
    return Terminal(stream) if moves_cursor(stream) else Lines(stream)


_STDOUT, _TERMINAL = 1, 2
_DRAINED = 0.5
"""The most seconds to wait for the last lines."""


class OwnOutput:
    """Passes each line that is written to stdout and stderr to ``show``, until ``close``.

    Spark's JVM writes to the descriptors that it inherits: in the midst of a bar, if these were the terminal's.
    """

    def __init__(self, show: Callable[[str], None]) -> None:
        self._show = show
        self._saved = {descriptor: os.dup(descriptor) for descriptor in (_STDOUT, _TERMINAL)}
        self._read, write = os.pipe()
        for descriptor in self._saved:
            os.dup2(write, descriptor)
        os.close(write)
        # A daemon thread: the JVM keeps the pipe open for as long as it runs.
        threading.Thread(target=self._pass_on, name="rivet-own-output", daemon=True).start()

    def close(self) -> None:
        """Give the process its outputs back; what a child writes later is still shown."""
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, saved in self._saved.items():
            os.dup2(saved, descriptor)
            os.close(saved)
        self._saved.clear()
        deadline = time.monotonic() + _DRAINED
        while select.select([self._read], [], [], 0)[0] and time.monotonic() < deadline:
            time.sleep(0.01)

    def _pass_on(self) -> None:
        with os.fdopen(os.dup(self._read), encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self._show(line.rstrip("\n"))
