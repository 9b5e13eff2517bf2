"""Queries of Spark's SQL for engines whose SQL is another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rivet_dagster.sql.own_statements import own_statement_for_duckdb
from rivet_dagster.sql.parsing.dialect import translate_parser_errors
from rivet_dagster.sql.write_strategies.trees import Columns


@dataclass(frozen=True)
class Refusal:
    """A construct that may have other rows on the engine, at a line of the query."""

    line: int
    construct: str
    remedy: str


@dataclass(frozen=True)
class Translation:
    """A query for the engine, and what it refuses."""

    sql: str
    refusals: tuple[Refusal, ...] = ()


def translate(
    sql: str,
    support: str,
    tables: Mapping[str, Columns | None],
    parameters: Mapping[str, str | None] | None = None,
) -> Translation:
    """Return a query of Spark's SQL, which reads ``tables``, for engines with that ``support``.

    >>> translate("SELECT CAST(a AS STRING) AS a FROM t", "duckdb", {}).sql
    'SELECT CAST(a AS TEXT) AS a FROM t'
    """
    if support != "duckdb":
        return Translation(sql)
    with translate_parser_errors():
        return Translation(own_statement_for_duckdb(sql))
