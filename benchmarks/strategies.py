"""What write strategies cost: a merge against the same done by hand, and one partition against all of them.

``merge`` brings 1% of changed keys, spread over the whole table, into it; ``by hand`` is what one would write for that
in Spark SQL, a full outer join whose result overwrites the table. ``one partition`` and ``all partitions`` are the same
``snapshot`` of a table with 24 partitions. All take turns in one Spark session; the product's are whole runs of a
group, published and synced to disk. The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import statistics
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from measuring import Measured, Spread, markdown, mean_ratio, quartiles, ratios, take_turns
from one_session import cpu_seconds, load, open_runtime, start_spark

from rivet_dagster import Joint
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime

HERE = Path(__file__).resolve().parent
MERGE, BY_HAND, ONE, ALL = "merge", "by hand", "one partition", "all partitions"
PARTITIONS = 24

GOALS = {(MERGE, BY_HAND): 1.1, (ONE, ALL): 0.15}
"""What the first may take, as a multiple of the second."""

ROWS = """
SELECT id, id % 50000 + 1 AS customer, CAST(id % 97 AS INT) AS quantity,
       CAST((id * 7919 + {change}) % 1000000 / 100 AS DECIMAL(12, 2)) AS price,
       DATE '2020-01-01' + CAST(id % 1500 AS INT) AS ordered,
       element_at(array('open', 'paid', 'sent', 'closed'), CAST(id % 4 AS INT) + 1) AS status,
       concat('c', id % 50000, '@example.org') AS email, CAST(id DIV {each} AS INT) AS part
FROM range(0, {rows}, 1, 4) WHERE {where}
"""

FULL_OUTER_JOIN = """
SELECT {columns} FROM parquet.`{table}` AS t FULL OUTER JOIN parquet.`{batch}` AS b ON t.id = b.id
"""
COLUMNS = ("id", "customer", "quantity", "price", "ordered", "status", "email", "part")


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="strategies-", dir=HERE) as folder:
        runtime = open_runtime(Path(folder), joints())
        spark = start_spark(runtime)
        Benchmark(runtime, spark, Path(folder), options).measure()
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of each table (default 5,000,000)")
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds (default 9)")
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds before them that are not timed (default 2)")
    return parser.parse_args()


def joints() -> list[Joint]:
    """A source, a query and a sink for each contender of the product."""
    snapshot = {"mode": "snapshot", "partition_column": "part"}
    strategies = {"merged": {"mode": "merge", "key_columns": ["id"]}, "one": snapshot, "whole": snapshot}
    found = []
    for table, strategy in strategies.items():
        found += [
            Joint(name=f"{table}_source", type="source", catalog="raw", table=f"{table}.parquet"),
            Joint(name=f"{table}_rows", type="sql", sql=f"SELECT * FROM {table}_source"),
            Joint(
                name=table,
                type="sink",
                catalog="results",
                table=table,
                upstream=(f"{table}_rows",),
                write_strategy=strategy,
            ),
        ]
    return found


class Benchmark:
    """The tables of all contenders, and the batches that come to them."""

    def __init__(self, runtime: Runtime, spark: Any, folder: Path, options: argparse.Namespace) -> None:
        self.runtime = runtime
        self.spark = spark
        self.folder = folder
        self.options = options
        self.by_hand = folder / "by_hand-0"
        self.rounds: Mapping[str, Iterator[int]] = {MERGE: count(1), BY_HAND: count(1)}

    def measure(self) -> None:
        print(
            f"- {self.options.rows:,} rows, {self.options.rounds} rounds after {self.options.warm_ups} to warm up\n"
            f"- Spark {self.spark.version} on {self.spark.sparkContext.master}, "
            f"Java {self.spark._jvm.System.getProperty('java.version')}, Python {platform.python_version()}, "
            f"{os.cpu_count()} cores\n- load average before: {load()}"
        )
        self.prepare()
        contenders = {
            MERGE: self.merge,
            BY_HAND: self.join,
            ONE: partial(self.run, "one"),
            ALL: partial(self.run, "whole"),
        }
        runs = take_turns(
            contenders,
            self.options.rounds,
            warm_ups=self.options.warm_ups,
            scratch=self.folder / "scratch",
            between=self.spark._jvm.System.gc,  # nobody pays for another's garbage
            cpu_seconds=partial(cpu_seconds, self.spark),
        )
        self.check()
        print(f"- load average afterwards: {load()}\n\n{report(runs)}")

    def prepare(self) -> None:
        """All tables with all their rows, and the batches of all rounds."""
        for table in ("merged", "one", "whole"):
            self.write(self.folder / f"data/{table}.parquet")
            self.run(table, self.folder)
        self.write(self.by_hand)
        self.write(self.folder / "data/one.parquet", where="id DIV {each} = 7", change=1)
        for number in range(1, self.options.warm_ups + self.options.rounds + 1):
            self.write(self.batch(number), where=f"id % 100 = {number}", change=number)

    def batch(self, number: int) -> Path:
        return self.folder / f"batches/{number}.parquet"

    def write(self, path: Path, where: str = "TRUE", change: int = 0) -> None:
        each = self.options.rows // PARTITIONS + 1
        sql = ROWS.format(rows=self.options.rows, each=each, where=where.format(each=each), change=change)
        self.spark.sql(sql).write.mode("overwrite").parquet(str(path))

    def run(self, table: str, _: Path) -> GroupResult:
        """The product's own run of the group."""
        group = self.runtime.assembly.group(table)
        return run_group(self.runtime, group.name, group.joints, str(uuid.uuid4()))

    def merge(self, folder: Path) -> GroupResult:
        source = self.folder / "data/merged.parquet"
        shutil.rmtree(source)
        os.rename(self.copied(next(self.rounds[MERGE])), source)
        return self.run("merged", folder)

    def copied(self, number: int) -> Path:
        copy = self.folder / "data/next.parquet"
        shutil.copytree(self.batch(number), copy)
        return copy

    def join(self, _: Path) -> None:
        """The table by hand, overwritten: Spark cannot write to what it reads, so the new one takes its place."""
        number = next(self.rounds[BY_HAND])
        chosen = ", ".join(f"CASE WHEN b.id IS NOT NULL THEN b.{name} ELSE t.{name} END AS {name}" for name in COLUMNS)
        sql = FULL_OUTER_JOIN.format(columns=chosen, table=self.by_hand, batch=self.batch(number))
        new = self.folder / f"by_hand-{number}"
        self.spark.sql(sql).write.parquet(str(new))
        shutil.rmtree(self.by_hand)
        self.by_hand = new

    def check(self) -> None:
        """Exits where the two merges have not led to the same rows, or the snapshots lost some."""
        merged, by_hand = (f"SELECT * FROM parquet.`{p}`" for p in (self.folder / "results/merged", self.by_hand))
        differing = self.spark.sql(f"({merged} EXCEPT ALL {by_hand}) UNION ALL ({by_hand} EXCEPT ALL {merged})").count()
        counted = [
            self.spark.read.parquet(str(self.folder / "results" / t)).count() for t in ("merged", "one", "whole")
        ]
        if differing or counted != [self.options.rows] * 3:
            sys.exit(f"{differing} rows differ between the merges; the tables have {counted} rows")
        print(f"- the merges have led to the same {counted[0]:,} rows")


Runs = Sequence[Measured[Any]]


def report(runs: Mapping[str, Runs]) -> str:
    """The figures as Markdown."""
    times = [
        (name, str(Spread.of(run.seconds for run in found)), f"{statistics.median(r.cpu_seconds for r in found):.2f}")
        for name, found in runs.items()
    ]
    pairs = {pair: ratios(runs[pair[0]], runs[pair[1]]) for pair in GOALS}
    compared = [(" / ".join(pair), *quartiles(found), mean_ratio(found)) for pair, found in pairs.items()]
    return "\n\n".join(
        [
            markdown(("run", "seconds: median (min..max)", "CPU seconds"), times),
            markdown(("ratio, pair by pair", "first quartile", "median", "third quartile", "mean"), compared),
            "\n".join(verdict(pair, pairs[pair], most) for pair, most in GOALS.items()),
        ]
    )


def verdict(pair: tuple[str, str], found: Sequence[float], most: float) -> str:
    word = "met" if statistics.median(found) <= most else "missed"
    within = sum(ratio <= most for ratio in found)
    return f"- goal {word}: {pair[0]} takes at most {most} x {pair[1]}; so do {within} of {len(found)} pairs"


if __name__ == "__main__":
    main()
