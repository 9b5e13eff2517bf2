"""The names that Spark gives to select items without an alias, as far as they are certain."""

from __future__ import annotations

from sqlglot import exp

_AGGREGATES: dict[type[exp.Expr], str] = {exp.Sum: "sum", exp.Min: "min", exp.Max: "max", exp.Count: "count"}


def spark_name(item: exp.Expr) -> str | None:
    """Return the name of the column of ``item``; None where only Spark knows it.

    >>> from rivet_dagster.sql.dialect import parse_expression
    >>> [spark_name(parse_expression(text)) for text in ("t.s.a", "SUM(t.x)", "count(*)", "1", "x + 1")]
    ['a', 'sum(x)', 'count(1)', '1', None]
    """
    if isinstance(item, exp.Column):
        return item.name
    if isinstance(item, exp.Literal) and not item.is_string:
        return item.name if item.name.isdigit() else None
    word = _AGGREGATES.get(type(item))
    if word is None or item.expressions:
        return None
    argument = item.this
    if isinstance(argument, exp.Star) and isinstance(item, exp.Count) and not argument.args.get("except_"):
        return "count(1)"
    plain = isinstance(argument, exp.Column) and not isinstance(argument.this, exp.Star)
    # A qualifier may be a table or a struct, and Spark omits only one of the two from the name.
    return f"{word}({argument.name})" if plain and len(argument.parts) <= 2 else None
