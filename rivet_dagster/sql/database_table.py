"""The query with which the rows of a database's table are read, in the database's own SQL, and shared out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp, parse_one

from rivet_dagster.sql.mariadb import DIALECT as MARIADB
from rivet_dagster.sql.mariadb import failing, parent_of, to_sql

PART = "rivet_part"
"""The column by whose values rows are shared out among queries."""

_VALUE = "value"


@dataclass(frozen=True)
class SelectedColumn:
    """A column of a table that is read, through a ``cast`` to a type of the database if there is one.

    ``only_if`` is a condition on its ``value``. Of a value for which it is false the database raises an error with the
    text ``otherwise``: where no value of the column's type has this text. A text that ``is_loose`` gets the collation
    of bytes, so that conditions of engines mean the same in the database.
    """

    name: str
    type: str
    cast: str | None = None
    only_if: str | None = None
    otherwise: str = ""
    is_loose: bool = False


@dataclass(frozen=True)
class Below:
    """The rows whose ``column`` is less than a ``value`` of this ``type``, or NULL."""

    column: str
    value: str
    type: str


def table_query(
    table: tuple[str, str] | str,
    columns: Sequence[SelectedColumn],
    dialect: str,
    shared_out_by: str | None = None,
    below: Below | None = None,
    only_if: exp.Expr | None = None,
) -> str:
    """Return the query of the columns of a ``table``, its schema and name, in parentheses, with an alias.

    Instead of a table it may be the text of a query of the database, which has the columns.

    It has PART, too, if the rows are ``shared_out_by`` a column. Rows that are not ``below`` are left out, and all
    where the condition ``only_if`` is not true.

    >>> columns = [SelectedColumn("id", "integer"), SelectedColumn("key", "uuid", cast="text")]
    >>> print(table_query(("shop", "Orders"), columns, "postgres", "id"))
    (SELECT "id" AS "id", CAST("key" AS text) AS "key", "id" AS "rivet_part" FROM "shop"."Orders") rivet_source
    """
    items = [exp.alias_(_read(column, dialect), column.name, quoted=True) for column in columns]
    if shared_out_by is not None:
        items.append(exp.alias_(_column(shared_out_by), PART, quoted=True))
    rows = exp.Select(expressions=items, from_=exp.From(this=_rows(table)))
    if below is not None:
        value = _cast(exp.Literal.string(below.value), below.type)
        is_below = exp.LT(this=_column(below.column), expression=value)
        rows.set("where", exp.Where(this=exp.Or(this=is_below, expression=_is_null(_column(below.column)))))
    if only_if is not None:
        rows = rows.where(only_if)
    return f"({to_sql(rows, dialect)}) rivet_source"


def share_conditions(bounds: Sequence[str], type_: str, dialect: str) -> tuple[str, ...]:
    """Return the conditions on PART that share out rows at ``bounds``, texts of values in order; one more than these.

    Each row fulfills exactly one of them; NULL is in the first part.

    >>> for condition in share_conditions(["10", "20"], "bigint", "postgres"):
    ...     print(condition)
    "rivet_part" < CAST('10' AS bigint) OR "rivet_part" IS NULL
    "rivet_part" >= CAST('10' AS bigint) AND "rivet_part" < CAST('20' AS bigint)
    "rivet_part" >= CAST('20' AS bigint)
    """
    if not bounds:
        return ()
    values = [_cast(exp.Literal.string(bound), type_) for bound in bounds]
    below = [exp.LT(this=_column(PART), expression=value) for value in values]
    from_ = [exp.GTE(this=_column(PART), expression=value.copy()) for value in values]
    first = exp.Or(this=below[0], expression=_is_null(_column(PART)))
    between = [exp.And(this=low, expression=high) for low, high in zip(from_, below[1:], strict=False)]
    return tuple(to_sql(condition, dialect) for condition in (first, *between, from_[-1]))


def is_true(query: str, otherwise: str, type_: str, dialect: str) -> exp.Expr:
    """Return the condition that the one value of a query is true; else the database raises an error with a text.

    ``type_`` is its name for truth values.

    >>> print(is_true("SELECT TRUE", "it has changed", "boolean", "postgres").sql(dialect="postgres"))
    CASE WHEN (SELECT TRUE) THEN TRUE ELSE CAST((SELECT CONCAT('it has changed', NULL)) AS boolean) END
    """
    value = exp.Subquery(this=exp.Var(this=query))
    if dialect == MARIADB:
        error = failing(exp.Literal.string(otherwise.replace("'", '"')), type_)
        return exp.Case(ifs=[exp.If(this=value, true=exp.true())], default=error)
    # In a query of its own, which no planner evaluates before it has to.
    text = exp.Anonymous(this="CONCAT", expressions=[exp.Literal.string(otherwise), exp.Null()])
    error = _cast(exp.Subquery(this=exp.select(text)), type_)
    return exp.Case(ifs=[exp.If(this=value, true=exp.true())], default=error)


def _rows(table: tuple[str, str] | str) -> exp.Expr:
    if isinstance(table, str):
        return exp.Subquery(this=exp.Var(this=table), alias=exp.TableAlias(this=exp.to_identifier("rivet_rows")))
    schema, name = (exp.to_identifier(part, quoted=True) for part in table)
    return exp.Table(this=name, db=schema)


def _read(column: SelectedColumn, dialect: str) -> exp.Expr:
    value: exp.Expr = _column(column.name) if column.cast is None else _cast(_column(column.name), column.cast)
    if column.is_loose:
        value = exp.Collate(this=value, expression=exp.to_identifier("C", quoted=True))
    if column.only_if is None:
        return value
    type_ = column.cast or column.type
    condition = parse_one(column.only_if, dialect=parent_of(dialect)).transform(
        lambda node: value.copy() if isinstance(node, exp.Column) and node.name == _VALUE else node
    )
    condition = exp.Or(this=condition, expression=_is_null(value.copy()))
    case = exp.Case(ifs=[exp.If(this=condition, true=value.copy())])
    if dialect == MARIADB:
        as_text = exp.Cast(this=_column(column.name), to=exp.Var(this="CHAR"))
        text = exp.Anonymous(this="CONCAT", expressions=[exp.Literal.string(column.otherwise), as_text])
        case.set("default", failing(text, type_))
    else:
        case.set("default", _cast(_text_of_a_row(column), type_))
    return case


def _text_of_a_row(column: SelectedColumn) -> exp.Expr:
    """Return the text ``otherwise`` as an expression of the row, which no planner evaluates before it has a row."""
    text = _cast(_column(column.name), "text")
    nothing = exp.Anonymous(this="NULLIF", expressions=[text, text.copy()])
    return exp.Anonymous(this="CONCAT", expressions=[exp.Literal.string(column.otherwise), nothing])


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _is_null(value: exp.Expr) -> exp.Is:
    return exp.Is(this=value, expression=exp.Null())


def _cast(value: exp.Expr, type_: str) -> exp.Cast:
    return exp.Cast(this=value, to=exp.Var(this=type_))
