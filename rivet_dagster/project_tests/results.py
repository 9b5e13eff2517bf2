"""The results of a project's tests as data, and their values and rows for JSON and for people.

A test that has not passed shows its message, and its rows as a small table.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rivet_dagster.model.convert import shorten_text
from rivet_dagster.secrets.redaction import redacted

_WIDEST = 40


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON can have it: what JSON has no type for is a text."""
    return {name: json_value(value) for name, value in row.items()}


def json_value(value: Any) -> Any:
    """Return a value as JSON can have it.

    >>> from datetime import date
    >>> json_value([1, math.nan, date(2026, 1, 2), {"a": b"ab"}, [("k", None)]])
    [1, 'NaN', '2026-01-02', {'a': '6162'}, {'k': None}]
    """
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case str():
            return redacted(value)
        case bytes():
            return value.hex()
        case dict():
            return json_row(value)
        case [(_, _), *_] if all(isinstance(pair, tuple) for pair in value):
            return {str(json_value(key)): json_value(item) for key, item in value}
        case list() | tuple():
            return [json_value(item) for item in value]
    return redacted(str(value))


def text(value: Any) -> str:
    """Return a value on one line, shortened.

    >>> text(None), text("a\\nb"), text(""), text({"a": [1, None]})
    ('NULL', 'a\\\\nb', "''", '{a: [1, NULL]}')
    """
    return shorten_text(redacted(_text(value)), _WIDEST)


def _text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case float():
            return repr(value) if math.isfinite(value) else _not_finite(value)
        case str():
            return value.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t") or "''"
        case bytes():
            return f"X'{value.hex()}'"
        case dict():
            return f"{{{', '.join(f'{name}: {_text(item)}' for name, item in value.items())}}}"
        case [(_, _), *_] if all(isinstance(pair, tuple) for pair in value):
            return f"{{{', '.join(f'{_text(key)}: {_text(item)}' for key, item in value)}}}"
        case list() | tuple():
            return f"[{', '.join(map(_text, value))}]"
    return str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


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


MOST_ROWS = 20
"""How many rows are shown of each kind."""


def explanation(result: TestResult) -> str:
    """Return what is wrong, without the name of the test.

    >>> from rivet_dagster.project_tests.results import NearRow
    >>> ann, other = {"customer": "ann", "net": 1.0}, {"customer": "ann", "net": 2.0}
    >>> difference = Difference((ann,), (other,), near=(NearRow(ann, other, ("net",)),), rows=3)
    >>> print(explanation(TestResult("t", "t.test.yaml", 1, "j", "failed", difference=difference, message="1 of 3")))
    1 of 3
        customer  net
      - ann       1.0  expected
      + ann       2.0  differs in net
    """
    lines = (result.message or "").splitlines()
    return "\n".join([*lines, *_schema(result.difference), *_rows(result.difference)])


def _schema(difference: Difference) -> Iterator[str]:
    for change in difference.schema:
        if change.actual is None:
            type_ = "" if change.expected == "any" else f" {change.expected}"
            yield f"  - column {change.column}{type_}"
        elif change.expected is None:
            yield f"  + column {change.column} {change.actual}"
        else:
            yield f"  ~ column {change.column}: {change.actual}, expected {change.expected}"


def _rows(difference: Difference) -> list[str]:
    if not difference.missing and not difference.unexpected:
        return []
    paired_missing = [pair.missing for pair in difference.near]
    paired_unexpected = [pair.unexpected for pair in difference.near]
    missing = _others(difference.missing, paired_missing)
    unexpected = _others(difference.unexpected, paired_unexpected)
    shown: list[tuple[str, Row, str]] = []
    for pair in difference.near[:MOST_ROWS]:
        shown.append(("-", pair.missing, "expected"))
        shown.append(("+", pair.unexpected, f"differs in {', '.join(pair.columns)}"))
    shown += [("-", row, "missing") for row in missing[:MOST_ROWS]]
    shown += [("+", row, "unexpected") for row in unexpected[:MOST_ROWS]]
    left = len(difference.missing) + len(difference.unexpected) - len(shown)
    lines = _table(shown)
    return [*lines, f"    ... and {left} more rows"] if left else lines


def _others(rows: Sequence[Row], paired: Sequence[Row]) -> list[Row]:
    taken = {id(row) for row in paired}
    return [row for row in rows if id(row) not in taken]


def _table(shown: Sequence[tuple[str, Row, str]]) -> list[str]:
    names = list(shown[0][1])
    cells = [[text(row[name]) for name in names] for _, row, _ in shown]
    widths = [max(len(name), *(len(row[n]) for row in cells)) for n, name in enumerate(names)]

    def line(mark: str, values: Sequence[str], note: str) -> str:
        columns = "  ".join(value.ljust(width) for value, width in zip(values, widths, strict=True))
        return f"  {mark} {columns}  {note}".rstrip()

    rows = (line(mark, row, note) for (mark, _, note), row in zip(shown, cells, strict=True))
    return [line(" ", names, ""), *rows]
