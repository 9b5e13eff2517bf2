"""What write strategies cost: a merge against the same done by hand, and one partition against all of them.

``merge`` brings 1% of changed keys, spread over the whole table, into it; ``by hand`` is what one would write for that
in Spark SQL, a full outer join whose result overwrites the table. ``one partition`` and ``all partitions`` are the same
``snapshot`` of a table with 24 partitions. All take turns in one Spark session; the product's are whole runs of a
group, published and synced to disk. The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from comparison import arguments, compare, heading, report
from one_session import load, open_runtime, start_spark
from orders import COLUMNS, Orders, differing, run

from rivet_dagster import Joint
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime

HERE = Path(__file__).resolve().parent
MERGE, BY_HAND, ONE, ALL = "merge", "by hand", "one partition", "all partitions"
PARTITIONS = 24

GOALS = {(MERGE, BY_HAND): 1.1, (ONE, ALL): 0.15}
"""What the first may take, as a multiple of the second."""

FULL_OUTER_JOIN = """
SELECT {columns} FROM parquet.`{table}` AS t FULL OUTER JOIN parquet.`{batch}` AS b ON t.id = b.id
"""


def main() -> None:
    options = arguments(__doc__ or "", rounds=9)
    with tempfile.TemporaryDirectory(prefix="strategies-", dir=HERE) as folder:
        runtime = open_runtime(Path(folder), joints())
        spark = start_spark(runtime)
        Benchmark(runtime, spark, Path(folder), options).measure()
        spark.stop()


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
        self.part = f"CAST(id DIV {options.rows // PARTITIONS + 1} AS INT)"
        self.orders = Orders(spark, folder, options.rows, part=self.part)
        self.rounds: Mapping[str, Iterator[int]] = {MERGE: count(1), BY_HAND: count(1)}

    def measure(self) -> None:
        print(heading(self.spark, self.options), flush=True)
        self.prepare()
        contenders = {
            MERGE: self.merge,
            BY_HAND: self.join,
            ONE: lambda _: run(self.runtime, "one"),
            ALL: lambda _: run(self.runtime, "whole"),
        }
        runs = compare(self.spark, self.options, self.folder / "scratch", contenders)
        self.check()
        print(f"- load average afterwards: {load()}\n\n{report(runs, GOALS, GOALS)}")

    def prepare(self) -> None:
        """All tables with all their rows, and the batches of all rounds."""
        for table in ("merged", "one", "whole"):
            self.orders.write(self.folder / f"data/{table}.parquet")
            run(self.runtime, table)
        self.orders.write(self.by_hand)
        self.orders.write(self.folder / "data/one.parquet", where=f"{self.part} = 7", change=1)
        self.orders.write_batches(self.options.warm_ups + self.options.rounds)

    def merge(self, _: Path) -> GroupResult:
        source = self.folder / "data/merged.parquet"
        shutil.rmtree(source)
        os.rename(self.copied(next(self.rounds[MERGE])), source)
        return run(self.runtime, "merged")

    def copied(self, number: int) -> Path:
        copy = self.folder / "data/next.parquet"
        shutil.copytree(self.orders.batch(number), copy)
        return copy

    def join(self, _: Path) -> None:
        """The table by hand, overwritten: Spark cannot write to what it reads, so the new one takes its place."""
        number, columns = next(self.rounds[BY_HAND]), (*COLUMNS, "part")
        chosen = ", ".join(f"CASE WHEN b.id IS NOT NULL THEN b.{name} ELSE t.{name} END AS {name}" for name in columns)
        sql = FULL_OUTER_JOIN.format(columns=chosen, table=self.by_hand, batch=self.orders.batch(number))
        new = self.folder / f"by_hand-{number}"
        self.spark.sql(sql).write.parquet(str(new))
        shutil.rmtree(self.by_hand)
        self.by_hand = new

    def check(self) -> None:
        """Exits where the two merges have not led to the same rows, or the snapshots lost some."""
        results = self.folder / "results"
        merged, by_hand = (f"SELECT * FROM parquet.`{path}`" for path in (results / "merged", self.by_hand))
        others = differing(self.spark, merged, by_hand)
        counted = [self.spark.read.parquet(str(results / table)).count() for table in ("merged", "one", "whole")]
        if others or counted != [self.options.rows] * 3:
            sys.exit(f"{others} rows differ between the merges; the tables have {counted} rows")
        print(f"- the merges have led to the same {counted[0]:,} rows")


if __name__ == "__main__":
    main()
