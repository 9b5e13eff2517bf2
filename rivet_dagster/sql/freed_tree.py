"""Trees that are needed no more: their memory is given back without the garbage collector."""

from __future__ import annotations

from sqlglot import exp


def free_tree(tree: exp.Expr) -> None:
    """Take the parents out of a tree that nobody looks at any more: without circles it is freed at once.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT a + 1")
    >>> free_tree(tree)
    >>> {node.parent for node in tree.walk()}
    {None}
    """
    nodes = [tree]
    while nodes:
        node = nodes.pop()
        nodes += node.iter_expressions()
        node.parent = None
