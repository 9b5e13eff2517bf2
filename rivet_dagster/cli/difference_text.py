"""The difference of an environment as text for a terminal, and as GitHub's Markdown for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rivet_dagster.compiler.diff import ADDED, DROPPED, OWN, UPSTREAM, ColumnChange
from rivet_dagster.execution.difference.rows import (
    ChangedRow,
    EnvironmentDifference,
    Row,
    TableDifference,
    Value,
    VerdictChange,
)
from rivet_dagster.model.convert import shorten_text

CAUSES = {OWN: "its own logic changed", UPSTREAM: "only joints before it changed"}
"""Why a table changed; its logic and that of joints before it may also be the same."""

SAME_LOGIC = "no logic changed"


def matched_by(table: TableDifference) -> str:
    """Return how rows were matched.

    >>> from rivet_dagster.execution.difference.rows import RowDifference
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

    >>> from rivet_dagster.execution.difference.rows import RowDifference
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
    yield from difference_lines(table)


def difference_lines(table: TableDifference, old: str = "before", new: str = "now") -> Iterator[str]:
    """Yield the lines of what differs: counts, columns, schema, checks and samples; ``old`` and ``new`` say of what.

    >>> from rivet_dagster.execution.difference.rows import RowDifference
    >>> table = TableDifference("orders", "own", (), RowDifference(removed=2), (), rows_before=7, rows_after=5)
    >>> list(difference_lines(table, "in dbt", "here"))
    ['  rows     +0 -2 ~0 (7 in dbt, 5 here; without a key, so no row counts as changed)']
    """
    rows = table.rows
    before = "nothing" if table.rows_before is None else f"{table.rows_before:,}"
    counts = f"+{rows.added:,} -{rows.removed:,} ~{rows.changed:,}"
    yield f"  rows     {counts} ({before} {old}, {table.rows_after:,} {new}; {matched_by(table)})"
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
    return shorten_text(", ".join(f"{name}={_value(value)}" for name, value in row.items()), _WIDEST)


def _value(value: Value) -> str:
    return "NULL" if value is None else " ".join(str(value).split("\n"))


LONGEST = 60_000
"""The length of a comment, of which GitHub takes 65,536 characters."""

_LONGEST_VALUE = 60
_SPECIAL = re.compile(r"[^\w ,]|_")
_LEFT_OUT = "Samples of some tables are left out, since the comment would be too long."


def difference_markdown(difference: EnvironmentDifference) -> str:
    """Return a table of all tables, then a section for each one that differs, with samples where there is room.

    >>> from rivet_dagster.execution.difference.rows import RowDifference
    >>> rows = RowDifference(added=2, changed=1, key=("id",), columns={"net": 1})
    >>> table = TableDifference("orders", "own", (), rows, (), rows_before=1000, rows_after=1002)
    >>> print(difference_markdown(EnvironmentDifference("try", (table,))))
    ## Environment <code>try</code>: 1 of 1 tables differ from the base
    <BLANKLINE>
    | table | why | rows added | removed | changed | columns | checks |
    | --- | --- | ---: | ---: | ---: | ---: | ---: |
    | <code>orders</code> | its own logic changed | 2 | 0 | 1 | 0 | 0 |
    <BLANKLINE>
    ### <code>orders</code>
    <BLANKLINE>
    1,000 rows before, 1,002 now, matched by <code>id</code>.
    <BLANKLINE>
    | column | changed rows |
    | --- | ---: |
    | <code>net</code> | 1 (0.1%) |
    """
    differing = [table for table in difference.tables if not table.empty]
    head = (
        f"## Environment {code(difference.environment)}: "
        f"{len(differing)} of {len(difference.tables)} tables differ from the base"
    )
    parts = [head]
    if difference.tables:
        parts.append(_overview(difference.tables))
    sections = ["\n\n".join(_facts(table)) for table in differing]
    samples = ["\n\n".join(_samples(table)) for table in differing]
    room = LONGEST - sum(len(part) + 2 for part in (*parts, *sections, _LEFT_OUT))
    left_out = False
    for section, rows in zip(sections, samples, strict=True):
        parts.append(section)
        if rows and len(rows) + 2 <= room:
            parts.append(rows)
            room -= len(rows) + 2
        left_out |= bool(rows) and parts[-1] is not rows
    return "\n\n".join([*parts, _LEFT_OUT] if left_out else parts)


def code(value: str) -> str:
    """Return a text as code in which nothing is markup, a mention or a link, also within a table.

    >>> code("a|b <i>@ann</i>")
    '<code>a&#124;b &#60;i&#62;&#64;ann&#60;&#47;i&#62;</code>'
    """
    return f"<code>{_escaped(value)}</code>"


def _escaped(value: str) -> str:
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", value)


def _overview(tables: Sequence[TableDifference]) -> str:
    rows = [
        [
            code(table.joint),
            CAUSES.get(table.changed, SAME_LOGIC),
            *(f"{count:,}" for count in (table.rows.added, table.rows.removed, table.rows.changed)),
            str(len(table.schema)),
            str(len(table.checks)),
        ]
        for table in tables
    ]
    return _table(["table", "why", "rows added", "removed", "changed", "columns", "checks"], rows, texts=2)


def _facts(table: TableDifference) -> list[str]:
    before = "No table" if table.rows_before is None else f"{table.rows_before:,} rows"
    how = matched_by(table)
    if table.rows.key:
        how = f"matched by {', '.join(map(code, table.rows.key))}"
    parts = [f"### {code(table.joint)}", f"{before} before, {table.rows_after:,} now, {how}."]
    if table.rows.columns:
        rates = [[code(name), _rate(count, table.rows_before)] for name, count in table.rows.columns.items()]
        parts.append(_table(["column", "changed rows"], rates, texts=1))
    if table.schema:
        changes = [
            [code(change.column), code(type_change(change)), ", ".join(map(code, change.breaks))]
            for change in table.schema
        ]
        parts.append(_table(["column", "change", "read by"], changes, texts=3))
    if table.checks:
        checks = [[code(change.check), code(change.kind), *verdicts(change)] for change in table.checks]
        parts.append(_table(["check", "kind", "before", "after"], checks, texts=4))
    return parts


def _samples(table: TableDifference) -> list[str]:
    samples = table.rows.samples
    parts = []
    for word, rows, count in (
        ("added", samples.added, table.rows.added),
        ("removed", samples.removed, table.rows.removed),
    ):
        if rows:
            parts.append(_folded(f"{len(rows)} of {count:,} rows {word}", _rows(rows)))
    if samples.changed:
        title = f"{len(samples.changed)} of {table.rows.changed:,} rows changed"
        parts.append(_folded(title, _changed(samples.changed, table.rows.key)))
    return parts


def _rate(count: int | None, rows: int | None) -> str:
    return rate(count, rows).replace("<", "&lt;")


def _rows(rows: Sequence[Row]) -> str:
    names = list(rows[0])
    return _table([code(name) for name in names], [[_cell(row[name]) for name in names] for row in rows], len(names))


def _changed(rows: Sequence[ChangedRow], key: Sequence[str]) -> str:
    names = [name for name in rows[0].new if any(name in row.columns for row in rows)]
    cells = [
        [
            *(_cell(row.new[name]) for name in key),
            *(f"{_cell(row.old[name])} → {_cell(row.new[name])}" if name in row.columns else "" for name in names),
        ]
        for row in rows
    ]
    return _table([code(name) for name in (*key, *names)], cells, len(key) + len(names))


def _cell(value: Value) -> str:
    if value is None:
        return "NULL"
    text = shorten_text(str(value), _LONGEST_VALUE)
    return code(text) if text else "(empty)"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """Return a table whose first ``texts`` columns are aligned to the left, the others to the right."""
    rule = ["---" if number < texts else "---:" for number in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
