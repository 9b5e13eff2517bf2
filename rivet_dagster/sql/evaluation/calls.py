"""The functions that a tree calls, by Spark's names: sqlglot has its own nodes for many, with reordered arguments."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sqlglot import exp

_Call = tuple[str, tuple[exp.Expr, ...]]


def call_of(node: exp.Expr) -> _Call | None:
    """Return the name of Spark's function that a node calls, in lower case, and its operands in Spark's order.

    Return None for a node that is no call of a function, or one that is not known.

    >>> from rivet_dagster.sql.dialect import parse_expression
    >>> name, operands = call_of(parse_expression("date_sub(day, n)"))
    >>> name, [operand.sql() for operand in operands]
    ('date_sub', ['day', 'n'])
    """
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return node.name.lower(), tuple(node.expressions)
    special = _special(node)
    if special is not None:
        return special
    name = _names().get(type(node).__name__)
    return (name, _arguments(node)) if name is not None else None


@cache
def _names() -> dict[str, str]:
    """Return the names of functions by the names of the classes whose arguments are in Spark's order."""
    lines = (files("rivet_dagster.sql.evaluation") / "nodes.txt").read_text("utf-8").splitlines()
    return dict(line.split() for line in lines)


def _arguments(node: exp.Expr) -> tuple[exp.Expr, ...]:
    found: list[exp.Expr] = []
    for key in node.arg_types:
        value = node.args.get(key)
        found += [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, exp.Expr)]
    return tuple(found)


def _special(node: exp.Expr) -> _Call | None:
    this, expression = node.args.get("this"), node.args.get("expression")
    if isinstance(node, exp.TsOrDsAdd):
        if isinstance(expression, exp.Mul) and isinstance(expression.args["expression"], exp.Neg):
            return "date_sub", _given(this, expression.this.unnest())
        return "date_add", _given(this, expression)
    if isinstance(node, exp.TsOrDsToDate):
        return "to_date", _given(this, node.args.get("format"))
    if isinstance(node, exp.StrToTime):
        return "to_timestamp", _given(this, node.args.get("format"))
    return None


def _given(*operands: exp.Expr | None) -> tuple[exp.Expr, ...]:
    return tuple(operand for operand in operands if operand is not None)
