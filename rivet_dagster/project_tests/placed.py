"""Mappings of YAML that know the file and line of each key, also after one test has taken over keys of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rivet_dagster.errors import Diagnostic
from rivet_dagster.project.yaml_text import Located


@dataclass(frozen=True)
class LineOfFile:
    """A line of a file of the project."""

    file: str
    line: int | None

    def diagnostic(self, code: str, message: str, remediation: str | None = None) -> Diagnostic:
        """Return a diagnostic that points here."""
        return Diagnostic(code, message, None, self.file, self.line, remediation)


class LocatedKeys(dict[str, Any]):
    """A mapping, its ``place`` and the ``places`` of its keys."""

    __slots__ = ("place", "places")

    def __init__(self, place: LineOfFile) -> None:
        super().__init__()
        self.place = place
        self.places: dict[str, LineOfFile] = {}

    def put(self, key: str, value: Any, place: LineOfFile) -> None:
        """Set a key that stands there."""
        self[key] = value
        self.places[key] = place


def placed(value: Any, file: str) -> Any:
    """Return a value of YAML with the places of all its mappings' keys."""
    if isinstance(value, Located):
        result = LocatedKeys(LineOfFile(file, value.line))
        for key, item in value.items():
            result.put(key, placed(item, file), LineOfFile(file, value.lines[key]))
        return result
    return [placed(item, file) for item in value] if isinstance(value, list) else value


def merged(base: LocatedKeys, own: LocatedKeys, path: tuple[str, ...] = ()) -> LocatedKeys:
    """Return the keys of a test ``base``, overridden by those of ``own``; mappings are merged.

    A key of ``own`` also replaces those that say the same in another way: ``error`` and ``expected``, and ``rows``,
    ``columns`` and ``file``.
    """
    others = _alternatives(path)
    replaced = others - own.keys() if others & own.keys() else frozenset()
    result = LocatedKeys(own.place)
    for key, value in base.items():
        if key not in replaced:
            result.put(key, value, base.places[key])
    for key, value in own.items():
        before = result.get(key)
        if isinstance(before, LocatedKeys) and isinstance(value, LocatedKeys):
            value = merged(before, value, (*path, key))
        result.put(key, value, own.places[key])
    return result


def _alternatives(path: tuple[str, ...]) -> frozenset[str]:
    """Return the keys that replace each other in the mapping at ``path`` of a test."""
    match path:
        case ():
            return frozenset({"error", "expected"})
        case ("inputs", _) | ("expected",) | ("incremental", "this"):
            return frozenset({"rows", "columns", "file"})
    return frozenset()
