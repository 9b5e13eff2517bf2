"""The results of a project's tests, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class SchemaDifference:
    """A column whose type is another one than expected; None on the side that lacks the column."""

    column: str
    expected: str | None
    actual: str | None


@dataclass(frozen=True)
class NearRow:
    """A missing and an unexpected row that are the same but for some ``columns``."""

    missing: Row
    unexpected: Row
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Difference:
    """How a target's rows differ from the expected ones.

    ``near`` pairs some of ``missing`` with some of ``unexpected``. ``order`` is the number of the first row that stands
    in another place, where only the order differs.
    """

    missing: tuple[Row, ...] = ()
    unexpected: tuple[Row, ...] = ()
    schema: tuple[SchemaDifference, ...] = ()
    near: tuple[NearRow, ...] = ()
    order: int | None = None
    rows: int = 0

    @property
    def empty(self) -> bool:
        """Whether the rows are those expected."""
        return not (self.missing or self.unexpected or self.schema) and self.order is None


NO_DIFFERENCE = Difference()


@dataclass(frozen=True)
class TestResult:
    """The result of a test: its ``status`` is passed, failed or error; ``message`` says why it has not passed."""

    __test__ = False  # it is no class of tests of pytest's

    name: str
    file: str
    line: int | None
    target: str | None
    status: str
    seconds: float = 0.0
    difference: Difference = NO_DIFFERENCE
    message: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the result as ``test --format json`` prints it."""
        from rivet_dagster.project_tests.shown import json_row

        difference = self.difference
        return {
            "name": self.name,
            "file": self.file,
            "line": self.line,
            "target": self.target,
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "diff": {
                "missing": [json_row(row) for row in difference.missing],
                "unexpected": [json_row(row) for row in difference.unexpected],
                "schema": [vars(change) for change in difference.schema],
            },
            "message": self.message,
        }
