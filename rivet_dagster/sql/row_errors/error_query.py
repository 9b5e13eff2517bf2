"""The query of one operator's errors: one row for each error of each input row that the operator cannot evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rivet_dagster.model.text_lines import Stretch, locate_line
from rivet_dagster.sql.row_errors.fallible import Fallible
from rivet_dagster.sql.row_errors.raising import literal

_LONGEST = 500
"""The most characters of an expression that an error shows."""

_ROW, _ERROR = "rivet_row", "rivet_error"
"""Names of parameters of lambdas that no column has."""

_SITE = "named_struct('site',"

_OPTIONS = "map('ignoreNullFields', 'false')"


@dataclass(frozen=True)
class QueryLocation:
    """Where a query stands: its joint, and the file and the line in it with which the query begins.

    ``lines`` are those of a query that was rendered from a template.
    """

    joint: str
    file: str | None = None
    first_line: int | None = None
    lines: tuple[Stretch, ...] = ()

    def line(self, line: int) -> int | None:
        """Return the line of the file of a line of the query, both counted from 1; for text of a macro, of its call."""
        return None if self.first_line is None else self.first_line + locate_line(self.lines, line).template_line - 1


def json_of(value: str) -> str:
    """Return a SQL expression of a struct as JSON, fields without a value included."""
    return f"to_json({value}, {_OPTIONS})"


def error_query(location: QueryLocation, expressions: Sequence[Fallible], row: str, key: str, rows: str) -> str:
    """Return the query with QUERY_COLUMNS of the errors that ``expressions`` raise.

    ``row`` and ``key`` are expressions of the JSON of a row. ``rows`` are the clauses of the SELECT behind its items,
    which may leave out the rows without errors.

    Spark copies neither the array of a row's errors nor a condition on it to below a SELECT with a value that is not
    deterministic, so that the array is computed once. A function with a lambda keeps Spark from compiling what is told
    of a bad row, which may be many times the code of what is asked of each row.
    """
    sites, errors = _errors(expressions)
    shown = ", ".join(f"{value} AS {name}" for name, value in _locations(location, sites, "e").items())
    return (
        f"SELECT {literal(location.joint)} AS joint, e.code, {shown}, e.message, r.row, r.key "
        f"FROM (SELECT IF(spark_partition_id() < 0, NULL, {errors}) AS errors, {row} AS row, {key} AS key {rows}) r "
        "LATERAL VIEW inline(r.errors) e AS site, code, message"
    )


def errors_in_full(location: QueryLocation, expressions: Sequence[Fallible], row: str, key: str) -> str:
    """Return an expression of the array of a row's errors, each a struct of QUERY_COLUMNS."""
    sites, errors = _errors(expressions)
    locations = ", ".join(f"'{name}', {value}" for name, value in _locations(location, sites, _ERROR).items())
    struct = (
        f"named_struct('joint', {literal(location.joint)}, 'code', {_ERROR}.code, {locations}, "
        f"'message', {_ERROR}.message, 'row', {_ROW}.row, 'key', {_ROW}.key)"
    )
    rows = f"array(named_struct('errors', {errors}, 'row', {row}, 'key', {key}))"
    return f"flatten(transform({rows}, {_ROW} -> transform({_ROW}.errors, {_ERROR} -> {struct})))"


def _errors(expressions: Sequence[Fallible]) -> tuple[list[tuple[str, int]], str]:
    """Return the texts and lines of sites, and the array of a row's errors, each with that of its site."""
    sites: list[tuple[str, int]] = []
    arrays = [_errors_of(expression, sites) for expression in expressions]
    return sites, arrays[0] if len(arrays) == 1 else f"flatten(array({', '.join(arrays)}))"


def _locations(location: QueryLocation, sites: Sequence[tuple[str, int]], error: str) -> dict[str, str]:
    """Return where an error is: its expression, file and line."""
    texts = ", ".join(literal(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...") for text, _ in sites)
    lines = [location.line(line) for _, line in sites]
    known = None not in lines
    return {
        "expression": f"array({texts})[{error}.site]",
        "file": f"CAST({literal(location.file)} AS STRING)",
        "line": f"array({', '.join(map(literal, lines))})[{error}.site]" if known else "CAST(NULL AS INT)",
    }


def number_of_sites(query: str) -> int:
    """Return how many places a query of errors tells apart."""
    return query.count(_SITE)


def _errors_of(expression: Fallible, sites: list[tuple[str, int]]) -> str:
    """Return an array of the errors of an expression, empty if there are none, and add what they show to ``sites``."""

    def error(text: str, line: int, condition: str, message: str) -> str:
        sites.append((text, line))
        return f"{_SITE} {len(sites) - 1}, 'code', {condition}, 'message', {message})"

    known = [(one.failed, error(one.text, one.line, one.condition, one.message)) for one in expression.sites]
    errors = ", ".join(f"IF({failed}, {shown}, NULL)" for failed, shown in known)
    errors = f"filter(array({errors}), e -> e IS NOT NULL)"
    if not expression.complete:
        # An error whose site is not known for certain is one of the whole expression.
        whole = error(expression.text, expression.line, literal("UNKNOWN"), literal(""))
        errors = f"transform(array({errors}), e -> IF(size(e) > 0, e, array({whole})))[0]"
    elif len(known) == 1:
        errors = f"array({known[0][1]})"
    return f"CASE WHEN {expression.failed} THEN {errors} ELSE array() END"
