"""Tests as data: what each document declares, with the mistakes that are in it.

Mappings know the file and line of each key, also after one test has taken over keys of another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.schema import SparkType
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
    """A mapping, its ``location`` and the ``locations`` of its keys."""

    __slots__ = ("location", "locations")

    def __init__(self, location: LineOfFile) -> None:
        super().__init__()
        self.location = location
        self.locations: dict[str, LineOfFile] = {}

    def put(self, key: str, value: Any, location: LineOfFile) -> None:
        """Set a key that stands there."""
        self[key] = value
        self.locations[key] = location


def locate_keys(value: Any, file: str) -> Any:
    """Return a value of YAML with the locations of all its mappings' keys."""
    if isinstance(value, Located):
        result = LocatedKeys(LineOfFile(file, value.line))
        for key, item in value.items():
            result.put(key, locate_keys(item, file), LineOfFile(file, value.lines[key]))
        return result
    return [locate_keys(item, file) for item in value] if isinstance(value, list) else value


def merge_keys(base: LocatedKeys, overriding: LocatedKeys, path: tuple[str, ...] = ()) -> LocatedKeys:
    """Return the keys of a test ``base``, overridden by those of ``overriding``; mappings are merged.

    A key of ``overriding`` also replaces those that say the same in another way: ``error`` and ``expected``, and
    ``rows``, ``columns`` and ``file``.
    """
    others = _alternatives(path)
    replaced = others - overriding.keys() if others & overriding.keys() else frozenset()
    result = LocatedKeys(overriding.location)
    for key, value in base.items():
        if key not in replaced:
            result.put(key, value, base.locations[key])
    for key, value in overriding.items():
        before = result.get(key)
        if isinstance(before, LocatedKeys) and isinstance(value, LocatedKeys):
            value = merge_keys(before, value, (*path, key))
        result.put(key, value, overriding.locations[key])
    return result


def _alternatives(path: tuple[str, ...]) -> frozenset[str]:
    """Return the keys that replace each other in the mapping at ``path`` of a test."""
    match path:
        case ():
            return frozenset({"error", "expected"})
        case ("inputs", _) | ("expected",) | ("incremental", "this"):
            return frozenset({"rows", "columns", "file"})
    return frozenset()


JOINT, GRAPH = "joint", "graph"
EXACT, UNORDERED, SCHEMA_ONLY = "exact", "unordered", "schema_only"
PASSED, WARNED, FAILED, ERROR = "passed", "warned", "failed", "error"


@dataclass(frozen=True)
class GivenRows:
    """Rows as they are written: in the document, or in a ``file``, whose path is relative to the project.

    ``columns`` is None where nothing names them. ``rows`` have a value for each column, and stand on ``lines``.
    ``types`` are the columns of ``schema``, None without it.
    """

    location: LineOfFile
    columns: tuple[str, ...] | None = None
    rows: tuple[tuple[Any, ...], ...] = ()
    lines: tuple[int | None, ...] = ()
    file: str | None = None
    types: tuple[tuple[str, SparkType], ...] | None = None

    @property
    def only_types(self) -> bool:
        """Whether it tells columns and types, and no rows."""
        return self.columns is None and self.file is None and self.types is not None


@dataclass(frozen=True)
class IncrementalRun:
    """What an incremental run finds: the ``watermark`` (None: NULL) and the rows of the target, ``this``."""

    location: LineOfFile
    has_watermark: bool = False
    watermark: Any = None
    this: GivenRows | None = None


@dataclass(frozen=True)
class ProjectTest:
    """A test of a project. With ``errors`` it cannot be run, and its other fields may be incomplete.

    ``files`` are the test files that it is made from; ``locations`` are those of its keys, joints and checks, by path.
    """

    name: str
    location: LineOfFile
    target: str | None = None
    scope: str = JOINT
    inputs: Mapping[str, GivenRows] = field(default_factory=dict)
    incremental: IncrementalRun | None = None
    expected: GivenRows | None = None
    compare: str = UNORDERED
    tolerance: float | None = None
    ignored: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    files: frozenset[str] = frozenset()
    locations: Mapping[str, LineOfFile] = field(default_factory=dict)
    errors: tuple[Diagnostic, ...] = ()

    def location_of(self, path: str) -> LineOfFile:
        """Return where a key stands, such as ``inputs.orders``, else the location of the test."""
        return self.locations.get(path, self.location)

    @property
    def given(self) -> tuple[GivenRows, ...]:
        """All rows that it names."""
        this = self.incremental.this if self.incremental is not None else None
        return tuple(rows for rows in (*self.inputs.values(), this, self.expected) if rows is not None)

    @property
    def fixture_files(self) -> frozenset[str]:
        """The files of its rows, relative to the project."""
        return frozenset(rows.file for rows in self.given if rows.file is not None)
