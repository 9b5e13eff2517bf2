"""The columns of a query's input that its key columns are, so that errors below it can tell the key of a row."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.dialect import read_query


def keys_of_input(sql: str, keys: Sequence[str]) -> tuple[str, tuple[str, ...]] | None:
    """Return the one table that a query reads, in lower case, and its columns that the query gives as ``keys``.

    None if it reads several, or computes a key.

    >>> keys_of_input("SELECT o.order_id AS id, net FROM orders o WHERE net > 0", ["id"])
    ('orders', ('order_id',))
    >>> keys_of_input("SELECT id + 1 AS id FROM orders", ["id"])
    """
    tree = read_query(sql).tree if keys else None
    if not isinstance(tree, exp.Select) or tree.args.get("with_") or tree.args.get("joins"):
        return None
    source = tree.args.get("from_")
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or table.args.get("db"):
        return None
    found = [_column(tree, key) for key in keys]
    known = tuple(name for name in found if name is not None)
    return (table.name.lower(), known) if len(known) == len(keys) else None


def _column(tree: exp.Select, key: str) -> str | None:
    for item in tree.expressions:
        if item.alias_or_name.lower() == key.lower():
            bare = item.unalias()
            return bare.name if isinstance(bare, exp.Column) else None
    return key if any(item.is_star and not _changes(item) for item in tree.expressions) else None


def _changes(star: exp.Expr) -> bool:
    """Return whether a star leaves out or replaces columns."""
    return any((star.this if isinstance(star, exp.Column) else star).args.values())
