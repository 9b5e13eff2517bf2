"""What quarantining costs where many values are bad, against two queries with TRY_CAST that one would write by hand.

Three in ten values of each of three columns cannot be cast: 70% of the rows are bad. The contenders are

- ``quarantine``, the run of a group, over a version that has errors already: rows and errors are published with the
  place, the condition, the message and the row of each error, and counted with samples,
- ``by hand``, a query of the good rows and one of the bad rows as they were read, written as Parquet and synced.

They take turns in one Spark session. The script checks both against each other. Goal: ``quarantine`` takes at most 2.0
times as long. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import uuid
from functools import partial
from pathlib import Path
from typing import Any

from measuring import Spread, markdown, mean_ratio, quartiles, ratios, take_turns
from one_session import cpu_seconds, load, open_runtime, start_spark

from rivet_dagster import Joint
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.text_lines import Origin

HERE = Path(__file__).resolve().parent
QUARANTINE, BY_HAND = "quarantine", "by hand"
MOST = 2.0

ROWS = """
SELECT id, CASE WHEN id * 7 % 10 < 3 THEN 'x' ELSE CAST(id % 1000 AS STRING) END AS s,
       CASE WHEN id * 3 % 10 < 3 THEN 'y' ELSE CAST(DATE '2020-01-01' + CAST(id % 1500 AS INT) AS STRING) END AS d,
       CASE WHEN id * 9 % 10 < 3 THEN 'z' ELSE CAST(id % 997 / 4 AS STRING) END AS m
FROM range(0, {rows}, 1, 8)
"""
CASTS = {"n": "CAST(s AS INT)", "day": "CAST(d AS DATE)", "amount": "CAST(m AS DECIMAL(10, 2))"}
ITEMS = ", ".join(f"{text} AS {name}" for name, text in CASTS.items())
TRIED = f"SELECT *, {ITEMS.replace('CAST(', 'try_cast(')} FROM {{table}}"
GOOD = " AND ".join(f"{name} IS NOT NULL" for name in CASTS)


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="row_errors_by_hand-", dir=HERE) as folder:
        runtime = open_runtime(Path(folder), joints())
        spark = start_spark(runtime)
        print(f"- {options.rows:,} rows, {options.rounds} rounds after {options.warm_ups}, load before: {load()}")
        path = str(Path(folder) / "data/rows.parquet")
        spark.sql(ROWS.format(rows=options.rows)).write.parquet(path)
        spark.read.parquet(path).createOrReplaceTempView("rows")
        contenders = {QUARANTINE: partial(quarantine, runtime), BY_HAND: partial(write_by_hand, spark)}
        contenders[QUARANTINE](Path(folder))  # the version that has errors
        check(spark, Path(folder), contenders[BY_HAND](Path(folder) / "checked"))
        runs = take_turns(
            contenders,
            options.rounds,
            warm_ups=options.warm_ups,
            scratch=Path(folder) / "scratch",
            between=spark._jvm.System.gc,
            cpu_seconds=partial(cpu_seconds, spark),
        )
        times = [
            (name, str(Spread.of(run.seconds for run in of_one)), str(Spread.of(run.cpu_seconds for run in of_one)))
            for name, of_one in runs.items()
        ]
        found = ratios(runs[QUARANTINE], runs[BY_HAND])
        print(markdown(("contender", "seconds: median (min..max)", "CPU seconds"), times))
        print(f"\nratio: {' '.join(quartiles(found))} (quartiles), mean {mean_ratio(found)}, load after: {load()}")
        print(f"goal {'met' if statistics.median(found) <= MOST else 'missed'}: at most {MOST}")
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of the table (default 5,000,000)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before them that are not timed (default 1)")
    return parser.parse_args()


def joints() -> list[Joint]:
    """The source, the query and its sink."""
    origin = Origin("joints/cast.sql", 1, {"sql": 1})
    return [
        Joint(name="rows", type="source", catalog="raw", table="rows.parquet"),
        Joint(name="cast", type="sql", sql=f"SELECT id, {ITEMS} FROM rows", origin=origin),
        Joint(name="out", type="sink", upstream=("cast",), catalog="results", table="out", on_error="quarantine"),
    ]


def quarantine(runtime: Runtime, _: Path) -> Path:
    """Run the group as the product does."""
    group = runtime.assembly.group("out")
    run_group(runtime, group.name, group.joints, str(uuid.uuid4()))
    return runtime.root / "results"


def write_by_hand(spark: Any, folder: Path) -> Path:
    """Write the good rows, and the bad ones as they were read."""
    tried = TRIED.format(table="rows")
    spark.sql(f"SELECT id, {', '.join(CASTS)} FROM ({tried}) WHERE {GOOD}").write.parquet(str(folder / "good"))
    spark.sql(f"SELECT id, s, d, m FROM ({tried}) WHERE NOT ({GOOD})").write.parquet(str(folder / "bad"))
    subprocess.run(["sync"], check=True)
    return folder


def check(spark: Any, folder: Path, by_hand: Path) -> None:
    """Exit where the good rows are others, or the rows with errors."""
    good, bad = f"parquet.`{by_hand}/good`", f"parquet.`{by_hand}/bad`"
    out, errors = f"parquet.`{folder}/results/out`", f"parquet.`{folder}/results/out__errors`"
    ids = f"SELECT DISTINCT CAST(get_json_object(row, '$.id') AS BIGINT) AS id FROM {errors}"
    for one, other in ((f"SELECT * FROM {out}", f"SELECT * FROM {good}"), (ids, f"SELECT id FROM {bad}")):
        if spark.sql(f"({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one})").limit(1).collect():
            sys.exit(f"not the same rows: {one}; {other}")


if __name__ == "__main__":
    main()
