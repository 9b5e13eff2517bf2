"""Rows as values in the statements of scd2: PostgreSQL has them as values of a composite type that is made for them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

_ROWS = frozenset({"row", "previous", "first", "last", "restated", "base", "current"})
"""The columns of these statements that hold rows, by the names that the statements give them."""


def has_rows(tree: exp.Expr) -> bool:
    """Return whether a statement has rows as values."""
    return tree.find(exp.Struct) is not None


def rows_of_type(tree: exp.Expr, row_type: str) -> exp.Expr:
    """Return a statement of scd2 whose rows are values of a composite type; its fields are theirs, in this order.

    >>> from sqlglot import parse_one
    >>> tree = parse_one("SELECT row.id FROM (SELECT STRUCT(id AS id) AS row FROM batch) AS rows", dialect="databricks")
    >>> rows_of_type(tree, "t").sql("postgres")
    'SELECT (row).id FROM (SELECT CAST(ROW(id) AS t) AS row FROM batch) AS rows'
    """
    for node in reversed(list(tree.walk())):  # inner ones first
        rewritten = _rewritten(node, row_type)
        if rewritten is not node:
            node.replace(rewritten)
    return tree


def _rewritten(node: exp.Expr, row_type: str) -> exp.Expr:
    if isinstance(node, exp.Column) and node.table in _ROWS:
        return exp.Dot(this=exp.Paren(this=exp.column(node.args["table"].copy())), expression=node.this.copy())
    if isinstance(node, exp.Struct) and not isinstance(node.parent, exp.ArgMin | exp.ArgMax):
        values = [item.expression if isinstance(item, exp.PropertyEQ) else item.unalias() for item in node.expressions]
        return _cast(exp.Anonymous(this="ROW", expressions=[value.copy() for value in values]), row_type)
    if isinstance(node, exp.ArgMin | exp.ArgMax):
        places = [item.expression for item in node.expression.expressions]
        descending = isinstance(node, exp.ArgMax)
        order = [exp.Ordered(this=place.copy(), desc=descending, nulls_first=False) for place in places]
        return _first_of(exp.Order(this=node.this.copy(), expressions=order))
    if isinstance(node, exp.Filter) and isinstance(node.this, exp.AnyValue):
        return _first_of(node.this.this.copy(), node.expression.copy())
    if isinstance(node, exp.Explode):
        return exp.Anonymous(this="UNNEST", expressions=[node.this.copy()])
    if isinstance(node, exp.Is) and isinstance(node.this, exp.Column) and node.this.name in _ROWS:
        # A row whose values are all NULL `IS NULL`, too.
        return exp.NullSafeEQ(this=node.this.copy(), expression=exp.Null())
    return node


def _first_of(values: exp.Expr, where: exp.Expr | None = None) -> exp.Expr:
    """Return the first value that an aggregate collects; NULL if there is none."""
    found: exp.Expr = exp.ArrayAgg(this=values)
    if where is not None:
        found = exp.Filter(this=found, expression=where)
    return exp.Bracket(this=exp.Paren(this=found), expressions=[exp.Literal.number(1)], offset=1)


def _cast(value: exp.Expr, type_: str) -> exp.Expr:
    return exp.Cast(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=type_))


def create_row_type(name: str, columns: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the statements that make a composite type in place of one that another transaction has made.

    >>> create_row_type("pg_temp.rivet_row", [("id", "bigint")])
    ('DROP TYPE IF EXISTS pg_temp.rivet_row', 'CREATE TYPE pg_temp.rivet_row AS ("id" bigint)')
    """
    fields = [
        exp.ColumnDef(
            this=exp.to_identifier(column, quoted=True),
            kind=exp.DataType(this=exp.DType.USERDEFINED, kind=type_),
        ).sql("postgres")
        for column, type_ in columns
    ]
    return f"DROP TYPE IF EXISTS {name}", f"CREATE TYPE {name} AS ({', '.join(fields)})"
