"""``.dbtignore``: which files of a project dbt does not read, by the patterns of ``.gitignore``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from rivet_dagster.dbt.text_files import read_file

IGNORE_FILE = ".dbtignore"


def read_ignored(folder: Path) -> Callable[[str], bool]:
    """Return whether dbt does not read a file, given by its path from ``folder``. Raise TextError."""
    path = folder / IGNORE_FILE
    return ignored(read_file(path)) if path.exists() else lambda _: False


def ignored(text: str) -> Callable[[str], bool]:
    """Return whether patterns mean a path: the last one that matches decides.

    >>> is_ignored = ignored("*.sql  # no comment\\n*.csv\\n/models/old/\\n!models/old/**/new.sql")
    >>> [is_ignored(path) for path in ("seeds/a.csv", "a.sql", "models/old/x/a.sql", "models/old/x/new.sql")]
    [True, False, True, False]
    """
    rules = list(_rules(text))

    def is_ignored(path: str) -> bool:
        return next((is_left_out for rule, is_left_out in reversed(rules) if rule.fullmatch(path)), False)

    return is_ignored


def _rules(text: str) -> Iterator[tuple[re.Pattern[str], bool]]:
    for line in text.splitlines():
        pattern = line if line.endswith("\\ ") else line.rstrip()
        is_left_out = not pattern.startswith("!")
        pattern = pattern.removeprefix("!")
        if pattern and not line.startswith("#") and pattern != "/":
            yield re.compile(_regex(pattern), re.DOTALL), is_left_out


def _regex(pattern: str) -> str:
    parts = pattern.split("/")
    if not parts[0]:
        del parts[0]
    elif len(parts) == 1 or (len(parts) == 2 and not parts[1]):
        parts.insert(0, "**")
    if len(parts) > 1 and not parts[-1]:
        parts[-1] = "**"
    parts = [part for n, part in enumerate(parts) if part != "**" or n == 0 or parts[n - 1] != "**"]
    found, last = "", len(parts) - 1
    needs_slash = False
    for number, part in enumerate(parts):
        if part != "**":
            below = "(?:/.*)?" if number == last else ""
            found += ("/" if needs_slash else "") + _part(part) + below
            needs_slash = True
        elif last == 0:
            found += ".+/.*" if pattern.endswith("/") else "[^/]+(?:/.*)?"
        elif number == 0:
            found += "(?:.+/)?"
        else:
            found += "/.*" if number == last else "(?:/.+)?"
    return found


def _part(part: str) -> str:
    """Return the expression of what is between two slashes."""
    if part == "*":
        return "[^/]+"
    found, position = "", 0
    while position < len(part):
        character = part[position]
        position += 1
        if character == "\\" and position < len(part):
            found += re.escape(part[position])
            position += 1
        elif character in "*?":
            found += "[^/]*" if character == "*" else "[^/]"
        elif character == "[" and (match := re.compile(r"([!^]?)(\]?[^\]]*)\]").match(part, position)):
            inside = re.sub(r"([\\\[&~|])", r"\\\1", match[2])
            found += f"[{'^' if match[1] else ''}{inside}]"
            position = match.end()
        else:
            found += re.escape(character)
    return found
