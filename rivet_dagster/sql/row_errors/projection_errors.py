"""The errors of the conditions of WHERE and of the items of a SELECT list, beside windows, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rivet_dagster.sql.row_errors.aggregates import windows
from rivet_dagster.sql.row_errors.clauses import conjuncts
from rivet_dagster.sql.row_errors.code import Edit, on_one_line
from rivet_dagster.sql.row_errors.overflows import or_overflowing, overflow_of, with_attempts
from rivet_dagster.sql.row_errors.raising import RefusedError, any_of, true_or_false
from rivet_dagster.sql.row_errors.select_rewrite import Given, Operator, SelectRewrite, WhereConditions, refuse_inside
from rivet_dagster.sql.row_errors.sites import Fallible

_FLAG = "rivet_failed"
_FLAGS = "rivet_flags"
"""The column that tells which expressions fail for a row, each by a bit."""
_MOST_FLAGS = 62
"""A BIGINT has 63 bits beside its sign."""


def conditions(rewrite: SelectRewrite) -> WhereConditions:
    """Guard the conditions of WHERE, and return them."""
    part = rewrite.select.clause("where")
    clean: list[str] = []
    failing: list[Fallible] = []
    for condition in conjuncts(rewrite.code, part) if part is not None else ():
        expression = rewrite.expression(condition)
        text = on_one_line(rewrite.code.of_range(condition))
        wrong = rewrite.failing(expression)
        start, end = rewrite.code.place(condition)
        if wrong is None:
            clean.append(text)
            continue
        failing.append(wrong)
        rewrite.edits.append(Edit(start, end, wrong.truth))
    return WhereConditions(tuple(clean), tuple(failing))


def projection_operators(rewrite: SelectRewrite, given: Sequence[Given], kept: WhereConditions) -> Iterator[Operator]:
    failing = _failing_items(rewrite, given)
    if not failing and not kept.failing:
        return
    yield operator_of_rows(rewrite, kept, failing)
    if failing:
        condition = f"NOT ({any_of([one.failed for one in failing])})"
        rewrite.leave_out("where", condition, rewrite.from_end)
        rewrite.edit_constants(given, failing)


def _failing_items(rewrite: SelectRewrite, given: Sequence[Given]) -> list[Fallible]:
    failing = []
    for one in given:
        wrong = rewrite.failing(one.expression)
        if wrong is not None:
            rewrite.refuse_aliases(one)
            failing.append(wrong)
    return failing


def operator_of_rows(
    rewrite: SelectRewrite, kept: WhereConditions, failing: Sequence[Fallible], *, only_failing: bool = True
) -> Operator:
    """Return the operator of the conditions of WHERE, and of expressions of the rows that they keep.

    Its rows are those that fail if ``only_failing``, which no WHERE can tell of values of window functions.
    """
    expressions = failing_expressions(kept, failing)
    conditions = list(kept.clean)
    rows = [f"FROM {rewrite.rendered(rewrite.from_start, rewrite.from_end)}"] if rewrite.select.relations else []
    # Spark moves no condition of a WHERE to below the view of the flags.
    has_conditions = bool(kept.clean or kept.failing)
    flagged = only_failing and bool(rows) and not has_conditions and 1 < len(failing) <= _MOST_FLAGS
    if flagged:
        rows.append(_view_of_flags(expressions))
        conditions.append(f"{_FLAGS} <> 0")
        expressions = [replace(one, failed=f"{_FLAGS} & {bit} <> 0") for bit, one in _bits(expressions)]
    elif only_failing:
        # First, since it is true of few rows.
        conditions.append(any_of([one.failed for one in expressions]))
    if not only_failing or len(expressions) > 1:
        conditions += [true_or_false(one.text, one.failed, "true") for one in kept.failing]
    if conditions:
        rows.append(f"WHERE {' AND '.join(f'({condition})' for condition in conditions)}")
    names = rewrite.select.clause("window")
    if names is not None:
        rows.append(f"WINDOW {on_one_line(rewrite.code.of_range(names))}")
    added = _FLAGS if flagged else ""
    return rewrite.operator(expressions, rewrite.select.relations, " ".join(rows), added=added)


def _view_of_flags(failing: Sequence[Fallible]) -> str:
    """Return the LATERAL VIEW that adds the flags of a row to it.

    So Spark evaluates each expression once for a row, and moves no copy of one to below the view, whose value is not
    deterministic. An attempt that fails throws and catches a Java exception, which counts where many values are bad.
    """
    flags = " + ".join(f"IF({one.failed}, {bit}, 0L)" for bit, one in _bits(failing))
    return f"LATERAL VIEW explode(array(IF(spark_partition_id() < 0, NULL, {flags}))) {_FLAGS} AS {_FLAGS}"


def _bits(failing: Sequence[Fallible]) -> Iterator[tuple[str, Fallible]]:
    for number, one in enumerate(failing):
        yield f"{2**number}L", one


def failing_expressions(kept: WhereConditions, failing: Sequence[Fallible]) -> list[Fallible]:
    """Return the conditions of WHERE that can fail, and such expressions of the rows for which they do not."""
    wrong = [one.failed for one in kept.failing]
    later = [only_where(one, f"NOT ({any_of(wrong)})") for one in failing] if wrong else failing
    return [*kept.failing, *later]


def window_operators(rewrite: SelectRewrite, given: Sequence[Given], kept: WhereConditions) -> Iterator[Operator]:
    """Keep bad rows for the windows of others, and leave them out behind the windows."""
    failing: list[Fallible] = []
    places: list[Edit] = []
    unnamed = False
    for one in given:
        for window in one.windows:
            refuse_inside(one.expression, window, "a window over an expression")
        found = [None if rewrite.only_certain else overflow_of(one.expression, window) for window in one.windows]
        overflows = [overflow for overflow in found if overflow is not None]
        expression = with_attempts(one.expression, overflows)
        wrong = or_overflowing(rewrite.failing(expression, windows(expression.tree)), expression, overflows)
        if wrong is None:
            continue
        rewrite.refuse_aliases(one)
        unnamed |= one.item.alias is None
        failing.append(wrong)
        places.append(Edit(*rewrite.code.place(one.item.part), wrong.value))
    if kept.failing:
        yield operator_of_rows(rewrite, kept, ())
    rows = WhereConditions((*kept.clean, *(one.truth for one in kept.failing)), ())
    operator = operator_of_rows(rewrite, rows, failing, only_failing=False) if failing else None
    if failing:
        for clause in ("order", "limit", "qualify"):
            if rewrite.select.clause(clause) is not None:
                raise RefusedError("a window beside ORDER BY or LIMIT", rewrite.line)
        if rewrite.select.distinct:
            raise RefusedError("a window beside DISTINCT", rewrite.line)
        rewrite.edits += places
        start, end = rewrite.code.place(rewrite.select.part)
        behind = rewrite.code.tokens[rewrite.items_end - 1].end + 1
        flag = any_of([one.failed for one in failing])
        rewrite.edits += [
            Edit(start, start, f"SELECT * EXCEPT ({_FLAG}) FROM ("),
            Edit(behind, behind, f", {flag} AS {_FLAG}"),
            Edit(end, end, f") WHERE NOT {_FLAG}"),
        ]
        if unnamed:
            rewrite.keep_names()
    if operator is not None:
        yield operator


def only_where(expression: Fallible, condition: str) -> Fallible:
    """Return the expression as one that is evaluated only where ``condition`` is true."""
    sites = tuple(replace(site, failed=f"({condition}) AND {site.failed}") for site in expression.sites)
    return replace(expression, failed=f"({condition}) AND ({expression.failed})", sites=sites)
