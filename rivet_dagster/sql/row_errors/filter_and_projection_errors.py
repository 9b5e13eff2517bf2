"""The errors of the conditions of WHERE and of the items of a SELECT list, beside windows, too.

The overflow of sums and averages: the error of a group, or of a row with a window, and of no single input row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from rivet_dagster.sql.row_errors.aggregates import Aggregate, windows
from rivet_dagster.sql.row_errors.fallible import Fallible, FoundSite
from rivet_dagster.sql.row_errors.raising import RefusedError, any_of, literal, true_or_false
from rivet_dagster.sql.row_errors.select_clauses import conjuncts
from rivet_dagster.sql.row_errors.select_rewrite import Given, Operator, SelectRewrite, WhereConditions, refuse_inside
from rivet_dagster.sql.row_errors.site import fill
from rivet_dagster.sql.row_errors.site_rules import site_of
from rivet_dagster.sql.row_errors.token_ranges import Edit, ExpressionText, apply_edits, on_one_line

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
        start, end = rewrite.code.span(condition)
        if wrong is None:
            clean.append(text)
            continue
        failing.append(wrong)
        rewrite.edits.append(Edit(start, end, wrong.truth))
    return WhereConditions(tuple(clean), tuple(failing))


def projection_operators(rewrite: SelectRewrite, given: Sequence[Given], where: WhereConditions) -> Iterator[Operator]:
    failing = _failing_items(rewrite, given)
    if not failing and not where.failing:
        return
    yield operator_of_rows(rewrite, where, failing)
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
    rewrite: SelectRewrite, where: WhereConditions, failing: Sequence[Fallible], *, only_failing: bool = True
) -> Operator:
    """Return the operator of the conditions of WHERE, and of expressions of the rows that they keep.

    Its rows are those that fail if ``only_failing``, which no WHERE can tell of values of window functions.
    """
    expressions = failing_expressions(where, failing)
    conditions = list(where.clean)
    rows = [f"FROM {rewrite.rendered(rewrite.from_start, rewrite.from_end)}"] if rewrite.select.relations else []
    # Spark moves no condition of a WHERE to below the view of the flags.
    has_conditions = bool(where.clean or where.failing)
    flagged = only_failing and bool(rows) and not has_conditions and 1 < len(failing) <= _MOST_FLAGS
    if flagged:
        rows.append(_view_of_flags(expressions))
        conditions.append(f"{_FLAGS} <> 0")
        expressions = [replace(one, failed=f"{_FLAGS} & {bit} <> 0") for bit, one in _bits(expressions)]
    elif only_failing:
        # First, since it is true of few rows.
        conditions.append(any_of([one.failed for one in expressions]))
    if not only_failing or len(expressions) > 1:
        conditions += [true_or_false(one.text, one.failed, "true") for one in where.failing]
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


def failing_expressions(where: WhereConditions, failing: Sequence[Fallible]) -> list[Fallible]:
    """Return the conditions of WHERE that can fail, and such expressions of the rows for which they do not."""
    wrong = [one.failed for one in where.failing]
    later = [only_where(one, f"NOT ({any_of(wrong)})") for one in failing] if wrong else failing
    return [*where.failing, *later]


def window_operators(rewrite: SelectRewrite, given: Sequence[Given], where: WhereConditions) -> Iterator[Operator]:
    """Keep bad rows for the windows of others, and leave them out behind the windows."""
    failing: list[Fallible] = []
    edits: list[Edit] = []
    unnamed = False
    for one in given:
        for window in one.windows:
            refuse_inside(one.expression, window, "a window over an expression")
        attempts = [None if rewrite.only_certain else overflow_of(one.expression, window) for window in one.windows]
        overflows = [overflow for overflow in attempts if overflow is not None]
        expression = with_attempts(one.expression, overflows)
        wrong = or_overflowing(rewrite.failing(expression, windows(expression.tree)), expression, overflows)
        if wrong is None:
            continue
        rewrite.refuse_aliases(one)
        unnamed |= one.item.alias is None
        failing.append(wrong)
        edits.append(Edit(*rewrite.code.span(one.item.part), wrong.value))
    if where.failing:
        yield operator_of_rows(rewrite, where, ())
    rows = WhereConditions((*where.clean, *(one.truth for one in where.failing)), ())
    operator = operator_of_rows(rewrite, rows, failing, only_failing=False) if failing else None
    if failing:
        for clause in ("order", "limit", "qualify"):
            if rewrite.select.clause(clause) is not None:
                raise RefusedError("a window beside ORDER BY or LIMIT", rewrite.line)
        if rewrite.select.distinct:
            raise RefusedError("a window beside DISTINCT", rewrite.line)
        rewrite.edits += edits
        start, end = rewrite.code.span(rewrite.select.part)
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


_NAME = re.compile(r"(sum|avg|mean)(?=\s*\()", re.IGNORECASE)
_OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"


@dataclass(frozen=True)
class Overflow:
    """A call that may overflow: its author's ``text``, and the text of an ``attempt``, which gives NULL where it does.

    ``span`` is where it stands in the text of its expression.
    """

    span: tuple[int, int]
    text: str
    attempt: str
    failing: Fallible


def overflow_of(expression: ExpressionText, value: exp.Expr, edits: Sequence[Edit] = ()) -> Overflow | None:
    """Return how an aggregate, with its FILTER, or a window function overflows; None if it does not.

    ``edits`` are those of its argument. Spark's own function tells: ``try_sum`` of values of which one is not NULL is
    NULL exactly where ``sum`` overflows. The types of most arguments rule that out; then nothing is computed twice.
    """
    call = value
    while isinstance(call, exp.Filter | exp.Window):
        call = call.this
    site, span = site_of(call), expression.span_of(value)
    if not isinstance(site, Aggregate) or site.overflow is None or len(site.operands) != 1 or span is None:
        return None
    (operand,) = site.operands
    argument = expression.span_of(operand)
    text, whole = expression.of(value), on_one_line(apply_edits(expression.text, edits, *span))
    if argument is None or text is None or _NAME.match(whole) is None:
        return None
    values = on_one_line(apply_edits(expression.text, edits, *argument))
    is_window = isinstance(value, exp.Window)
    is_sum = site.name == "sum"
    shown = values if is_window else f"any_value({values})"
    attempt = _NAME.sub("try_sum" if is_sum else "try_avg", whole, count=1)
    guard = fill(site.overflow, [shown])
    failed = f"({guard}) AND {attempt} IS NULL AND {_NAME.sub('count', whole, count=1)} > 0"
    sums = "false" if is_sum else f"{_NAME.sub('try_sum', whole, count=1)} IS NOT NULL"
    # A window adds decimals up one by one; a group knows no more than that the sum is too large.
    of_decimals = f"typeof({shown}) LIKE 'decimal%' AND " + ("true" if is_window else sums)
    condition = (
        f"CASE WHEN typeof({shown}) LIKE 'interval%' THEN 'INTERVAL_ARITHMETIC_OVERFLOW.WITH_SUGGESTION' "
        f"WHEN {of_decimals} THEN '{_OUT_OF_RANGE}' ELSE 'ARITHMETIC_OVERFLOW' END"
    )
    message = f"concat({literal(f'{text} is out of the range of ')}, upper(typeof({attempt})), '.')"
    line = expression.line_of(value)
    site_of_overflow = FoundSite(text, line, failed, condition, message)
    return Overflow(span, text, attempt, Fallible(text, line, failed, (site_of_overflow,), call, certain=False))


def with_attempts(expression: ExpressionText, overflows: Iterable[Overflow]) -> ExpressionText:
    """Return an expression with the attempts in place of the calls that may overflow."""
    edits = [Edit(*one.span, one.attempt) for one in overflows]
    return ExpressionText(apply_edits(expression.text, edits), expression.line) if edits else expression


def or_overflowing(
    wrong: Fallible | None, expression: ExpressionText, overflows: Sequence[Overflow]
) -> Fallible | None:
    """Return how an expression fails: ``wrong``, as it does where none of its calls overflows, or one of them."""
    if not overflows:
        return wrong
    failing = [one.failing for one in overflows]
    sites = tuple(site for one in failing for site in one.sites)
    failed = any_of([one.failed for one in failing])
    if wrong is None:
        return Fallible(expression.text, expression.line, failed, sites, expression.tree, certain=False)

    def as_written(text: str) -> str:
        for one in overflows:
            text = text.replace(one.attempt, one.text)
        return text

    others = tuple(replace(site, text=as_written(site.text)) for site in wrong.sites)
    return replace(wrong, failed=any_of([failed, wrong.failed]), sites=(*sites, *others))
