"""Queries of rows that are written in the query itself.

Empty relations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.model.schema import SparkType
from rivet_dagster.sql.parsing.dialect import quote_name

_IN_ONE_TASK = "/*+ COALESCE(1) */"
"""A hint after which Spark knows that all rows are in one place: joins, aggregates and windows need no exchange."""


def rows_query(columns: Sequence[tuple[str, SparkType]], rows: Sequence[Sequence[Any]]) -> str:
    """Return a query with these rows, whose columns have exactly these names and types.

    >>> print(rows_query([("id", SparkType("int")), ("day", SparkType("date"))], [(1, date(2026, 1, 2)), (2, None)]))
    SELECT /*+ COALESCE(1) */ CAST(id AS int) AS id, CAST(day AS date) AS day FROM VALUES
    ('1', '2026-01-02'),
    ('2', NULL)
    AS rows(id, day)
    >>> print(rows_query([("id", SparkType("int"))], []))
    SELECT /*+ COALESCE(1) */ CAST(NULL AS int) AS id WHERE false
    """
    if not rows:
        items = ", ".join(f"{_cast('NULL', type_)} AS {quote_name(name)}" for name, type_ in columns)
        return f"SELECT {_IN_ONE_TASK} {items} WHERE false"
    items = ", ".join(f"{_cast(quote_name(name), type_)} AS {quote_name(name)}" for name, type_ in columns)
    types = [type_ for _, type_ in columns]
    values = ",\n".join(f"({', '.join(map(_cell, row, types))})" for row in rows)
    names = ", ".join(quote_name(name) for name, _ in columns)
    return f"SELECT {_IN_ONE_TASK} {items} FROM VALUES\n{values}\nAS rows({names})"


def text_literal(text: str) -> str:
    r"""Return a text as a literal of Spark's SQL.

    >>> print(text_literal("it's a \\"))
    'it\'s a \\'
    """
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _cast(expression: str, type_: SparkType) -> str:
    return expression if type_.kind == "void" else f"CAST({expression} AS {type_.sql})"


def _cell(value: Any, type_: SparkType) -> str:
    """Return an expression that a cast turns into the value; within one column all have the same type."""
    if value is None:
        return "NULL"
    match type_.kind:
        case "binary":
            return f"X'{value.hex()}'"
        case "array":
            return _cast(f"array({', '.join(_inner(item, type_.parts[0]) for item in value)})", type_)
        case "map":
            pairs = ", ".join(f"{_inner(k, type_.parts[0])}, {_inner(v, type_.parts[1])}" for k, v in value)
            return _cast(f"map({pairs})", type_)
        case "struct":
            fields = zip(type_.names, type_.parts, strict=True)
            return f"named_struct({', '.join(f'{text_literal(n)}, {_inner(value[n], part)}' for n, part in fields)})"
    return text_literal(_scalar(value))


def _inner(value: Any, type_: SparkType) -> str:
    return _cast(_cell(value, type_), type_)


def _scalar(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case datetime():
            return value.isoformat(sep=" ")
        case date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
    return str(value)


def empty_relation(columns: Iterable[tuple[str, str]]) -> str:
    """Return the query of no rows with columns of these names and types.

    >>> empty_relation([("id", "bigint"), ("net total", "decimal(10,2)")])
    'SELECT CAST(NULL AS bigint) AS `id`, CAST(NULL AS decimal(10,2)) AS `net total` WHERE FALSE'
    """
    items = [
        exp.Alias(
            this=exp.Cast(this=exp.Null(), to=exp.DataType(this=exp.DType.USERDEFINED, kind=type_)),
            alias=exp.to_identifier(name, quoted=True),
        )
        for name, type_ in columns
    ]
    return exp.select(*items).where(exp.false()).sql(dialect=SPARK)
