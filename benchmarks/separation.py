"""How long the compiler takes to separate a query into its good rows and the errors of the others.

Processor time, as on a busy machine elapsed time says nothing of a few milliseconds. It needs no Spark. The figures are
printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping

from measuring import Spread, markdown

from rivet_dagster.model.row_errors import RowErrors
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.separation import separate

MOST_MILLISECONDS = 50
"""What the separation of one query may take."""

THIRTY = (
    "CAST({c} AS INT)",
    "CAST({c} AS DECIMAL(12, 2)) * 100",
    "to_date({c}, 'yyyy-MM-dd')",
    "{c} / divisor",
    "coalesce(CAST({c} AS DOUBLE), 0) + 1",
    "upper({c})",
)
TPC_H = """
WITH sales AS (
    SELECT o.o_orderkey, c.c_mktsegment, CAST(o.o_orderdate AS DATE) AS ordered,
           CAST(l.l_extendedprice AS DECIMAL(12, 2)) * (1 - CAST(l.l_discount AS DECIMAL(4, 2))) AS revenue,
           CAST(l.l_quantity AS INT) AS quantity, CAST(l.l_discount AS DOUBLE) AS discount
    FROM lineitem AS l
    JOIN orders AS o ON CAST(l.l_orderkey AS BIGINT) = o.o_orderkey
    JOIN customer AS c ON o.o_custkey = c.c_custkey
    WHERE CAST(l.l_shipdate AS DATE) > DATE '1995-03-15' AND c.c_mktsegment IN ('BUILDING', 'MACHINERY')
)
SELECT c_mktsegment, ordered, sum(revenue) AS revenue, sum(revenue) / sum(quantity) AS price,
       avg(discount) AS discount, count(DISTINCT o_orderkey) AS orders
FROM sales
WHERE quantity BETWEEN 1 AND 50
GROUP BY c_mktsegment, ordered
HAVING sum(revenue) > 1000
"""
QUERIES: Mapping[str, str] = {
    "5 columns": "SELECT id, CAST(s AS INT) AS n, CAST(d AS DATE) AS day, a / b AS ratio, upper(code) AS code FROM t",
    "30 columns": "SELECT "
    + ", ".join(f"{THIRTY[i % len(THIRTY)].format(c=f'c{i}')} AS c{i}" for i in range(30))
    + " FROM t",
    "like TPC-H": TPC_H,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=21, help="timed rounds after the first (default 21)")
    options = parser.parse_args()
    header = ("query", "CPU ms: median (min..max)", "the first", "error queries", "kB of SQL", "goal")
    print(markdown(header, [measured(name, sql, options.rounds) for name, sql in QUERIES.items()]))


def measured(name: str, sql: str, rounds: int) -> tuple[str, ...]:
    """The figures of a query; those of the first separation, which no cache has helped, stand alone."""
    milliseconds = []
    for _ in range(rounds + 1):
        started = time.process_time()
        found = separate(sql, QueryLocation("j"))
        milliseconds.append(1000 * (time.process_time() - started))
        if not isinstance(found, RowErrors):
            sys.exit(f"'{name}' should be separable, but {found}")
    first, *others = milliseconds
    spread = Spread.of(others)
    size = len(found.good) + sum(map(len, found.queries))
    word = "met" if spread.median < MOST_MILLISECONDS else "missed"
    return name, str(spread), f"{first:.2f}", str(len(found.queries)), f"{size / 1000:.0f}", word


if __name__ == "__main__":
    main()
