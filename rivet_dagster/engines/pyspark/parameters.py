"""The parameters of a query, in the form that Spark binds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rivet_dagster.engines.contract import Typed

_LITERALS = {
    "tinyint": "{}Y",
    "smallint": "{}S",
    "bigint": "{}L",
    "decimal": "{:f}BD",
    "date": "DATE '{}'",
    "timestamp": "TIMESTAMP_LTZ '{}'",
    "timestamp_ntz": "TIMESTAMP_NTZ '{}'",
}
"""Templates of literals for types that Spark would not infer from a Python value."""


def bound(parameters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the ``args`` for ``SparkSession.sql``; None without parameters."""
    if not parameters:
        return None
    return {name: _column(value) if isinstance(value, Typed) else value for name, value in parameters.items()}


def _column(typed: Typed) -> Any:
    from pyspark.sql import functions

    literal = literal_of(typed)
    return functions.lit(typed.value) if literal is None else functions.expr(literal)


def literal_of(typed: Typed) -> str | None:
    """Return the literal of a value whose type pyspark would not infer, else None.

    >>> literal_of(Typed(5, "bigint")), literal_of(Typed(5, "int"))
    ('5L', None)
    """
    form = _LITERALS.get(typed.type.partition("(")[0])
    return None if form is None else form.format(typed.value)
