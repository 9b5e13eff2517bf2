"""Trees and tables on stdout, by rich: with colours on a terminal, plain text elsewhere."""

from __future__ import annotations

import sys

from rich.console import Console, RenderableType

_WIDE = 10_000
"""Columns of a file or a pipe: a line there is never broken."""


def show(content: RenderableType) -> None:
    """Print what rich renders."""
    on_terminal = sys.stdout.isatty()
    console = Console(file=sys.stdout, width=None if on_terminal else _WIDE, highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(content, soft_wrap=False)
    lines = (line.rstrip() for line in capture.get().splitlines())
    print("\n".join(lines))
