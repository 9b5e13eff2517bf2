"""What a command prints, without what differs from run to run, to be compared with a file in the repository."""

from __future__ import annotations

import re
from pathlib import Path

from rivet_dagster.version import __version__

_VOLATILE = {
    "UUID": r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b",
    "VERSION": r"\b\d{8}-[0-9a-f]{8}\b",
    "MADE": r"(?<=environment pr-7 )[0-9a-f]{8}\b",
    "HASH": r"\b[0-9a-f]{16,64}\b",
    "TIME": r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[\d.]*(\+00:00|Z)?",
}
"""What is numbered in the order of its first appearance, so that a text still tells which of them are the same."""

_PHASE = "(branch|config|write|quality|publish|clean_up)"
_AMOUNTS = {
    # Which phases are the slowest is another each time.
    rf" +\d+\.\d  {_PHASE} \d+\.\d\d(, {_PHASE} \d+\.\d\d)*$": "  0.0  PHASES",
    rf"^(slowest phases  ){_PHASE} of .*$": r"\g<1>PHASES",
    r"\b\d+\.\d+s": "0.00s",
    r"\b\d+\.\d+ s\b": "0.0 s",
    r"\b[\d.]+ [GM]iB\b": "9.9 GiB",
    r'("(?:seconds|branch|config|write|quality|publish|clean_up)": )[\d.e-]+': r"\g<1>0.0",
}


class Normalizer:
    """Replaces the project's path, ids, times and amounts of one play of commands."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Return the text as the golden file has it."""
        text = text.replace(self._root.as_uri(), "file://ROOT").replace(str(self._root), "ROOT")
        for kind, form in _VOLATILE.items():
            text = re.sub(form, lambda match, kind=kind: self._name(kind, match[0]), text)
        for form, shown in _AMOUNTS.items():
            text = re.sub(form, shown, text, flags=re.MULTILINE)
        text = text.replace(f"rivet_dagster {__version__}", "rivet_dagster 9.9.9")
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())

    def _name(self, kind: str, value: str) -> str:
        number = 1 + sum(name.startswith(kind) for name in self._known.values())
        return self._known.setdefault(value, f"{kind}-{number}")


def document(command: str, code: int, out: str, err: str) -> str:
    """Return one golden file: the command, its exit code, and both streams."""
    return f"$ {command}\nexit code: {code}\n--- stdout\n{out}--- stderr\n{err}"
