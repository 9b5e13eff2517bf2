"""Texts of a dbt project's files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rivet_dagster.project.text_file import TextError, read_text


def read_file(path: Path) -> str:
    """Return a file's text. Raise TextError, also for a pipe or a device, of which nobody knows when it ends."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return read_text(path)
    if not stat.S_ISREG(mode):
        raise TextError("it is no ordinary file", 1)
    return read_text(path)
