"""Queries of Spark's SQL on engines beside Spark, which run what is proven to give Spark's rows there."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.contract import Typed
from rivet_dagster.errors import Diagnostic, RivetError

if TYPE_CHECKING:
    from rivet_dagster.engines.kept_translations import KeptTranslations
    from rivet_dagster.sql.translation import Refusal

_TYPES = {
    bool: "boolean",
    str: "string",
    float: "double",
    bytes: "binary",
    dt.date: "date",
    dt.datetime: "timestamp",
    type(None): "void",
}


def translate_query(
    sql: str,
    engine: str,
    tables: Mapping[str, tuple[tuple[str, str], ...]],
    parameters: Mapping[str, Any],
    kept: KeptTranslations | None = None,
) -> str:
    """Return a query as ``DuckDB`` or ``Sail`` runs it, by the columns of the ``tables`` that it may read.

    ``kept`` are the translations of earlier processes. Raises RVT-329 for what may have other rows there than on Spark.
    """
    types = ((name, spark_type_of(value)) for name, value in parameters.items())
    translated, refusals = _translate(sql, engine.lower(), tuple(tables.items()), tuple(types), kept)
    if refusals:
        raise RivetError.of(
            Diagnostic(
                "RVT-329",
                f"{refusal.construct} may have other rows on {engine} than on Spark",
                line=refusal.line,
                remediation=refusal.remedy or _REMEDIES[engine],
            )
            for refusal in refusals
        )
    return translated


# A joint's query is the same in each run of a process, and so are mostly its columns.
@lru_cache(maxsize=256)
def _translate(
    sql: str,
    engine: str,
    tables: tuple[tuple[str, tuple[tuple[str, str], ...]], ...],
    types: tuple[tuple[str, str | None], ...],
    kept: KeptTranslations | None,
) -> tuple[str, tuple[Refusal, ...]]:
    text = json.dumps((sql, engine, tables, types))
    known = kept.get(text) if kept is not None else None
    if known is not None:
        return known, ()
    # A process whose queries are all kept runs without it.
    from rivet_dagster.sql.translation import translate

    made = translate(sql, engine, dict(tables), dict(types))
    if kept is not None and not made.refusals:
        kept.put(text, made.sql)
    return made.sql, made.refusals


_REMEDIES = {
    "DuckDB": "Write it otherwise, write the joint in DuckDB's SQL (`dialect: duckdb`), or run it on Spark.",
    "Sail": "Write it otherwise, or run it on Spark.",
}


def spark_type_of(value: Any) -> str | None:
    """Return the type that the value of a parameter has in Spark; None for one that Spark infers otherwise.

    >>> spark_type_of(5), spark_type_of(Typed("x", "string")), spark_type_of(Decimal("12.50")), spark_type_of(None)
    ('int', 'string', 'decimal(4,2)', 'void')
    """
    if isinstance(value, Typed):
        return value.type
    if isinstance(value, Decimal):
        return decimal_type(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return "int" if -(2**31) <= value < 2**31 else "bigint"
    return _TYPES.get(type(value))


def decimal_type(value: Decimal) -> str:
    """Return the type that has the digits of a decimal.

    >>> decimal_type(Decimal("12.50")), decimal_type(Decimal("0.001")), decimal_type(Decimal("1E+2"))
    ('decimal(4,2)', 'decimal(3,3)', 'decimal(3,0)')
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    return f"decimal({max(len(digits) + max(exponent, 0), scale, 1)},{scale})"
