"""The names that Spark gives to select items without one, as far as they are certain."""

from __future__ import annotations

from sqlglot import exp

_AGGREGATES: dict[type[exp.Expr], str] = {exp.Sum: "sum", exp.Min: "min", exp.Max: "max", exp.Count: "count"}


def spark_name(item: exp.Expr) -> str | None:
    """The name of the column that ``item`` makes; None where Spark has to be asked.

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
    # A second part is a table or a struct, which Spark would print or not.
    return f"{word}({argument.name})" if plain and len(argument.parts) <= 2 else None
