"""The difference of an environment as text for a terminal, with the sentences that Markdown shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rivet_dagster.compiler.changed_tables import ADDED, DROPPED, ColumnChange
from rivet_dagster.compiler.diff import OWN, UPSTREAM
from rivet_dagster.execution.difference.results import EnvironmentDifference, TableDifference, Value, VerdictChange
from rivet_dagster.model.convert import shortened

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


_WIDEST = 110


def difference_text(difference: EnvironmentDifference) -> str:
    """Return a paragraph for each table, after a line about all of them.

    >>> from rivet_dagster.execution.difference.results import RowDifference
    >>> rows = RowDifference(added=2, changed=1, key=("id",), columns={"net": 1})
    >>> table = TableDifference("orders", "own", (), rows, (), rows_before=1000, rows_after=1002)
    >>> print(difference_text(EnvironmentDifference("try", (table,))))
    environment try: 1 of 1 tables differ from the base
    <BLANKLINE>
    orders: its own logic changed
      rows     +2 -0 ~1 (1,000 before, 1,002 now; matched by id)
      columns  net 1 (0.1%)
    """
    differing = sum(not table.empty for table in difference.tables)
    head = f"environment {difference.environment}: {differing} of {len(difference.tables)} tables differ from the base"
    return "\n\n".join([head, *("\n".join(_lines(table)) for table in difference.tables)])


def _lines(table: TableDifference) -> Iterator[str]:
    yield f"{table.joint}: {CAUSES.get(table.changed, SAME_LOGIC)}"
    rows = table.rows
    if table.empty:
        yield "  the same rows, columns and verdicts"
        if rows.columns:
            yield f"  columns  {_columns(table)}"
        return
    before = "nothing" if table.rows_before is None else f"{table.rows_before:,}"
    counts = f"+{rows.added:,} -{rows.removed:,} ~{rows.changed:,}"
    yield f"  rows     {counts} ({before} before, {table.rows_after:,} now; {matched_by(table)})"
    if rows.columns:
        yield f"  columns  {_columns(table)}"
    for change in table.schema:
        breaks = f", read by {', '.join(change.breaks)}" if change.breaks else ""
        yield f"  schema   {change.column} {type_change(change)}{breaks}"
    for check in table.checks:
        yield f"  check    {check.check} ({check.kind}): {' -> '.join(verdicts(check))}"
    yield from (f"  + {_row(row)}" for row in rows.samples.added)
    yield from (f"  - {_row(row)}" for row in rows.samples.removed)
    for pair in rows.samples.changed:
        key = {name: pair.new[name] for name in rows.key}
        values = ", ".join(f"{name}: {_value(pair.old[name])} -> {_value(pair.new[name])}" for name in pair.columns)
        yield f"  ~ {_row(key)}  {values}"


def _columns(table: TableDifference) -> str:
    return ", ".join(f"{name} {rate(count, table.rows_before)}" for name, count in table.rows.columns.items())


def _row(row: Mapping[str, Value]) -> str:
    return shortened(", ".join(f"{name}={_value(value)}" for name, value in row.items()), _WIDEST)


def _value(value: Value) -> str:
    return "NULL" if value is None else " ".join(str(value).split("\n"))
