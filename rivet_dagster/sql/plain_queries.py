"""Plain queries: those of Spark's SQL that an engine without it computes by itself, given as data.

They are copies of a relation, casts of its columns to those of a table, and the queries of some kinds of checks. No
joint's SQL is among them, nor an expression that a user writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from sqlglot import exp, parse_one

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.dialect import parse_expression, translate_parser_errors

PLAIN = "plain"
"""The list of constructs, as ``sql_support`` of an engine names it, of engines that run plain queries alone."""

CHECKS = frozenset({"not_null", "unique", "row_count", "accepted_values", "schema"})
"""The kinds of checks whose queries are plain."""


@dataclass(frozen=True)
class Node:
    """An expression: its kind, its operands, and the value of a literal, a name or a type."""

    kind: str
    parts: tuple[Node, ...] = ()
    value: Any = None

    def walk(self) -> Iterator[Node]:
        """Yield the expression and all that it consists of."""
        yield self
        for part in self.parts:
            yield from part.walk()


AGGREGATES = frozenset({"count", "count_if", "sum"})
"""The kinds of aggregates. The operand of ``count_if`` is a condition, that of ``sum`` a value."""


@dataclass(frozen=True)
class PlainQuery:
    """A query of the rows of ``source``, a relation's name or another query; without one, of one row.

    ``items`` are names and values; None stands for all columns. The groups are those of ``keys``.
    """

    source: str | PlainQuery | None
    items: tuple[tuple[str, Node], ...] | None
    where: Node | None = None
    keys: tuple[Node, ...] = ()
    having: Node | None = None
    descending: Node | None = None
    limit: int | None = None

    @property
    def aggregates(self) -> tuple[Node, ...]:
        """The distinct aggregates in items and conditions on groups."""
        texts = [node for _, node in self.items or ()] + [node for node in (self.having, self.descending) if node]
        return tuple(dict.fromkeys(node for text in texts for node in text.walk() if node.kind in AGGREGATES))

    @property
    def columns(self) -> frozenset[str] | None:
        """The columns of the source that are used, in lower case; None where that may be all."""
        if self.items is None:
            return None
        texts = [node for _, node in self.items] + [node for node in (self.where, *self.keys) if node is not None]
        return frozenset(node.value[0].lower() for text in texts for node in text.walk() if node.kind == "column")


def plain_query(sql: str) -> PlainQuery:
    """Return a query as data. Raise SqlError for one that is not plain.

    >>> plain_query("SELECT CAST(`ID` AS bigint) AS `id` FROM `batch`").items
    (('id', Node(kind='cast', parts=(Node(kind='column', parts=(), value=('ID',)),), value='bigint')),)
    >>> plain_query("SELECT sum(net) OVER () FROM orders")
    Traceback (most recent call last):
    rivet_dagster.sql.error.SqlError: has Window
    """
    with translate_parser_errors():
        tree = parse_one(sql, dialect=SPARK)
    return _query(tree)


def is_column(expression: str) -> bool:
    """Return whether an expression of a source is a column and nothing else.

    >>> is_column("`unit price`"), is_column("net * 2")
    (True, False)
    """
    return isinstance(parse_expression(expression), exp.Column)


_CLAUSES = frozenset({"expressions", "from_", "where", "group", "having", "order", "limit", "hint"})


def _query(tree: exp.Expr) -> PlainQuery:
    if not isinstance(tree, exp.Select):
        raise SqlError(f"has {type(tree).__name__}")
    others = [name for name, value in tree.args.items() if value and name not in _CLAUSES]
    if others:
        raise SqlError(f"has {others[0].strip('_').upper()}")
    clauses = {name: tree.args.get(name) for name in _CLAUSES}
    order = clauses["order"].expressions if clauses["order"] else []
    if len(order) > 1 or any(not ordered.args.get("desc") for ordered in order):
        raise SqlError("has ORDER BY")
    items = tree.expressions
    return PlainQuery(
        source=_source(clauses["from_"]),
        items=None if len(items) == 1 and type(items[0]) is exp.Star else tuple(map(_item, items)),
        where=_node(clauses["where"].this) if clauses["where"] else None,
        keys=tuple(map(_node, clauses["group"].expressions)) if clauses["group"] else (),
        having=_node(clauses["having"].this) if clauses["having"] else None,
        descending=_node(order[0].this) if order else None,
        limit=int(clauses["limit"].expression.name) if clauses["limit"] else None,
    )


def _source(clause: exp.Expr | None) -> str | PlainQuery | None:
    if clause is None:
        return None
    if isinstance(clause.this, exp.Subquery):
        return _query(clause.this.this)
    if not isinstance(clause.this, exp.Table) or clause.this.args.get("db"):
        raise SqlError(f"reads {clause.this.sql(SPARK)}")
    return clause.this.name


def _item(item: exp.Expr) -> tuple[str, Node]:
    if isinstance(item, exp.Alias):
        return item.alias, _node(item.this)
    return item.output_name or item.sql(SPARK), _node(item)


_BINARY = {
    exp.And: "and",
    exp.Or: "or",
    exp.Add: "add",
    exp.Sub: "subtract",
}
"""Arithmetic is that of counts."""

_UNARY = {exp.Not: "not", exp.CountIf: "count_if", exp.Sum: "sum", exp.Length: "length"}
_SEVERAL = {exp.Greatest: "greatest", exp.Coalesce: "coalesce"}


def _node(tree: exp.Expr) -> Node:
    kind = type(tree)
    if kind in _OTHER:
        return _OTHER[kind](tree)
    if kind in _BINARY:
        return Node(_BINARY[kind], (_node(tree.this), _node(tree.expression)))
    if kind in _UNARY:
        return Node(_UNARY[kind], (_node(tree.this),))
    if kind in _SEVERAL:
        return Node(_SEVERAL[kind], (_node(tree.this), *map(_node, tree.expressions)))
    raise SqlError(f"has {kind.__name__}")


def _literal(tree: exp.Expr) -> Node:
    if tree.args["is_string"]:
        return Node("literal", value=tree.name)
    if not tree.name.isdecimal():
        raise SqlError(f"has the number {tree.name}")
    return Node("literal", value=int(tree.name))


def _column(tree: exp.Expr) -> Node:
    parts = tree.parts if isinstance(tree, exp.Column | exp.Dot) else [tree]
    return Node("column", value=tuple(part.name for part in parts))


def _is(tree: exp.Expr) -> Node:
    if not isinstance(tree.expression, exp.Null):
        raise SqlError("has IS")
    return Node("is_null", (_of_column(tree.this),))


def _in(tree: exp.Expr) -> Node:
    if not tree.expressions:
        raise SqlError("has IN")
    return Node("in", (_of_column(tree.this), *map(_node, tree.expressions)))


def _of_column(tree: exp.Expr) -> Node:
    node = _node(tree)
    if node.kind != "column":
        raise SqlError(f"has a condition on {type(tree).__name__}")
    return node


def _greater(tree: exp.Expr) -> Node:
    left = _node(tree.this)
    if left.kind not in ("count", "length"):
        raise SqlError("compares values")
    return Node("greater", (left, _node(tree.expression)))


def _cast(tree: exp.Expr) -> Node:
    to = tree.args["to"]
    written = str(to.args["kind"]) if to.this == exp.DType.USERDEFINED else to.sql(SPARK)
    return Node("cast", (_node(tree.this),), written.lower().replace(": ", ":"))


def _count(tree: exp.Expr) -> Node:
    if not isinstance(tree.this, exp.Star):
        raise SqlError("has COUNT of a value")
    return Node("count")


def _if(tree: exp.Expr) -> Node:
    return Node("if", (_node(tree.this), _node(tree.args["true"]), _node(tree.args["false"])))


_OTHER: dict[type[exp.Expr], Callable[[exp.Expr], Node]] = {
    exp.Literal: _literal,
    exp.Boolean: lambda tree: Node("literal", value=tree.this),
    exp.Null: lambda tree: Node("literal"),
    exp.Placeholder: lambda tree: Node("parameter", value=tree.name),
    exp.Column: _column,
    exp.Dot: _column,
    exp.Paren: lambda tree: _node(tree.this),
    exp.Is: _is,
    exp.In: _in,
    exp.GT: _greater,
    exp.Cast: _cast,
    exp.Count: _count,
    exp.If: _if,
    exp.Left: lambda tree: Node("left", (_node(tree.this), _node(tree.expression))),
}
