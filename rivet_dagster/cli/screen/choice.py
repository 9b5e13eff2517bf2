"""The choice of a screen for a stream."""

from __future__ import annotations

from typing import TextIO

from rivet_dagster.cli.console import moves_cursor
from rivet_dagster.cli.screen.contract import Screen
from rivet_dagster.cli.screen.lines import Lines


def screen_on(stream: TextIO) -> Screen:
    """Return a Terminal if the stream is one on which lines can be redrawn, else Lines."""
    if not moves_cursor(stream):
        return Lines(stream)
    # Imported only here: files and pipes do without rich.
    from rivet_dagster.cli.screen.terminal import Terminal

    return Terminal(stream)
