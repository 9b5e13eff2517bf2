"""Random expressions over a small table of hostile values, and what Spark makes of each row of it alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rivet_dagster.engines.pyspark.session import PySparkSession

COLUMNS = "id, a, b, s, ds, d, m, xs, f"
ROWS = (
    "(1, 1, 2, '3', '2024-01-01', 1.5D, CAST(2.5 AS DECIMAL(6, 2)), array(1, 2), true)",
    "(2, 0, 5, 'x', '2024-13-01', 0.0D, CAST(0 AS DECIMAL(6, 2)), array(), false)",
    "(3, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL)",
    "(4, 2147483647, -1, '99999999999', 'oops', 1e300D, CAST(9999.99 AS DECIMAL(6, 2)), array(7), true)",
    "(5, -2147483648, 3, ' 12 ', '', -1.0D, CAST(-1 AS DECIMAL(6, 2)), array(NULL, 0), NULL)",
    "(6, 5, NULL, '1.5', '2024-02-29', 2.0D, NULL, array(1, 2, 3), false)",
    "(7, 2, 0, '', '1999-12-31', 3.0D, CAST(1 AS DECIMAL(6, 2)), array(5, 6), true)",
)
# Constants alone never fail: Spark computes such expressions before it looks at any row.
_LEAVES = ("a", "b", "d", "m", "1", "2", "s", "id")


@dataclass(frozen=True)
class Alone:
    """What a query gives of one row alone: its ``rows``, or the ``condition`` of the error that it raises."""

    rows: tuple[tuple[Any, ...], ...] = ()
    condition: str | None = None


def number(r: random.Random, depth: int) -> str:
    """Return a random expression of a number."""
    if depth <= 0 or r.random() < 0.15:
        return r.choice(_LEAVES)

    def inner() -> str:
        return number(r, depth - 1)

    def truth() -> str:
        return condition(r, depth - 1)

    kinds: list[Callable[[], str]] = [
        lambda: f"a + ({inner()})",
        lambda: f"({inner()}) * b",
        lambda: f"({inner()}) / (b)",
        lambda: f"({inner()}) % (id - 3)",
        lambda: f"a div ({inner()})",
        lambda: f"-({inner()})",
        lambda: f"CAST({inner()} AS INT)",
        lambda: f"CAST({r.choice(('s', 'ds', 'd', 'm'))} AS {r.choice(('INT', 'DECIMAL(4,1)', 'TINYINT', 'BIGINT'))})",
        lambda: f"CASE WHEN {truth()} THEN {inner()} WHEN {truth()} THEN {inner()} ELSE {inner()} END",
        lambda: f"IF({truth()}, {inner()}, {inner()})",
        lambda: f"coalesce({inner()}, {inner()})",
        lambda: f"xs[{r.choice(('b', 'id', '0', '1'))}]",
        lambda: f"element_at(xs, {r.choice(('b', 'id', '1'))})",
        lambda: f"abs({inner()})",
        lambda: f"nullif({inner()}, a)",
        lambda: f"CASE b WHEN {inner()} THEN {inner()} END",
    ]
    return r.choice(kinds)()


def condition(r: random.Random, depth: int) -> str:
    """Return a random condition."""
    if depth <= 0:
        return r.choice(("f", "a > 1", "b = 0", "s <> 'x'", "m IS NULL", "s > 1"))

    def inner() -> str:
        return condition(r, depth - 1)

    kinds: list[Callable[[], str]] = [
        lambda: f"({number(r, depth - 1)}) {r.choice(('>', '<', '=', '<='))} a",
        lambda: f"({inner()} AND {inner()})",
        lambda: f"({inner()} OR {inner()})",
        lambda: f"NOT ({inner()})",
        lambda: "to_date(ds) > DATE'2020-01-01'",
        lambda: f"b IN (1, {number(r, depth - 1)})",
    ]
    return r.choice(kinds)()


def query(seed: int) -> str:
    """Return a random query of the table ``t``."""
    r = random.Random(seed)
    depth = r.choice((1, 1, 2, 2, 3))
    return r.choice(
        (
            f"SELECT id, {number(r, depth)} AS v FROM t",
            f"SELECT id, {number(r, depth)} AS v, {number(r, depth)} AS w FROM t",
            f"SELECT id, {number(r, depth - 1)} AS v FROM t WHERE coalesce({condition(r, depth)}, false)",
        )
    )


def wide_query(session: PySparkSession, seed: int, width: int) -> str:
    """Return a random query of the table ``t`` with ``width`` expressions whose types Spark accepts."""
    from pyspark.errors import PySparkException

    r, items = random.Random(seed), list[str]()
    while len(items) < width:
        item = f"{number(r, 1)} AS v{len(items)}"
        try:
            _ = session.spark.sql(f"SELECT {item} FROM t").schema
        except PySparkException:
            continue
        items.append(item)
    return f"SELECT id, {', '.join(items)} FROM t"


def alone(session: PySparkSession, sql: str) -> Mapping[int, Alone] | None:
    """Return what the query gives of each row alone, by the row's id; None if Spark refuses the query."""
    from pyspark.errors import PySparkException

    spark = session.spark
    try:
        _ = spark.sql(sql).schema
    except PySparkException:
        return None
    results: dict[int, Alone] = {}
    for row in range(1, len(ROWS) + 1):
        try:
            found = spark.sql(sql.replace("FROM t", f"FROM t{row}")).collect()
            results[row] = Alone(tuple(tuple(one) for one in found))
        except PySparkException as error:
            results[row] = Alone(condition=error.getCondition())
    return results
