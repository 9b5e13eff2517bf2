"""Which tables a query reads, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlglot import exp


def reads(tree: exp.Expr) -> Counter[str]:
    """Unqualified tables that are none of the query's own CTEs, in lower case, with how often each is evaluated.

    A table inside a CTE counts once for each time that the CTE is read, and twice at least where it is recursive; in a
    CTE that nothing reads it counts zero times, for the engine still wants it to be there.

    >>> from rivet_dagster.sql.dialect import read_query
    >>> sorted(reads(read_query("WITH a AS (SELECT * FROM A, other.b) SELECT * FROM a JOIN c JOIN a x").tree).items())
    [('a', 2), ('c', 1)]
    """
    return _reads(tree, {}, {start.this.name.lower() for start in tree.find_all(exp.From) if _is_pipe_alias(start)})


def cte_count(tree: exp.Expr) -> int:
    """How many CTEs the query declares, at any depth."""
    return sum(1 for _ in tree.find_all(exp.CTE))


def _reads(tree: exp.Expr, visible: dict[str, Counter[str]], pipe_aliases: set[str]) -> Counter[str]:
    total: Counter[str] = Counter()
    declared = tree.args.get("with_")
    if declared is not None:
        visible = dict(visible)
        for cte in declared.expressions:
            name = cte.alias.lower()
            inner = {**visible, name: Counter[str]()} if declared.recursive else visible
            body = _reads(cte.this, inner, pipe_aliases)
            visible[name] = Counter({k: max(2, n) for k, n in body.items()}) if declared.recursive else body
            total.update(dict.fromkeys(body, 0))
    for node in _own_nodes(tree):
        if node is not tree and node.args.get("with_") is not None:
            total.update(_reads(node, visible, pipe_aliases))
        elif isinstance(node, exp.From) and _is_pipe_alias(node):
            total.update(visible.get(node.this.name.lower(), Counter()))
        elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and not node.args.get("db"):
            name = node.name.lower()
            total.update(Counter({name: 1}) if name in pipe_aliases else visible.get(name, Counter({name: 1})))
    return total


def _is_pipe_alias(start: exp.From) -> bool:
    """``FROM a |> AS b``: sqlglot makes a CTE of it, which, unlike an author's, no table's name can mean."""
    return isinstance(start.this, exp.TableAlias)


def _own_nodes(tree: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes below ``tree`` but for its WITH, hints, and what lies inside a query with a WITH of its own."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        if node is not tree and node.args.get("with_") is not None:
            continue
        if isinstance(node, exp.Hint):
            continue
        stack.extend(reversed([c for c in node.iter_expressions() if not isinstance(c, exp.With)]))
