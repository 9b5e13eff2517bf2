"""Checks that the statistics of storage decide, so that no row is read for them."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from rivet_dagster.model.check import Check
from rivet_dagster.model.storage import ColumnStatistics, Statistics
from rivet_dagster.sql.checks import count_violations
from rivet_dagster.sql.dialect import SqlError, guarded, parse_expression


def proven_violations(check: Check, statistics: Statistics) -> int | None:
    """How many violations there are, None where only the rows tell.

    >>> known = Statistics(3, 0, values={"id": ColumnStatistics(0, 1, 7), "net": ColumnStatistics(2, 1, 7)})
    >>> def of(kind, **fields):
    ...     return proven_violations(Check(kind=kind, name="c", phase="assertion", **fields), known)
    >>> of("not_null", columns=("id",)), of("not_null", columns=("net",)), of("not_null", columns=("id", "x"))
    (0, 2, None)
    >>> of("expression", sql="id > 0 AND net BETWEEN 1 AND 9"), of("expression", sql="id > 1")
    (0, None)
    """
    if check.kind == "row_count":
        return count_violations(check, statistics.rows)
    if check.kind == "not_null":
        return _nulls([statistics.values.get(name.lower(), ColumnStatistics()).nulls for name in check.columns])
    if check.kind == "expression" and check.sql is not None:
        try:
            with guarded():
                return 0 if _holds(parse_expression(check.sql), statistics) else None
        except SqlError:
            return None
    return None


def _nulls(counts: list[int | None]) -> int | None:
    """Rows with a NULL in any of the columns; where several columns have some, they may be the same rows."""
    if len(counts) == 1:
        return counts[0]
    return 0 if all(count == 0 for count in counts) else None


def _holds(condition: exp.Expr, statistics: Statistics) -> bool:
    """Whether the bounds of the columns prove that no row breaks the condition; a NULL breaks none."""
    if isinstance(condition, exp.Paren):
        return _holds(condition.this, statistics)
    if isinstance(condition, exp.And):
        return _holds(condition.left, statistics) and _holds(condition.right, statistics)
    if isinstance(condition, exp.Between):
        low, high = _number(condition.args["low"]), _number(condition.args["high"])
        bounds = _bounds(condition.this, statistics)
        return None not in (low, high, bounds) and low <= bounds[0] and bounds[1] <= high  # type: ignore[operator,index]
    if not isinstance(condition, exp.GT | exp.GTE | exp.LT | exp.LTE):
        return False
    bounds, limit = _bounds(condition.left, statistics), _number(condition.right)
    if bounds is None or limit is None:
        return False
    least, greatest = bounds
    if isinstance(condition, exp.GT | exp.GTE):
        return least > limit or (least == limit and isinstance(condition, exp.GTE))
    return greatest < limit or (greatest == limit and isinstance(condition, exp.LTE))


def _bounds(expression: exp.Expr, statistics: Statistics) -> tuple[int, int] | None:
    """The bounds of a column of whole numbers."""
    if not isinstance(expression, exp.Column) or len(expression.parts) > 1:
        return None
    known = statistics.values.get(expression.name.lower())
    if known is None or type(known.least) is not int or type(known.greatest) is not int:
        return None
    return known.least, known.greatest


def _number(expression: exp.Expr) -> Decimal | None:
    negative = isinstance(expression, exp.Neg)
    literal = expression.this if negative else expression
    if not isinstance(literal, exp.Literal) or literal.is_string:
        return None
    value = Decimal(literal.name)
    return -value if negative else value
