"""A source's inline transforms: one table, columns, a filter and a limit."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.cache import CompileCache
from rivet_dagster.sql.balance import in_parentheses
from rivet_dagster.sql.determinism import NON_DETERMINISTIC
from rivet_dagster.sql.dialect import SqlError, guarded, parse_expression, quoted


def projection(name: str, columns: Sequence[tuple[str, str | None]], filter: str | None, limit: int | None) -> str:
    """Return the query of a source.

    >>> print(projection("raw", [("id", None), ("total", "net * 1.2")], "net > 0", None))
    SELECT id, net * 1.2 AS total
    FROM raw
    WHERE net > 0
    """
    items = [quoted(alias) if text is None else f"{_set_apart(text)} AS {quoted(alias)}" for alias, text in columns]
    lines = [f"SELECT {', '.join(items) or '*'}", f"FROM {quoted(name)}"]
    lines += [f"WHERE {_set_apart(filter)}"] if filter is not None else []
    lines += [f"LIMIT {limit}"] if limit is not None else []
    return "\n".join(lines)


def check_source_expression(sql: str, cache: CompileCache) -> None:
    """Raise SqlError unless ``sql`` depends on one row only: no subquery, aggregate, window or non-determinism."""
    if cache.get("expression", sql) is None:
        tree = parse_expression(sql)
        with guarded():
            _check(tree)
        cache.put("expression", sql, True)


def _set_apart(text: str) -> str:
    """Return an expression, in parentheses where what follows could become a part of a comment."""
    return in_parentheses(text) if "\n" in text or "--" in text or "/*" in text else text


def _check(tree: exp.Expr) -> None:
    for node in tree.walk():
        if isinstance(node, exp.Query):
            raise SqlError("holds a subquery")
        if isinstance(node, exp.AggFunc | exp.Window):
            raise SqlError("aggregates over rows")
        name = node.sql_name().lower() if isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous) else ""
        if isinstance(node, exp.Anonymous):
            name = node.name.lower()
        if name in NON_DETERMINISTIC:
            raise SqlError(f"uses {name}, which gives another result each time")
