"""The console: what people read by rich, in colours on a terminal, and stdout reserved for what a program reads.

Errors and warnings go to stderr. Here are the exit codes of what is no RivetError.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from rivet_dagster.errors import Diagnostic

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text


_WIDE = 10_000
"""Columns of a file or a pipe: a line there is never broken."""

_DUMB = ("dumb", "unknown")

_MARKS = {"+ ": "green", "- ": "red", "~ ": "yellow", "! ": "bold red"}


def moves_cursor(stream: TextIO) -> bool:
    """Return whether a stream is a terminal that understands escape sequences."""
    return stream.isatty() and os.environ.get("TERM", "").lower() not in _DUMB


def has_colors(stream: TextIO) -> bool:
    """Return whether a stream is a terminal with colours, and the user has not switched them off by NO_COLOR."""
    return moves_cursor(stream) and not os.environ.get("NO_COLOR")


def console_on(stream: TextIO) -> Console:
    """Return the console of a stream."""
    from rich.console import Console

    return Console(
        file=stream,
        width=_rendered_width(stream),
        force_terminal=moves_cursor(stream),
        color_system="auto" if has_colors(stream) else None,
        highlight=False,
        markup=False,
        emoji=False,
    )


def terminal_width(stream: TextIO) -> int | None:
    """Return the columns of a terminal; None for a file or a pipe, whose lines are not broken."""
    return get_terminal_size().columns if stream.isatty() else None


def print_plain(text: str, stream: TextIO | None = None) -> None:
    """Print text, by default to stdout; characters that the stream's encoding does not have become ``?``."""
    stream = sys.stdout if stream is None else stream
    encoding = stream.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), file=stream)


def _rendered_width(stream: TextIO) -> int | None:
    """Return the columns for rich; None where it asks the terminal itself, each time that it draws."""
    if not stream.isatty():
        return _WIDE
    if sys.__stdin__ is not None and sys.__stdin__.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:  # a stream without a file, too
        return None


def show_changes(text: str) -> None:
    """Print the text of a difference to stdout; on a terminal its lines have the colour of their mark."""
    if not has_colors(sys.stdout):
        print_plain(text)
        return
    from rich.text import Text

    lines = [Text(line, _MARKS.get(line.lstrip()[:2], "")) for line in text.splitlines()]
    show(Text("\n").join(lines))


def show(content: RenderableType, stream: TextIO | None = None) -> None:
    """Print what rich renders, by default to stdout; lines of text are broken by the terminal alone, if at all."""
    from rich.text import Text

    stream = sys.stdout if stream is None else stream
    console = console_on(stream)
    with console.capture() as capture:
        console.print(content, soft_wrap=isinstance(content, Text))
    lines = (line.rstrip() for line in capture.get().splitlines())
    print_plain("\n".join(lines), stream)


def show_diagnostics(diagnostics: Iterable[Diagnostic], before: str = "", style: str = "bold red") -> None:
    """Print diagnostics, each after the words ``before``; on a terminal the code has a style."""
    for diagnostic in diagnostics:
        if has_colors(sys.stderr):
            show(diagnostic_text(diagnostic, before, style), sys.stderr)
        else:
            print(f"{before}{diagnostic}", file=sys.stderr)


def diagnostic_text(diagnostic: Diagnostic, before: str = "", style: str = "bold red") -> Text:
    """Return a diagnostic as it is printed, with styles for its code, place and remedy.

    >>> print(diagnostic_text(Diagnostic("RVT-302", "no such joint", file="joints/a.sql", line=3, remediation="Go.")))
    RVT-302 joints/a.sql:3: no such joint
        Go.
    """
    # Imported only here: most commands print no error, and files get no colours.
    from rich.text import Text

    written = str(diagnostic)
    text = Text(before + written)
    start = len(before)
    text.stylize(style, 0, start + len(diagnostic.code))
    if diagnostic.file:
        location = f"{diagnostic.file}:{diagnostic.line}" if diagnostic.line else diagnostic.file
        begin = start + len(diagnostic.code) + 1
        text.stylize("bold", begin, begin + len(location))
    if diagnostic.remediation:
        text.stylize("dim", len(text) - len(diagnostic.remediation))
    return text


FAILURE = 1
"""A defect, or output that nobody reads."""
INTERRUPTED = 130
"""Ctrl-C: 128 and the signal's number, as shells have it."""


@contextmanager
def reserve_stdout() -> Iterator[None]:
    """Redirect the block's output to stderr, whether written by Python, the JVM or another child process."""
    sys.stdout.flush()
    original = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(original, 1)
        os.close(original)


def open_closed_streams() -> None:
    """Open those of stdout and stderr that the caller has closed (``>&-``): what is printed there is dropped."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, number)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8", closefd=False))
            if null != number:
                os.close(null)


def readers_are_gone() -> bool:
    """Return whether stdout or stderr is a pipe that nobody reads any more."""
    streams = select.poll()
    for number in (1, 2):
        streams.register(number, 0)
    return any(events & select.POLLERR for _, events in streams.poll(0))


def discard_output() -> None:
    """Drop what is not written yet: Python would complain at its exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a stream of a test has no file
            os.dup2(null, stream.fileno())
    os.close(null)
