"""Errors and warnings on stderr, with colours on a terminal, and the exit codes of what is no RivetError."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rivet_dagster.cli.console import has_colors, show
from rivet_dagster.errors import Diagnostic

if TYPE_CHECKING:
    from rich.text import Text


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
        place = f"{diagnostic.file}:{diagnostic.line}" if diagnostic.line else diagnostic.file
        begin = start + len(diagnostic.code) + 1
        text.stylize("bold", begin, begin + len(place))
    if diagnostic.remediation:
        text.stylize("dim", len(text) - len(diagnostic.remediation))
    return text


FAILURE = 1
"""A defect, or output that nobody reads."""
INTERRUPTED = 130
"""Ctrl-C: 128 and the signal's number, as shells have it."""
