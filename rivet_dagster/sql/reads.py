"""The tables that a query reads, and how often."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from sqlglot import exp

from rivet_dagster.sql.dialect import Query


def reads(query: Query) -> Counter[str]:
    """Return the unqualified tables that are not CTEs of the query, in lower case, with how often each is evaluated.

    A table inside a CTE counts once for each time that the CTE is read, and at least twice if the CTE is recursive. In
    a CTE that is never read it counts zero times, as the engine still requires it to exist.

    >>> from rivet_dagster.sql.dialect import read_query
    >>> sorted(reads(read_query("WITH a AS (SELECT * FROM A, other.b) SELECT * FROM a JOIN c JOIN a x")).items())
    [('a', 2), ('c', 1)]
    """
    if query.tree is None:
        return Counter()
    reading = [node for node in query.nodes if type(node) in _READING]
    parts: _Parts = defaultdict(list)
    if _APART.isdisjoint(query.kinds):
        parts[id(query.tree)] = reading
        return _reads(query.tree, parts, {})
    for node in reading:
        within = node.parent if type(node) is exp.With else node
        if within is not None and within is not query.tree:
            parts[id(_part(within))].append(within)
    return _reads(query.tree, parts, {})


def cte_count(query: Query) -> int:
    """Return the number of CTEs that the query declares, at any depth."""
    return sum([type(node) is exp.CTE for node in query.nodes]) if exp.CTE in query.kinds else 0


_PIPE = "|> "
"""The prefix of the names of CTEs that sqlglot generates for ``|>``: no FROM of a user can refer to them."""

_READING = frozenset({exp.From, exp.Table, exp.With})

_Parts = defaultdict[int, list[exp.Expr]]
"""By id of a part of a query, the nodes in it that read something, in order.

A part is the whole query, the body of a CTE, or a query with a WITH of its own; what is within a smaller one is not in
it, except for such a query as a whole.
"""


_APART = frozenset({exp.Hint, exp.With})


def _part(node: exp.Expr) -> exp.Expr | None:
    """Return the part that a node is in, None for what a hint names."""
    above = node.parent
    while above is not None:
        node = above
        if isinstance(node, exp.CTE):
            body: exp.Expr = node.this
            return body
        if type(node) in _APART:
            return None
        if node.args.get("with_") is not None:
            return node
        above = node.parent
    return node


def _reads(part: exp.Expr, parts: _Parts, visible: dict[str, Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    declared = part.args.get("with_")
    if declared is not None:
        visible = dict(visible)
        for cte in declared.expressions:
            name = cte.alias.lower() if _is_authored(cte) else _PIPE + cte.alias.lower()
            recursive = declared.recursive and _is_authored(cte)
            body = _reads(cte.this, parts, {**visible, name: Counter[str]()} if recursive else visible)
            visible[name] = Counter({k: max(2, n) for k, n in body.items()}) if recursive else body
            total.update(dict.fromkeys(body, 0))
    for node in parts[id(part)]:
        if node is not part and node.args.get("with_") is not None:
            total.update(_reads(node, parts, visible))
        else:
            _add(total, node, visible)
    return total


def _add(total: Counter[str], node: exp.Expr, visible: Mapping[str, Counter[str]]) -> None:
    """Add what the node itself reads: a table, or a CTE."""
    read: Counter[str] | None
    if type(node) is exp.Table and isinstance(node.this, exp.Identifier) and not node.args.get("db"):
        name = node.name.lower()
        read = visible.get(_PIPE + name) if name.startswith("__tmp") else None
        read = visible.get(name) if read is None else read
        if read is None:
            total[name] += 1
        else:
            total.update(read)
    elif type(node) is exp.From and isinstance(node.this, exp.TableAlias):  # after `|> AS name`
        total.update(visible.get(_PIPE + node.this.name.lower(), Counter()))


def _is_authored(cte: exp.CTE) -> bool:
    """Return whether the CTE is in the user's text: sqlglot does not set this argument on those that it generates."""
    return "key_expressions" in cte.args
