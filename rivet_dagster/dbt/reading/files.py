"""The files of a dbt project, found as dbt finds them, without those that ``.dbtignore`` names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pathspec import PathSpec

from rivet_dagster.dbt.template import DbtTemplate, DbtTemplateError, read_template
from rivet_dagster.dbt.yaml_file import read_file
from rivet_dagster.project.text_file import TextError

_HIDDEN = (".", "#", "~")

IGNORE_FILE = ".dbtignore"


@dataclass(frozen=True)
class PackageFiles:
    """The files of the project in ``folder`` of ``root``, but for those that ``is_ignored`` says of their path."""

    root: Path
    folder: str
    is_ignored: Callable[[str], bool]

    def below(self, paths: Iterable[str], extensions: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """Yield the files with some extensions below ``paths`` of the folder, in order, without hidden ones.

        Each is its path from ``root``, and its path below the one of ``paths`` that it is in. No file is found twice.
        """
        seen: set[str] = set()
        for path in paths:
            top = os.path.join(self.root, self.folder, path)
            for current, folders, names in os.walk(top):
                folders.sort()
                for name in sorted(names):
                    if not name.lower().endswith(extensions) or name.startswith(_HIDDEN):
                        continue
                    file = os.path.relpath(os.path.join(current, name), self.root)
                    below = os.path.relpath(os.path.join(current, name), top)
                    if file not in seen and not self.is_ignored(os.path.normpath(os.path.join(path, below))):
                        seen.add(file)
                        yield file, below

    def links(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the links to folders below ``paths``, which dbt does not follow, as paths from ``root``."""
        for path in paths:
            for current, folders, _ in os.walk(os.path.join(self.root, self.folder, path)):
                linked = [os.path.join(current, name) for name in sorted(folders)]
                yield from (os.path.relpath(each, self.root) for each in linked if os.path.islink(each))


def template_of(root: Path, file: str) -> tuple[DbtTemplate | None, tuple[str, int] | None]:
    """Return the template in a file, or what is wrong with it and the line."""
    try:
        return read_template(read_file(root / file)), None
    except (TextError, DbtTemplateError) as error:
        return None, (error.message, error.line or 1)


def read_ignored(folder: Path) -> Callable[[str], bool]:
    """Return whether dbt does not read a file, given by its path from ``folder``. Raise TextError."""
    path = folder / IGNORE_FILE
    return ignore_matching(read_file(path)) if path.exists() else ignore_matching("")


def ignore_matching(text: str) -> Callable[[str], bool]:
    """Return whether patterns mean a path: the last one that matches decides. Raise TextError.

    >>> is_ignored = ignore_matching("*.sql  # no comment\\n*.csv\\n/models/old/\\n!models/old/**/new.sql")
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
