"""The screen for terminals, lines that stay and below them a bar for each running group; the choice of a screen.

Lines that this process and its children write to a terminal by themselves.
"""

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
from typing import TextIO

from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars
from rich.table import Column
from rich.text import Text

from rivet_dagster.cli.console import console_on, moves_cursor
from rivet_dagster.cli.screen.contract import AGAIN, CANCELED, DONE, NOT_STARTED, RUNNING, WAITS, Lines, Screen, Verdict
from rivet_dagster.engines.contract import Progress

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
        self._own = OwnOutput(self._pass_on) if _is_stderr(stream) else None

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
            own, self._own = self._own, None
        if own is not None:
            own.close()
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
    if not moves_cursor(stream):
        return Lines(stream)
    # Imported only here: files and pipes do without rich.
    from rivet_dagster.cli.screen.terminal import Terminal

    return Terminal(stream)


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
