"""Processes that run a module of this package."""

from __future__ import annotations

import sys
from pathlib import Path

_RUN = "import sys; sys.path.insert(0, sys.argv[1]); from {} import main; main()"
_PACKAGES = str(Path(__file__).parents[3])
"""Where this package was imported from."""


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that calls ``main`` of a module in a new process; ``arguments`` are ``sys.argv[2:]`` there."""
    # Not with -m, which would put the current folder on the path: its modules could hide others.
    return [sys.executable, "-P", "-c", _RUN.format(module), _PACKAGES, *arguments]
