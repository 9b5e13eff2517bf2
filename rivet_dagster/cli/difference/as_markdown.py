"""The difference of an environment as GitHub's Markdown, for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rivet_dagster.cli.difference.as_text import CAUSES, SAME_LOGIC, matched_by, rate, type_change, verdicts
from rivet_dagster.execution.difference.results import ChangedRow, EnvironmentDifference, Row, TableDifference, Value
from rivet_dagster.model.convert import shortened

LONGEST = 60_000
"""The length of a comment, of which GitHub takes 65,536 characters."""

_LONGEST_VALUE = 60
_SPECIAL = re.compile(r"[^\w ,]|_")
_LEFT_OUT = "Samples of some tables are left out, since the comment would be too long."


def difference_markdown(difference: EnvironmentDifference) -> str:
    """Return a table of all tables, then a section for each one that differs, with samples where there is room.

    >>> from rivet_dagster.execution.difference.results import RowDifference
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
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", value)


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
    return _table([code(name) for name in names], [[_value(row[name]) for name in names] for row in rows], len(names))


def _changed(rows: Sequence[ChangedRow], key: Sequence[str]) -> str:
    names = [name for name in rows[0].new if any(name in row.columns for row in rows)]
    cells = [
        [
            *(_value(row.new[name]) for name in key),
            *(f"{_value(row.old[name])} → {_value(row.new[name])}" if name in row.columns else "" for name in names),
        ]
        for row in rows
    ]
    return _table([code(name) for name in (*key, *names)], cells, len(key) + len(names))


def _value(value: Value) -> str:
    if value is None:
        return "NULL"
    text = shortened(str(value), _LONGEST_VALUE)
    return code(text) if text else "(empty)"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{content}\n\n</details>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], texts: int) -> str:
    """Return a table whose first ``texts`` columns are aligned to the left, the others to the right."""
    rule = ["---" if number < texts else "---:" for number in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *rows))
