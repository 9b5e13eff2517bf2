"""Parameters of queries: DuckDB binds them in statements that run at once, and a view has none.

So the value of each is bound to a variable of the connection, to which the view refers.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from rivet_dagster.engines.contract import Typed
from rivet_dagster.engines.duckdb.types import duckdb_type
from rivet_dagster.model.schema import parse_type

_SPARK_TYPES = {
    bool: "boolean",
    str: "string",
    float: "double",
    bytes: "binary",
    dt.date: "date",
    dt.datetime: "timestamp",
    type(None): "void",
}

_PIECE = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | --[^\n]* | /\*.*?\*/
      | (?P<dollars>\$(?:[A-Za-z_]\w*)?\$).*?(?P=dollars)
      | (?<![\w$])\$(?P<name>[A-Za-z_]\w*)""",
    re.VERBOSE | re.DOTALL,
)


def with_variables(sql: str, variable: Callable[[str], str]) -> str:
    """Return a query of DuckDB's SQL with an expression of ``variable`` in place of each of its parameters.

    >>> with_variables("SELECT $v AS v, '$v', $$ $v $$ -- $v", lambda name: f"<{name}>")
    "SELECT <v> AS v, '$v', $$ $v $$ -- $v"
    """
    return _PIECE.sub(lambda piece: variable(piece["name"]) if piece["name"] is not None else piece[0], sql)


def spark_type_of(value: Any) -> str | None:
    """Return the type that the value of a parameter has in Spark; None for one that Spark infers otherwise.

    >>> spark_type_of(5), spark_type_of(Typed("x", "string")), spark_type_of(Decimal("12.50")), spark_type_of(None)
    ('int', 'string', 'decimal(4,2)', 'void')
    """
    if isinstance(value, Typed):
        return value.type
    if isinstance(value, Decimal):
        return _decimal_type(value).lower()
    if isinstance(value, int) and not isinstance(value, bool):
        return "int" if -(2**31) <= value < 2**31 else "bigint"
    return _SPARK_TYPES.get(type(value))


def bound_value(value: Any) -> tuple[Any, str | None]:
    """Return the value that is bound, and the type of DuckDB to which it is cast; None if it has its type already.

    A value without a declared type gets that which Spark gives it.

    >>> bound_value(5), bound_value(2**40), bound_value(Typed("2024-07-01 00:00:00", "timestamp_ntz"))
    ((5, 'INTEGER'), (1099511627776, 'BIGINT'), ('2024-07-01 00:00:00', 'TIMESTAMP'))
    """
    if isinstance(value, Typed):
        return value.value, duckdb_type(parse_type(value.type))
    if isinstance(value, bool) or value is None:
        return value, None
    if isinstance(value, int):
        return value, "INTEGER" if -(2**31) <= value < 2**31 else "BIGINT"
    if isinstance(value, Decimal):
        return value, _decimal_type(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC), "TIMESTAMP WITH TIME ZONE"  # a naive one is of this process's zone
    return value, None


def _decimal_type(value: Decimal) -> str:
    """Return the type that has the digits of a decimal.

    >>> _decimal_type(Decimal("12.50")), _decimal_type(Decimal("0.001")), _decimal_type(Decimal("1E+2"))
    ('DECIMAL(4,2)', 'DECIMAL(3,3)', 'DECIMAL(3,0)')
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    return f"DECIMAL({max(len(digits) + max(exponent, 0), scale, 1)},{scale})"
