"""Statements of write strategies, which are made here: their meaning on each engine is proven by conformance suites.

What an author writes is translated construct by construct instead, and refused where one is not proven.
"""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp, parse_one

from rivet_dagster.model.plugins import SPARK
from rivet_dagster.sql.parsing.dialect import translate_parser_errors


class GeneratedStatement(str):
    """The text, in Spark's SQL, of a statement in which nothing is an author's but names of relations and columns."""


@lru_cache(maxsize=64)
def statement_in_duckdb(sql: str) -> str:
    """Return such a statement in DuckDB's SQL.

    The part of a row is a hash by which files are told apart: it need not be the one that Spark computes. Raises
    SqlError.

    >>> statement_in_duckdb("SELECT *, XXHASH64(`day`) AS `rivet_part`, CAST(NULL AS bigint) AS `n` FROM `batch`")
    'SELECT *, HASH("day") AS "rivet_part", CAST(NULL AS BIGINT) AS "n" FROM "batch"'
    """
    with translate_parser_errors():
        tree = parse_one(sql, dialect=SPARK)
    for cast in list(tree.find_all(exp.TryCast)):
        if not cast.args.get("safe"):
            cast.replace(exp.Cast(this=cast.this, to=cast.to))
    return tree.sql("duckdb").replace("XXHASH64(", "HASH(")
