"""Parameters of queries: DuckDB binds them in statements that run at once, and a view has none.

So the value of each is bound to a variable of the connection, to which the view refers.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from rivet_dagster.engines.contract import Typed
from rivet_dagster.engines.duckdb.types import duckdb_type
from rivet_dagster.engines.translated_queries import decimal_type
from rivet_dagster.model.schema import parse_type


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
        return value, decimal_type(value).upper()
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC), "TIMESTAMP WITH TIME ZONE"  # a naive one is of this process's zone
    return value, None
