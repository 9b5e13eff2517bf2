"""Stdout: reserved for output that a program reads, and closed, or read by nobody, without harm."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress


@contextmanager
def stdout_kept_for_the_report() -> Iterator[None]:
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
