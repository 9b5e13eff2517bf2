"""What the difference of two versions of a table costs, against the full outer join that one would type for it.

Both versions have a key and seven other columns. In 1% of the rows a value was changed, and some rows are in one
version alone. The join counts: rows added, removed and changed, and the changed rows of each column. Both contenders
run in one session of Spark, in turn, and must come to the same counts. The figures are printed as Markdown. Nothing
here asserts a time.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from measuring import Measured, Spread, markdown, mean_ratio, quartiles, ratios, take_turns
from one_session import ENGINE, cpu_seconds, load, open_runtime, start_spark

from rivet_dagster import Joint
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files, read_statistics
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.execution.difference.rows import Key, difference_of_rows
from rivet_dagster.model.relations import Files

HERE = Path(__file__).resolve().parent
DIFFERENCE, BY_HAND = "difference", "by hand"
MOST = 1.2
"""What the difference may take, as a multiple of the join."""

OTHERS = ("customer", "quantity", "price", "ordered", "status", "email", "part")
ROWS = """
SELECT id, id % 50000 + 1 AS customer, CAST(id % 97 AS INT) + {quantity} AS quantity,
       CAST((id * 7919 + {price}) % 1000000 / 100 AS DECIMAL(12, 2)) AS price,
       DATE '2020-01-01' + CAST(id % 1500 AS INT) AS ordered,
       element_at(array('open', 'paid', 'sent', 'closed'), CAST(id % 4 AS INT) + 1) AS status,
       concat('c', id % 50000, '@example.org') AS email, CAST(id % 24 AS INT) AS part
FROM range({first}, {last}, 1, 4)
"""
VERSIONS = {
    "old": {"quantity": "0", "price": "0"},
    "new": {"quantity": "IF(id % 400 = 7, 1, 0)", "price": "IF(id % 100 = 7, 1, 0)"},
}
MOVED = 1000
"""So many rows were removed at one end of the keys and added at the other."""

Counts = tuple[int, int, int, Mapping[str, int]]


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="difference-", dir=HERE) as folder:
        runtime = open_runtime(
            Path(folder), [Joint(name="any", type="source", catalog="raw", table="any.parquet", engine=ENGINE)]
        )
        spark = start_spark(runtime)
        with closing(runtime.engine(ENGINE).session()) as session:
            measure(session, spark, Path(folder), options)
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of each version (default 5,000,000)")
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds (default 9)")
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds before them that are not timed (default 2)")
    return parser.parse_args()


def measure(session: EngineSession, spark: Any, folder: Path, options: argparse.Namespace) -> None:
    print(
        f"- two versions of {options.rows:,} rows, {options.rounds} rounds after {options.warm_ups} to warm up\n"
        f"- Spark {spark.version} on {spark.sparkContext.master}, "
        f"Java {spark._jvm.System.getProperty('java.version')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores\n- load average before: {load()}",
        flush=True,
    )
    for number, (name, changes) in enumerate(VERSIONS.items()):
        sql = ROWS.format(first=number * MOVED, last=options.rows + number * MOVED, **changes)
        spark.sql(sql).write.parquet(str(folder / name))
    contenders = {
        DIFFERENCE: lambda _: by_product(session, folder),
        BY_HAND: lambda _: by_hand(session, folder),
    }
    runs = take_turns(
        contenders,
        options.rounds,
        warm_ups=options.warm_ups,
        scratch=folder / "scratch",
        between=spark._jvm.System.gc,  # nobody pays for another's garbage
        cpu_seconds=lambda: cpu_seconds(spark),
    )
    counts = {repr(run.result) for found in runs.values() for run in found}
    if len(counts) != 1:
        sys.exit(f"the results differ: {counts}")
    print(f"- both found {counts.pop()}\n- load average afterwards: {load()}\n\n{report(runs)}")


def by_product(session: EngineSession, folder: Path) -> Counts:
    old, new = (session.load(Files("parquet", (str(folder / name),))) for name in VERSIONS)
    before, after = (read_statistics(parquet_files(folder / name)).rows for name in VERSIONS)  # as a version has them
    found = difference_of_rows(session, old, new, [Key(("id",), unique=True)], rows=(before, after))
    return found.added, found.removed, found.changed, {name: n for name, n in found.columns.items() if n}


def by_hand(session: EngineSession, folder: Path) -> Counts:
    differ = [f"NOT (o.{name} <=> n.{name})" for name in OTHERS]
    both = "o.id IS NOT NULL AND n.id IS NOT NULL"
    columns = ", ".join(f"count_if({both} AND {test}) AS {name}" for name, test in zip(OTHERS, differ, strict=True))
    (row,) = session.rows(
        f"SELECT count_if(o.id IS NULL) AS added, count_if(n.id IS NULL) AS removed,"
        f" count_if({both} AND ({' OR '.join(differ)})) AS changed, {columns}"
        f" FROM parquet.`{folder / 'old'}` AS o FULL OUTER JOIN parquet.`{folder / 'new'}` AS n ON o.id = n.id"
    )
    return row["added"], row["removed"], row["changed"], {name: row[name] for name in OTHERS if row[name]}


def report(runs: Mapping[str, Sequence[Measured[Counts]]]) -> str:
    """The figures as Markdown."""
    times = [
        (name, str(Spread.of(run.seconds for run in found)), f"{statistics.median(r.cpu_seconds for r in found):.2f}")
        for name, found in runs.items()
    ]
    found = ratios(runs[DIFFERENCE], runs[BY_HAND])
    compared = [(f"{DIFFERENCE} / {BY_HAND}", *quartiles(found), mean_ratio(found))]
    word = "met" if statistics.median(found) <= MOST else "missed"
    return "\n\n".join(
        [
            markdown(("run", "seconds: median (min..max)", "CPU seconds"), times),
            markdown(("ratio, pair by pair", "first quartile", "median", "third quartile", "mean"), compared),
            f"- goal {word}: the difference takes at most {MOST} x the join by hand; so do "
            f"{sum(ratio <= MOST for ratio in found)} of {len(found)} pairs",
        ]
    )


if __name__ == "__main__":
    main()
