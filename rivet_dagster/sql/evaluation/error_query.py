"""The query of one operator's errors: one row for each error of each input row that the operator cannot evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rivet_dagster.model.text_lines import Stretch, place_of
from rivet_dagster.sql.evaluation.raising import any_of, literal
from rivet_dagster.sql.evaluation.sites import Fallible

_LONGEST = 500
"""The most characters of an expression that an error shows."""

_OPTIONS = "map('ignoreNullFields', 'false')"


@dataclass(frozen=True)
class Place:
    """Where a query stands: its joint, and the file and the line in it with which the query begins.

    ``lines`` are those of a query that was rendered from a template.
    """

    joint: str
    file: str | None = None
    first_line: int | None = None
    lines: tuple[Stretch, ...] = ()

    def line(self, line: int) -> int | None:
        """Return the line of the file of a line of the query, both counted from 1; for text of a macro, of its call."""
        return None if self.first_line is None else self.first_line + place_of(self.lines, line).own_line - 1


def json_of(value: str) -> str:
    """Return a SQL expression of a struct as JSON, fields without a value included."""
    return f"to_json({value}, {_OPTIONS})"


def error_query(place: Place, expressions: Sequence[Fallible], row: str, key: str, rows: str, after: str = "") -> str:
    """Return the query with QUERY_COLUMNS of the errors that ``expressions`` raise.

    ``row`` and ``key`` are expressions of the JSON of a row. ``rows`` are the clauses of the SELECT behind its items;
    if they do not leave out the rows without errors, ``after`` is the condition that does so, on the column ``errors``.
    """
    failed = any_of([expression.failed for expression in expressions])
    sites = ", ".join(
        f"IF({site.failed}, {_struct(place, site.text, site.line, site.condition, site.message)}, NULL)"
        for expression in expressions
        for site in expression.sites
    )
    # An error whose site is not known for certain is one of the whole expression.
    whole = " ".join(
        f"WHEN {e.failed} THEN {_struct(place, e.text, e.line, literal('UNKNOWN'), literal(''))}" for e in expressions
    )
    found = (
        f"SELECT CASE WHEN {failed} THEN array({sites}) END AS errors, CASE {whole} END AS whole, "
        f"{row} AS row, {key} AS key {rows}"
    )
    number = sum(len(expression.sites) for expression in expressions)
    codes = ", ".join(f"errors[{index}].code" for index in range(number))
    known = f"coalesce({codes}, NULL) IS NOT NULL" if codes else "false"
    return (
        f"SELECT {literal(place.joint)} AS joint, e.code, e.expression, CAST({literal(place.file)} AS STRING) AS file, "
        f"e.line, e.message, r.row, r.key "
        f"FROM (SELECT IF({known}, errors, array(whole)) AS errors, row, key FROM ({found}){after}) r "
        f"LATERAL VIEW inline(r.errors) e AS code, expression, line, message WHERE e.code IS NOT NULL"
    )


def _struct(place: Place, text: str, line: int, condition: str, message: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    line_of_file = place.line(line)
    number = "CAST(NULL AS INT)" if line_of_file is None else literal(line_of_file)
    fields = {"code": condition, "expression": literal(shown), "line": number, "message": message}
    return f"named_struct({', '.join(f'{literal(name)}, {value}' for name, value in fields.items())})"
