"""Analysis of one expression: its type, and the columns of joints from which its value is computed."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from rivet_dagster.sql.from_clause import Columns
from rivet_dagster.sql.nodes import children, names_of
from rivet_dagster.sql.scope import ABSENT, Column, Origin, Scope
from rivet_dagster.sql.types import type_of

_UNKNOWN = Column("")


def expression(root: exp.Expr, scope: Scope, of_query: Callable[[exp.Query], Columns]) -> Column:
    """Return a nameless column for ``root``; ``of_query`` returns the columns of a query inside it.

    The walk is not recursive: an expression may be thousands of operators deep.

    >>> from rivet_dagster.sql.dialect import parse_expression
    >>> from rivet_dagster.sql.scope import Relation
    >>> scope = Scope()
    >>> scope.add("t", Relation((Column("a", "int", frozenset({("t", "a")})),)))
    >>> expression(parse_expression("a + 1"), scope, lambda query: None)
    Column(name='', type='int', origins=frozenset({('t', 'a')}))
    """
    if isinstance(root, exp.Column) and not isinstance(root.this, exp.Star):
        return _column(root, scope)
    types: dict[int, str | None] = {}
    origins: set[Origin] = set()

    def known(below: exp.Expr | None) -> str | None:
        return types.get(id(below))

    certain = True
    nodes, computed = [root], []
    for node in nodes:  # which grows: a node comes before its children
        leaf = _leaf(node, scope, of_query) if _MAY_BE_LEAF[type(node)] else None
        if leaf is None:
            computed.append(node)
            nodes += children(node)
            continue
        types[id(node)] = leaf.type
        if leaf.origins is None:
            certain = False
        else:
            origins |= leaf.origins
    for node in reversed(computed):
        types[id(node)] = type_of(node, known)
    return Column("", types.get(id(root)), frozenset(origins) if certain else None)


class _MayBeLeaf(dict[type[exp.Expr], bool]):
    def __missing__(self, kind: type[exp.Expr]) -> bool:
        self[kind] = issubclass(kind, exp.Column | exp.Query | exp.Star | exp.DataType)
        return self[kind]


_MAY_BE_LEAF = _MayBeLeaf()
_TYPE = Column("", None, frozenset())


def _leaf(node: exp.Expr, scope: Scope, of_query: Callable[[exp.Query], Columns]) -> Column | None:
    """Return the column of a node that is not analyzed further; None where it is computed from its children."""
    if isinstance(node, exp.Column):
        return _UNKNOWN if isinstance(node.this, exp.Star) else _column(node, scope)
    if isinstance(node, exp.Query):
        if isinstance(node.parent, exp.Exists):
            return _UNKNOWN  # whether rows exist depends on the columns that the filter reads
        columns = of_query(node)
        return columns[0] if columns is not None and len(columns) == 1 else _UNKNOWN
    if isinstance(node, exp.Star):
        return None if isinstance(node.parent, exp.Count) else _UNKNOWN
    return _TYPE


def _column(node: exp.Column, scope: Scope) -> Column:
    column = scope.resolve(names_of(node))
    return _UNKNOWN if column is None or column is ABSENT else column
