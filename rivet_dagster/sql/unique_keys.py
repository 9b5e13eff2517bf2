"""Keys by which the rows of a query are certainly unique, since it groups by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from rivet_dagster.sql.parsing.dialect import translate_parser_errors
from rivet_dagster.sql.parsing.known_query import NON_DETERMINISTIC

Key = frozenset[str]
"""The names of columns, spelled as in the query, of which no two rows have the same values."""


_OF_SEVERAL_ROWS = (exp.AggFunc, exp.Any, exp.Query, exp.Window)


def unique_key(tree: exp.Expr, keys: Mapping[str, Key | None]) -> Key | None:
    """Return a key of the rows of a query; None if it is not certain that there is one.

    ``keys`` are those of the relations that it reads, by their names. A query has a key if it groups by columns that
    are all in its result, is a SELECT DISTINCT of named columns, or reads one relation and keeps the key of that.
    Raises UnreadableSql for a tree that is too deep.

    >>> from rivet_dagster.sql.parsing.dialect import read_query
    >>> sorted(unique_key(read_query("SELECT c, date(t) AS d, count(*) AS n FROM o GROUP BY c, d").tree, {}))
    ['c', 'd']
    >>> unique_key(read_query("SELECT c, upper(d) AS d, count(*) AS n FROM o GROUP BY c, d").tree, {})
    """
    with translate_parser_errors():
        return _key(tree, keys)


def _key(tree: exp.Expr, keys: Mapping[str, Key | None]) -> Key | None:
    if not isinstance(tree, exp.Select) or any(tree.args.get(key) for key in ("kind", "operation_modifiers", "into")):
        return None
    items = tree.expressions
    if any(_gives_several_rows(item) for item in items):
        return None
    declared = tree.args.get("with_")
    if declared is not None:
        if declared.recursive:
            return None
        known = dict(keys)
        for cte in declared.expressions:
            key = None if cte.args["alias"].args.get("columns") else _key(cte.this, known)
            # It hides a relation whose name differs in letter case alone, unless Spark is told to distinguish that.
            known = {name: other for name, other in known.items() if name.lower() != cte.alias.lower()}
            known[cte.alias] = key
        keys = known
    if tree.args.get("group") is not None:
        return _grouped(tree.args["group"], items)
    distinct = tree.args.get("distinct")
    if distinct is not None:
        names = [item.alias_or_name if isinstance(item, exp.Alias | exp.Column) else "" for item in items]
        return frozenset(names) if all(names) and "*" not in names and distinct.args.get("on") is None else None
    return _kept(tree, items, keys)


def _gives_several_rows(item: exp.Expr) -> bool:
    generators = (exp.UDTF, exp.Explode, exp.Inline, exp.Stack, exp.Anonymous)
    return any(isinstance(node, generators) for node in item.walk())


def _grouped(group: exp.Group, items: Sequence[exp.Expr]) -> Key | None:
    """Return the names of the items that are the expressions by which a query groups; None if one is not among them."""
    grouped = group.expressions
    if any(value for key, value in group.args.items() if key != "expressions") or not grouped:
        return None
    names = [_name_of(expression, grouped, items) for expression in grouped]
    return None if None in names else frozenset(name for name in names if name is not None)


def _name_of(expression: exp.Expr, grouped: Sequence[exp.Expr], items: Sequence[exp.Expr]) -> str | None:
    """Return the name under which the result has an expression of GROUP BY; None if that is not certain."""
    if isinstance(expression, exp.Literal):
        position = int(expression.name) if expression.is_int else 0
        return _name(items[position - 1]) if 0 < position <= len(items) else None
    if not isinstance(expression, exp.Column):
        same = [item for item in items if isinstance(item, exp.Alias) and item.this == expression]
        return _name(same[0]) if same and not _varies(expression) else None
    itself = [item for item in items if (item.this if isinstance(item, exp.Alias) else item) == expression]
    if itself:
        return _name(itself[0])
    # The alias of an item, unless a relation has a column of that name: then the item would be an error, since its own
    # columns are not grouped by.
    named = [item for item in items if isinstance(item, exp.Alias) and item.alias == expression.name]
    if len(named) != 1 or len(expression.parts) > 1 or named[0].find(*_OF_SEVERAL_ROWS) is not None:
        return None
    parts = {part.name.lower() for column in named[0].find_all(exp.Column) for part in column.parts}
    others = {part.name.lower() for other in grouped for column in other.find_all(exp.Column) for part in column.parts}
    return named[0].alias if parts and parts.isdisjoint(others) and not _varies(named[0]) else None


def _kept(select: exp.Select, items: Sequence[exp.Expr], keys: Mapping[str, Key | None]) -> Key | None:
    """Return the key of the one relation that a query reads, by the names that its columns have in the result."""
    start = select.args.get("from_")
    table = start.this if start is not None else None
    if any(select.args.get(key) for key in ("joins", "laterals")) or not isinstance(table, exp.Table):
        return None
    if not isinstance(table.this, exp.Identifier) or any(
        table.args.get(key) for key in ("db", "pivots", "joins", "laterals")
    ):
        return None
    alias = table.args.get("alias")
    key = keys.get(table.name)
    if key is None or (alias is not None and alias.args.get("columns")):
        return None
    renamed: dict[str, str] = {}
    for item in items:
        column = item.this if isinstance(item, exp.Alias) else item
        if isinstance(column, exp.Star) and not any(column.args.values()):
            renamed |= {name: name for name in key}
        elif isinstance(column, exp.Column) and len(column.parts) == 1 and not isinstance(column.this, exp.Star):
            renamed[column.name] = item.alias_or_name
    return frozenset(renamed[name] for name in key) if key <= renamed.keys() else None


def _name(item: exp.Expr) -> str | None:
    return item.alias_or_name if isinstance(item, exp.Alias | exp.Column) and not item.is_star else None


def _varies(expression: exp.Expr) -> bool:
    """Return whether an expression calls a function that may give another value where it is computed again."""
    words = {node.name.lower() for node in expression.find_all(exp.Anonymous)}
    called = {name.lower() for node in expression.find_all(exp.Func) for name in node.sql_names()}
    return bool((words | called) & NON_DETERMINISTIC)
