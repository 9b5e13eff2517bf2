"""Queries of Spark's SQL for engines whose SQL is another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp, parse_one

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.parsing.dialect import translate_parser_errors
from rivet_dagster.sql.write_strategies.trees import Columns


@dataclass(frozen=True)
class Refusal:
    """A construct that may have other rows on the engine, at a line of the query."""

    line: int | None
    construct: str
    remedy: str


@dataclass(frozen=True)
class Translation:
    """A query for the engine, and what it refuses."""

    sql: str
    refusals: tuple[Refusal, ...] = ()


def translate(sql: str, support: str, tables: Mapping[str, Columns | None]) -> Translation:
    """Return a query of Spark's SQL, which reads ``tables``, for engines with that ``support``.

    >>> translate("SELECT CAST(a AS STRING) AS a FROM t", "duckdb", {}).sql
    'SELECT CAST(a AS TEXT) AS a FROM t'
    """
    if support != "duckdb":
        return Translation(sql)
    with translate_parser_errors():
        tree = parse_one(sql, dialect=SPARK)
    for cast in list(tree.find_all(exp.TryCast)):
        if not cast.args.get("safe"):
            cast.replace(exp.Cast(this=cast.this, to=cast.to))
    return Translation(tree.sql("duckdb").replace("XXHASH64(", "HASH("))
