"""UNION, EXCEPT and INTERSECT of two queries, whose columns are cast to the types that Spark gives the result."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.translation.expressions import Expressions
from rivet_dagster.sql.translation.from_clause import Translated
from rivet_dagster.sql.translation.model import Named, NotProven, TypedExpression, TypeUnknown
from rivet_dagster.sql.translation.scope import as_subquery, column_of, quoted
from rivet_dagster.sql.translation.spark_types import wider

SET_OPERATIONS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
"""Their words in SQL."""


def combine(expressions: Expressions, operation: exp.SetOperation, left: Translated, right: Translated) -> Translated:
    """Return the set operation over two translated queries. Raise NotProven."""
    (one, columns), (other, others) = left, right
    if columns is None or others is None:
        raise TypeUnknown("a set operation over columns that are not known", operation)
    if len(columns) != len(others):
        raise NotProven("a set operation over different numbers of columns", operation)
    if any(c.refused for c in [*columns, *others]):
        raise NotProven()
    kinds: list[str] = []
    distinct = bool(operation.args.get("distinct")) or not isinstance(operation, exp.Union)
    for mine, theirs in zip(columns, others, strict=True):
        both = wider(mine.type, theirs.type) if mine.type is not None and theirs.type is not None else None
        if both is None:
            raise NotProven(f"a set operation over {mine.type} and {theirs.type}", operation)
        if distinct:
            expressions.key(TypedExpression(mine.tree, both), SET_OPERATIONS[type(operation)], operation)
        kinds.append(both)
    one = _arm(expressions, one, columns, kinds, operation)
    other = _arm(expressions, other, others, kinds, operation)
    made = type(operation)(this=one, expression=other, distinct=bool(operation.args.get("distinct")))
    return made, [Named(c.name, kind, c.tree) for c, kind in zip(columns, kinds, strict=True)]


def _arm(
    expressions: Expressions, query: exp.Expr, columns: Sequence[Named], kinds: Sequence[str], node: exp.Expr
) -> exp.Expr:
    """Return a query as one side of a set operation, its columns cast to the types of the result."""
    if [column.type for column in columns] == list(kinds):
        return as_subquery(query, None)
    alias = expressions.new_name()
    if len({column.name.lower() for column in columns}) < len(columns):
        raise NotProven("a set operation over columns of the same name and other types", node)
    items = [
        exp.Alias(
            this=expressions.cast(TypedExpression(column_of(alias, c.name), c.type), kind, node).tree,
            alias=quoted(c.name),
        )
        for c, kind in zip(columns, kinds, strict=True)
    ]
    return as_subquery(exp.Select(expressions=items, from_=exp.From(this=as_subquery(query, alias))), None)
