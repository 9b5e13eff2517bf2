"""The difference of an environment as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rivet_dagster.cli.difference.words import CAUSES, SAME_LOGIC, matched_by, rate, type_change, verdicts
from rivet_dagster.execution.difference.results import EnvironmentDifference, TableDifference, Value
from rivet_dagster.model.convert import shortened

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
