"""``.dbtignore``: which files of a project dbt does not read, by the patterns of ``.gitignore``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pathspec import PathSpec

from rivet_dagster.dbt.text_files import read_file
from rivet_dagster.project.text_file import TextError

IGNORE_FILE = ".dbtignore"


def read_ignored(folder: Path) -> Callable[[str], bool]:
    """Return whether dbt does not read a file, given by its path from ``folder``. Raise TextError."""
    path = folder / IGNORE_FILE
    return ignored(read_file(path)) if path.exists() else ignored("")


def ignored(text: str) -> Callable[[str], bool]:
    """Return whether patterns mean a path: the last one that matches decides. Raise TextError.

    >>> is_ignored = ignored("*.sql  # no comment\\n*.csv\\n/models/old/\\n!models/old/**/new.sql")
    >>> [is_ignored(path) for path in ("seeds/a.csv", "a.sql", "models/old/x/a.sql", "models/old/x/new.sql")]
    [True, False, True, False]
    """
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        try:
            _patterns([line])
        except ValueError as error:
            raise TextError(str(error), number) from error
    return _patterns(lines).match_file


def _patterns(lines: list[str]) -> PathSpec[Any]:
    with warnings.catch_warnings():
        # The name that dbt uses; since 1.0 pathspec has others, of which older ones know nothing.
        warnings.simplefilter("ignore", DeprecationWarning)
        return PathSpec.from_lines("gitwildmatch", lines)
