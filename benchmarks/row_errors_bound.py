"""What quarantining few bad rows takes at the least: bare queries by hand, beside the plain query of clean rows.

One row of 10,000 has a text that is no number. The contenders are

- ``plain``, the query of rows that are all clean, as Parquet,
- ``two passes``, a query of the good rows and one of the bad rows, each of which holds its row as JSON,
- ``one pass``, the good rows while an `Observation` collects the bad rows, which are written afterwards,
- ``keys``, the same with the key of each bad row alone, which is not written: what an error costs that shows no row.

None has codes, places, samples, counts of errors, or publication. They take turns in one Spark session, and the script
checks that all have the same rows. Nothing here asserts a time.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from comparison import compare, heading, parser_of, report
from one_session import load, open_runtime, start_spark
from row_errors import NAMES, ROWS

HERE = Path(__file__).resolve().parent
PLAIN, TWO, ONE, KEYS = "plain", "two passes", "one pass", "keys"
TRIED = "SELECT *, try_cast(s AS INT) AS n, try_cast(s AS INT) IS NULL AS bad FROM dirty"
ROW = "to_json(struct(id, s, k, d, a, b, code))"


@dataclass(frozen=True)
class Case:
    """A query that may fail, and that of its good rows, where ``n`` is the number and ``bad`` tells a bad row."""

    plain: str
    good: str
    bad: str = "bad"


CASES = {
    "map": Case(
        "SELECT id, CAST(s AS INT) AS n, CAST(d AS DATE) AS day, upper(code) AS code FROM clean",
        "SELECT id, n, CAST(d AS DATE) AS day, upper(code) AS code FROM tried WHERE NOT bad",
    ),
    "filter": Case(
        "SELECT id, s, k, code FROM clean WHERE CAST(s AS INT) > 500 AND k < 900",
        "SELECT id, s, k, code FROM tried WHERE n > 500 AND k < 900",
        "bad AND k < 900",
    ),
    "group": Case(
        "SELECT k, sum(CAST(s AS INT)) AS total, count(*) AS n FROM clean GROUP BY k",
        "SELECT k, sum(n) AS total, count(*) AS n FROM tried GROUP BY k HAVING NOT bool_or(bad)",
    ),
    "join": Case(
        "SELECT t.id, t.code, u.name FROM clean AS t JOIN names AS u ON CAST(t.s AS INT) = u.k",
        "SELECT t.id, t.code, u.name FROM tried AS t JOIN names AS u ON t.n = u.k",
    ),
}


def main() -> None:
    parser = parser_of(__doc__ or "", rounds=5)
    parser.add_argument("--case", choices=CASES, action="append", help="measure this query; may be given several times")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="row_errors_bound-", dir=HERE) as folder:
        spark = start_spark(open_runtime(Path(folder), []))
        print(heading(spark, options), flush=True)
        tables = {"clean": ROWS.format(rows=options.rows, dirty="FALSE"), "names": NAMES}
        tables["dirty"] = ROWS.format(rows=options.rows, dirty="TRUE")
        for name, sql in tables.items():
            spark.sql(sql).write.parquet(f"{folder}/{name}")
            spark.read.parquet(f"{folder}/{name}").createOrReplaceTempView(name)
        for name in options.case or CASES:
            case = CASES[name]
            contenders = {
                PLAIN: partial(write, spark, case.plain),
                TWO: partial(in_two_passes, spark, case),
                ONE: partial(in_one_pass, spark, case, ROW),
                KEYS: partial(in_one_pass, spark, case, "CAST(id AS STRING)"),
            }
            check(spark, contenders, Path(folder) / "checked" / name)
            runs = compare(spark, options, Path(folder) / "scratch", contenders)
            print(f"\n`{name}`, load average afterwards {load()}\n")
            print(report(runs, [(each, PLAIN) for each in (TWO, ONE, KEYS)], {}), flush=True)
        spark.stop()


def write(spark: Any, sql: str, folder: Path, name: str = "good") -> None:
    """Write the rows of a query."""
    spark.sql(sql).write.parquet(str(folder / name))


def in_two_passes(spark: Any, case: Case, folder: Path) -> None:
    """Write the good rows, then the bad ones."""
    spark.sql(TRIED).createOrReplaceTempView("tried")
    write(spark, case.good, folder)
    write(spark, f"SELECT {ROW} AS row FROM tried WHERE {case.bad}", folder, "bad")


def in_one_pass(spark: Any, case: Case, shown: str, folder: Path) -> None:
    """Write the good rows, observe what is ``shown`` of the bad ones, and write that if it is their row."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import expr

    observation = Observation()
    collected = expr(f"collect_list(CASE WHEN {case.bad} THEN {shown} END)").alias("rows")
    spark.sql(TRIED).observe(observation, collected).createOrReplaceTempView("tried")
    write(spark, case.good, folder)
    rows = observation.get["rows"]
    if shown == ROW:
        spark.createDataFrame([(row,) for row in rows], "row STRING").write.parquet(str(folder / "bad"))


def check(spark: Any, contenders: Mapping[str, Any], folder: Path) -> None:
    """Exit where contenders have written other rows."""
    for name, contender in contenders.items():
        contender(folder / name)
    for other, part in ((ONE, "good"), (KEYS, "good"), (ONE, "bad")):
        one, two = (f"SELECT * FROM parquet.`{folder}/{name}/{part}`" for name in (TWO, other))
        if spark.sql(f"({one} EXCEPT ALL {two}) UNION ALL ({two} EXCEPT ALL {one})").limit(1).collect():
            sys.exit(f"{other} has other {part} rows than {TWO}")
    spark.sql(f"SELECT * FROM parquet.`{folder}/{TWO}/bad`").createOrReplaceTempView("bad_rows")
    if not spark.table("bad_rows").count():
        sys.exit("no row is bad")


if __name__ == "__main__":
    main()
