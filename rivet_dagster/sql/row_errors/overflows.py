"""The overflow of sums and averages: the error of a group, or of a row with a window, and of no single input row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from rivet_dagster.sql.row_errors.aggregates import Aggregate
from rivet_dagster.sql.row_errors.code import Edit, edited, on_one_line
from rivet_dagster.sql.row_errors.conditions import site_of
from rivet_dagster.sql.row_errors.expression_text import ExpressionText
from rivet_dagster.sql.row_errors.raising import any_of, literal
from rivet_dagster.sql.row_errors.site import fill
from rivet_dagster.sql.row_errors.sites import Fallible, FoundSite

_NAME = re.compile(r"(sum|avg|mean)(?=\s*\()", re.IGNORECASE)
_OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"


@dataclass(frozen=True)
class Overflow:
    """A call that may overflow: its author's ``text``, and the text of an ``attempt``, which gives NULL where it does.

    ``place`` is where it stands in the text of its expression.
    """

    place: tuple[int, int]
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
    site, place = site_of(call), expression.place_of(value)
    if not isinstance(site, Aggregate) or site.overflow is None or len(site.operands) != 1 or place is None:
        return None
    (operand,) = site.operands
    argument = expression.place_of(operand)
    text, whole = expression.of(value), on_one_line(edited(expression.text, edits, *place))
    if argument is None or text is None or _NAME.match(whole) is None:
        return None
    values = on_one_line(edited(expression.text, edits, *argument))
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
    found = FoundSite(text, line, failed, condition, message)
    return Overflow(place, text, attempt, Fallible(text, line, failed, (found,), call, certain=False))


def with_attempts(expression: ExpressionText, overflows: Iterable[Overflow]) -> ExpressionText:
    """Return an expression with the attempts in the place of the calls that may overflow."""
    edits = [Edit(*one.place, one.attempt) for one in overflows]
    return ExpressionText(edited(expression.text, edits), expression.line) if edits else expression


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
