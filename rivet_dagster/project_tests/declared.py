"""Tests as data: what each document declares, with the mistakes that are in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.errors import Diagnostic
from rivet_dagster.model.spark_type import SparkType
from rivet_dagster.project_tests.placed import LineOfFile

JOINT, GRAPH = "joint", "graph"
EXACT, UNORDERED, SCHEMA_ONLY = "exact", "unordered", "schema_only"
PASSED, WARNED, FAILED, ERROR = "passed", "warned", "failed", "error"


@dataclass(frozen=True)
class GivenRows:
    """Rows as they are written: in the document, or in a ``file``, whose path is relative to the project.

    ``columns`` is None where nothing names them. ``rows`` have a value for each column, and stand on ``lines``.
    ``types`` are the columns of ``schema``, None without it.
    """

    place: LineOfFile
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

    place: LineOfFile
    has_watermark: bool = False
    watermark: Any = None
    this: GivenRows | None = None


@dataclass(frozen=True)
class ProjectTest:
    """A test of a project. With ``errors`` it cannot be run, and its other fields may be incomplete.

    ``files`` are the test files that it is made from; ``places`` are those of its keys, joints and checks, by path.
    """

    name: str
    place: LineOfFile
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
    places: Mapping[str, LineOfFile] = field(default_factory=dict)
    errors: tuple[Diagnostic, ...] = ()

    def place_of(self, path: str) -> LineOfFile:
        """Return where a key stands, such as ``inputs.orders``, else the place of the test."""
        return self.places.get(path, self.place)

    @property
    def given(self) -> tuple[GivenRows, ...]:
        """All rows that it names."""
        this = self.incremental.this if self.incremental is not None else None
        return tuple(rows for rows in (*self.inputs.values(), this, self.expected) if rows is not None)

    @property
    def fixture_files(self) -> frozenset[str]:
        """The files of its rows, relative to the project."""
        return frozenset(rows.file for rows in self.given if rows.file is not None)
