"""What a test that has not passed shows: its message, and its rows as a small table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rivet_dagster.project_tests.results import Difference, Row, TestResult
from rivet_dagster.project_tests.shown import text

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
