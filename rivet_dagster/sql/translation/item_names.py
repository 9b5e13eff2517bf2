"""The names that Spark gives to items of a select list that have none, as far as they are certain."""

from __future__ import annotations

from sqlglot import exp

from rivet_dagster.sql.parsing.nodes import names_of

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.EQ: "=", exp.GT: ">", exp.LT: "<",
    exp.GTE: ">=", exp.LTE: "<=",
}  # fmt: skip
_BY_NAME = frozenset("sum min max avg count abs length upper lower round floor trim".split())


def item_name(item: exp.Expr) -> str | None:
    """Return Spark's name of an item without an alias; None where only Spark knows it.

    >>> from rivet_dagster.sql.translation.verbatim import read_verbatim
    >>> [item_name(item) for item in read_verbatim("SELECT t.a, SUM(b), count(*), a + 1, nvl(a, 1) FROM t").expressions]
    ['a', 'sum(b)', 'count(1)', '(a + 1)', None]
    """
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Literal):
        return item.name if item.is_string or item.name.isdigit() else None
    if isinstance(item, exp.Paren):
        return item_name(item.this)
    if type(item) in _OPERATORS:
        one, other = item_name(item.this), item_name(item.args["expression"])
        return None if one is None or other is None else f"({one} {_OPERATORS[type(item)]} {other})"
    if not isinstance(item, exp.Anonymous) or item.name.lower() not in _BY_NAME:
        return None
    if len(item.expressions) != 1:
        return None
    argument = item.expressions[0]
    if isinstance(argument, exp.Star):
        return "count(1)" if item.name.lower() == "count" and not any(argument.args.values()) else None
    inner = item_name(argument) if not isinstance(argument, exp.Distinct) else None
    return f"{item.name.lower()}({inner})" if inner is not None else None


def shown(node: exp.Expr) -> str:
    """Return a short text for a construct that has no name in the lists."""
    if isinstance(node, exp.Column):
        return ".".join(names_of(node))
    word = type(node).__name__
    return {"JSONExtract": "the path of a VARIANT", "Lambda": "a lambda", "Placeholder": "a parameter"}.get(
        word, word.upper()
    )
