"""Queries within the clauses of a SELECT, of which an engine may plan some forms alone."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from rivet_dagster.sql.translation.model import NotProven
from rivet_dagster.sql.translation.proven import AGGREGATE, Support

ANY_SUBQUERY = "any subquery"
"""The clause of the list of an engine that plans queries in all expressions, whatever they read."""
_SHAPE = ("group", "having", "qualify", "order", "limit", "offset", "distinct", "windows")


def outer_columns(query: exp.Expr) -> list[exp.Column]:
    """Return the columns in a translated query that belong to queries around it."""
    inside = {source.alias_or_name.strip("`") for source in query.find_all(exp.Table, exp.Subquery, exp.Lateral)}
    return [column for column in query.find_all(exp.Column) if column.table and column.table not in inside]


def is_one_row(query: exp.Expr, support: Support) -> bool:
    """Return whether a translated query is an aggregate of all its rows."""
    plain = isinstance(query, exp.Select) and not any(query.args.get(clause) for clause in _SHAPE)
    return plain and any(_has_aggregate(item, support) for item in query.expressions)


def check_subqueries(made: exp.Select, node: exp.Expr, support: Support) -> None:
    """Refuse what an engine does not plan of the queries in expressions of a translated SELECT. Raise NotProven."""
    if ANY_SUBQUERY in support.clauses:
        return
    for clause, inner in _subqueries(made):
        query, word = inner, "a value"
        if isinstance(inner, exp.Exists):
            query, word = inner.this, "EXISTS"
        elif isinstance(inner, exp.In):
            query, word = inner.args["query"].this, "IN"
        elif isinstance(inner, exp.Subquery):
            query = inner.this
        columns = outer_columns(query)
        if clause == "on":
            raise NotProven("a query in ON", node)
        if word == "IN" and clause != "where":
            raise NotProven("IN a query outside of WHERE", node)
        if not columns:
            continue
        name = f"a correlated query as {word}" if word == "a value" else f"{word} of a correlated query"
        if not isinstance(query, exp.Select) or any(query.args.get(key) for key in ("limit", "offset", "order")):
            raise NotProven(f"{name} with ORDER BY, LIMIT or a set operation", node)
        if any(not _is_in_where(column, query) for column in columns):
            raise NotProven(f"{name} whose outer columns are not in its WHERE", node)
        if word == "EXISTS" and is_one_row(query, support):
            raise NotProven("EXISTS of an aggregate", node)
        if word == "IN" and isinstance(_around(inner), exp.Not):
            raise NotProven("NOT IN a correlated query", node)
        if word == "a value":
            if not is_one_row(query, support) or any(not _is_compared(column, query) for column in columns):
                raise NotProven("a correlated query as a value other than an aggregate by equal columns", node)
            if made.args.get("group") or _has_aggregate(inner.parent, support):
                raise NotProven("a correlated query as a value beside aggregates", node)


def _subqueries(made: exp.Select) -> Iterator[tuple[str, exp.Expr]]:
    """Yield the queries in the expressions of a SELECT, but not in those within them, by clause."""
    parts = [("select", item) for item in made.expressions]
    parts += [("on", join.args["on"]) for join in made.args.get("joins") or () if join.args.get("on") is not None]
    parts += [(key, made.args[key]) for key in ("where", "group", "having", "qualify", "order") if made.args.get(key)]
    for clause, tree in parts:
        for node in tree.walk(prune=_is_query):
            if _is_query(node):
                yield clause, node


def _around(node: exp.Expr) -> exp.Expr | None:
    parent = node.parent
    while isinstance(parent, exp.Paren):
        parent = parent.parent
    return parent


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Exists | exp.Subquery) or (isinstance(node, exp.In) and bool(node.args.get("query")))


def _is_in_where(column: exp.Column, query: exp.Select) -> bool:
    where = column.find_ancestor(exp.Where)
    return where is not None and where is query.args.get("where")


def _is_compared(column: exp.Column, query: exp.Select) -> bool:
    """Return whether a part of the condition is that a column equals another one."""
    equal = column.parent
    around = equal.parent if isinstance(equal, exp.EQ) else None
    while isinstance(around, exp.Paren | exp.And):
        around = around.parent
    return (
        isinstance(equal, exp.EQ)
        and isinstance(equal.this, exp.Column)
        and isinstance(equal.expression, exp.Column)
        and around is query.args.get("where")
    )


def _has_aggregate(tree: exp.Expr | None, support: Support) -> bool:
    """Return whether an expression is, or is within, or holds an aggregate, which no window and no query holds."""
    around = tree
    while around is not None and not isinstance(around, exp.Select):
        if _is_aggregate(around, support):
            return True
        around = around.parent
    found = tree.walk(prune=lambda node: isinstance(node, exp.Window | exp.Select)) if tree is not None else ()
    return any(_is_aggregate(node, support) for node in found)


def _is_aggregate(node: exp.Expr, support: Support) -> bool:
    return isinstance(node, exp.Anonymous) and support.knows(AGGREGATE, node.name.lower())
