"""Walks of trees that do without sqlglot's generators, and leave out the nodes that few questions are about."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

_NO_CHILDREN = frozenset({str, bool, type(None), exp.Identifier})


def nodes_of(tree: exp.Expr) -> list[exp.Expr]:
    """Return the nodes of a tree, a node before its children and these in order, except literals, types and names.

    A name is an identifier, a column that consists of identifiers, or an alias of a FROM item.

    >>> from sqlglot import parse_one
    >>> [node.key for node in nodes_of(parse_one("SELECT o.a, f(CAST(b AS INT)) > 1 FROM orders AS o"))]
    ['select', 'gt', 'anonymous', 'cast', 'from', 'table']
    """
    nodes, stack = [], [tree]
    while stack:
        node = stack.pop()
        if type(node) is exp.Column and type(node.args["this"]) is exp.Identifier:
            continue
        nodes.append(node)
        for value in reversed(node.args.values()):
            if type(value) in _LEFT_OUT:
                continue
            if type(value) is list:
                stack += [
                    item for item in reversed(value) if type(item) not in _LEFT_OUT and isinstance(item, exp.Expr)
                ]
            elif isinstance(value, exp.Expr):
                stack.append(value)
    return nodes


_LEFT_OUT = _NO_CHILDREN | {exp.Literal, exp.DataType, exp.TableAlias}


def take_apart(tree: exp.Expr) -> None:
    """Remove the references of all nodes of a tree to their parents.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT a FROM orders")
    >>> take_apart(tree)
    >>> tree.find(exp.Column).parent is None
    True
    """
    for node in _all_nodes(tree):
        node.parent = None


def drop_positions(tree: exp.Expr) -> None:
    """Remove from all nodes of a tree where they stand in the text, which is a third of the memory of a tree.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT a FROM orders")
    >>> drop_positions(tree)
    >>> tree.find(exp.Identifier).meta
    {}
    """
    for node in _all_nodes(tree):
        node._meta = None


def _all_nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    stack = [tree]
    while stack:
        node = stack.pop()
        for value in node.args.values():
            if type(value) is list:
                stack += [item for item in value if isinstance(item, exp.Expr)]
            elif isinstance(value, exp.Expr):
                stack.append(value)
        yield node


def children(node: exp.Expr) -> list[exp.Expr]:
    """Return the children of a node in order, except identifiers."""
    nodes: list[exp.Expr] = []
    for value in node.args.values():
        if type(value) is list:
            nodes += [item for item in value if isinstance(item, exp.Expr)]
        elif type(value) not in _NO_CHILDREN and isinstance(value, exp.Expr):
            nodes.append(value)
    return nodes


def names_of(column: exp.Column) -> list[str]:
    """Return the names of the parts of a column, as ``column.parts`` lists them.

    >>> from sqlglot import column
    >>> names_of(column("a")), names_of(column("a", table="t", db="s"))
    (['a'], ['s', 't', 'a'])
    """
    args = column.args
    if args.get("table") or args.get("db") or args.get("catalog"):
        return [part.name for part in column.parts]
    return [column.name]
