"""UNION, EXCEPT and INTERSECT of two queries, whose columns are cast to the types that Spark gives the result."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from rivet_dagster.sql.translation.expressions import Expressions
from rivet_dagster.sql.translation.from_clause import Translated
from rivet_dagster.sql.translation.model import Named, NotProven, TypedExpression, TypeUnknown
from rivet_dagster.sql.translation.proven import Support
from rivet_dagster.sql.translation.scope import as_subquery, column_of, quoted
from rivet_dagster.sql.translation.spark_types import wider
from rivet_dagster.sql.translation.templates import call

SET_OPERATIONS: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT"}
"""Their words in SQL."""
NUMBERED = "INTERSECT ALL by numbers of rows"
"""The clause of the list of an engine whose own keeps all rows of the left query that the right one has at all."""


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
    made: exp.Expr
    if needs_numbers(operation, expressions.support):
        made = _intersection(_numbered(expressions, one, columns), _numbered(expressions, other, others), columns)
    else:
        made = type(operation)(this=one, expression=other, distinct=bool(operation.args.get("distinct")))
    return made, [Named(c.name, kind, c.tree) for c, kind in zip(columns, kinds, strict=True)]


def needs_numbers(operation: exp.SetOperation, support: Support) -> bool:
    """Return whether it is INTERSECT ALL on an engine that has only INTERSECT."""
    return isinstance(operation, exp.Intersect) and not operation.args.get("distinct") and NUMBERED in support.clauses


def _numbered(expressions: Expressions, query: exp.Subquery, columns: Sequence[Named]) -> exp.Select:
    """Return a query whose rows are made different: of equal ones the first has the number 1, the next one 2."""
    if len({column.name.lower() for column in columns}) < len(columns):
        raise NotProven("INTERSECT ALL over columns of the same name", query)
    alias = expressions.new_name()
    keys = [column_of(alias, column.name) for column in columns]
    number = exp.Window(
        this=call("row_number"),
        partition_by=keys,
        order=exp.Order(expressions=[exp.Ordered(this=keys[0].copy(), nulls_first=True)]),
    )
    items = [exp.Alias(this=key.copy(), alias=quoted(column.name)) for key, column in zip(keys, columns, strict=True)]
    return exp.Select(
        expressions=[*items, exp.Alias(this=number, alias=quoted(expressions.new_name()))],
        from_=exp.From(this=as_subquery(query.this, alias)),
    )


def _intersection(one: exp.Select, other: exp.Select, columns: Sequence[Named]) -> exp.Select:
    """Return the columns of the rows that both queries have, without the numbers of rows."""
    whole = exp.Intersect(this=as_subquery(one, None), expression=as_subquery(other, None), distinct=True)
    return exp.Select(
        expressions=[exp.Column(this=quoted(column.name)) for column in columns],
        from_=exp.From(this=as_subquery(whole, "numbered")),
    )


def _arm(
    expressions: Expressions, query: exp.Expr, columns: Sequence[Named], kinds: Sequence[str], node: exp.Expr
) -> exp.Subquery:
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
