"""Sentences about the difference of a table, which text and Markdown share."""

from __future__ import annotations

from rivet_dagster.compiler.changed_tables import ADDED, DROPPED, ColumnChange
from rivet_dagster.compiler.diff import OWN, UPSTREAM
from rivet_dagster.execution.difference.results import TableDifference, VerdictChange

CAUSES = {OWN: "its own logic changed", UPSTREAM: "only joints before it changed"}
"""Why a table changed; its logic and that of joints before it may also be the same."""

SAME_LOGIC = "no logic changed"


def matched_by(table: TableDifference) -> str:
    """Return how rows were matched.

    >>> from rivet_dagster.execution.difference.results import RowDifference
    >>> matched_by(TableDifference("orders", "own", (), RowDifference(key=("id", "day")), (), rows_before=1))
    'matched by id, day'
    """
    if table.rows_before is None:
        return "a new table"
    return f"matched by {', '.join(table.rows.key)}" if table.rows.key else "without a key, so no row counts as changed"


def rate(count: int | None, rows: int | None) -> str:
    """Return a number of changed rows and the part that it is of all ``rows`` of the older version.

    >>> rate(1200, 40_000), rate(1, 100_000), rate(None, 5)
    ('1,200 (3.0%)', '1 (<0.1%)', 'cannot be compared')
    """
    if count is None:
        return "cannot be compared"
    if not rows:
        return f"{count:,}"
    part = 100 * count / rows
    return f"{count:,} ({'<0.1' if 0 < part < 0.1 else f'{part:.1f}'}%)"


def type_change(change: ColumnChange) -> str:
    """Return what happened to a column, without its name.

    >>> type_change(ColumnChange("net", "retyped", "int", "double"))
    'retyped from int to double'
    """
    if change.change == ADDED:
        return f"added ({change.after})"
    if change.change == DROPPED:
        return f"dropped ({change.before})"
    return f"retyped from {change.before} to {change.after}"


def verdicts(change: VerdictChange) -> tuple[str, str]:
    """Return the verdicts before and after, each with the number of violations.

    >>> verdicts(VerdictChange("unique_id", "unique", "audit", "warn", None, "warned", None, 3))
    ('not judged', 'warned, violations: 3')
    """
    return _verdict(change.before, change.violations_before), _verdict(change.after, change.violations_after)


def _verdict(verdict: str | None, violations: int | None) -> str:
    if verdict is None:
        return "not judged"
    if violations is None:
        return f"{verdict}, could not run"
    return f"{verdict}, violations: {violations:,}" if violations else verdict
