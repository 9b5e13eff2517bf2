"""What histories cost: 1% of changed keys into a table of closed and current versions, against the same by hand.

Half of the ``--rows`` are closed versions and half are current. ``scd2`` is the run of a group whose sink has this
mode, ``by hand`` a join of the batch with the table, and the batch itself, written as a new table; it takes each row of
the batch for a change, and none for late. ``current alone`` is ``scd2`` into a table that begins with the current
versions, ``late`` one whose batch also has ten rows from before a closed version. On Iceberg there are ``scd2 on
Iceberg`` and ``MERGE INTO``, whose source has each row of the batch twice: to close the current version, and to begin
one. All take turns in one Spark session; the product's are whole runs, published and synced to disk. ``--on files`` and
``--on iceberg`` leave out the others. The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from comparison import compare, heading, parser_of, report
from one_session import load, open_runtime, start_spark
from orders import COLUMNS, Orders, differing, run

from rivet_dagster import Joint
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime

HERE = Path(__file__).resolve().parent
SCD2, BY_HAND, ALONE, LATE = "scd2", "by hand", "current alone", "late"
LAKE, MERGE_INTO = "scd2 on Iceberg", "MERGE INTO"

GOALS = {(SCD2, BY_HAND): 1.1, (SCD2, ALONE): 1.2, (LAKE, MERGE_INTO): 1.05}
"""What the first may take, as a multiple of the second."""

PAIRS = (*GOALS, (LATE, BY_HAND))

TABLES = {SCD2: ("history", "results"), ALONE: ("alone", "results"), LATE: ("late", "results"), LAKE: ("lake", "lake")}
"""The table of each contender of the product, and its catalog."""

ON_ICEBERG = (LAKE, MERGE_INTO)

ALL = ", ".join((*COLUMNS, "at"))

JOIN = """
SELECT {columns}, t.valid_from,
       IF(b.id IS NULL, t.valid_to, b.at) AS valid_to, t.is_current AND b.id IS NULL AS is_current
FROM parquet.`{table}` AS t LEFT JOIN parquet.`{batch}` AS b ON t.id = b.id AND t.is_current
UNION ALL SELECT {all}, at, NULL, TRUE FROM parquet.`{batch}`
"""

MERGE = """
MERGE INTO lake.shop.by_hand AS t
USING (SELECT id AS closes, * FROM parquet.`{batch}` UNION ALL SELECT NULL, * FROM parquet.`{batch}`) AS s
ON t.id = s.closes AND t.is_current
WHEN MATCHED THEN UPDATE SET valid_to = s.at, is_current = FALSE
WHEN NOT MATCHED THEN INSERT ({all}, valid_from, is_current) VALUES ({values}, s.at, TRUE)
"""


def main() -> None:
    parser = parser_of(__doc__ or "", rounds=7, rows=2_000_000)
    parser.add_argument("--on", choices=["files", "iceberg"], help="only these contenders (default: all)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="histories-", dir=HERE) as folder:
        lake = {"type": "iceberg", "catalog": "hadoop", "warehouse": "lake", "default-namespace": "shop"}
        runtime = open_runtime(Path(folder), joints(), {"lake": lake})
        spark = start_spark(runtime)
        Benchmark(runtime, spark, Path(folder), options).measure()
        spark.stop()


def joints() -> list[Joint]:
    """A source, a query and a sink for each contender of the product."""
    strategy = {"mode": "scd2", "key_columns": ["id"], "effective_at": "at"}
    found = []
    for table, catalog in TABLES.values():
        fields: Mapping[str, Any] = {"catalog": catalog, "table": table, "write_strategy": strategy}
        found += [
            Joint(name=f"{table}_source", type="source", catalog="raw", table=f"{table}.parquet"),
            Joint(name=f"{table}_rows", type="sql", sql=f"SELECT * FROM {table}_source"),
            Joint(name=table, type="sink", upstream=(f"{table}_rows",), **fields),
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
        self.others = {"files": ON_ICEBERG, "iceberg": (BY_HAND, ALONE, LATE)}.get(options.on, ())
        at = "TIMESTAMP '2026-01-01' + make_interval(0, 0, 0, {change})"
        self.orders = Orders(spark, folder, options.rows // 2, at=at)
        self.rounds: Mapping[str, Iterator[int]] = {name: count(1) for name in (*TABLES, BY_HAND, MERGE_INTO)}

    def measure(self) -> None:
        print(heading(self.spark, self.options), flush=True)
        self.prepare()
        by_hand = {BY_HAND: self.join, MERGE_INTO: self.merge_into}
        contenders = {name: self.contender(name) for name in TABLES} | by_hand
        contenders = {name: run for name, run in contenders.items() if name not in self.others}
        runs = compare(self.spark, self.options, self.folder / "scratch", contenders)
        self.check()
        pairs = [pair for pair in PAIRS if not {*pair} & {*self.others}]
        goals = {pair: most for pair, most in GOALS.items() if pair in pairs}
        print(f"- load average afterwards: {load()}\n\n{report(runs, pairs, goals)}")

    def prepare(self) -> None:
        """All tables with all their versions, and the batches of all rounds."""
        for change in (-1, 0):
            self.orders.write(self.folder / "changed.parquet", change=change)
            for name, (table, _) in TABLES.items():
                if name not in self.others and (change == 0 or name != ALONE):
                    self.give(table, self.folder / "changed.parquet")
                    run(self.runtime, table)
        self.spark.read.parquet(str(self.folder / "results/history")).write.parquet(str(self.by_hand))
        self.spark.sql(f"CREATE TABLE lake.shop.by_hand USING iceberg AS SELECT * FROM parquet.`{self.by_hand}`")
        self.orders.write_batches(self.options.warm_ups + self.options.rounds)
        for number in range(1, self.options.warm_ups + self.options.rounds + 1):
            self.orders.write(self.late(number), where="id % 100 = 99 AND id < 1000", change=-100 + number)

    def late(self, number: int) -> Path:
        """The late rows of a round."""
        return self.folder / f"batches/late-{number}.parquet"

    def give(self, table: str, *batches: Path) -> None:
        """Make ``batches`` the source of a table."""
        source = self.folder / f"data/{table}.parquet"
        shutil.rmtree(source, ignore_errors=True)
        for batch in batches:
            shutil.copytree(batch, source, dirs_exist_ok=True)

    def contender(self, name: str) -> Callable[[Path], GroupResult]:
        """The run of the product on the table of a contender."""
        table, _ = TABLES[name]

        def written(_: Path) -> GroupResult:
            number = next(self.rounds[name])
            self.give(table, self.orders.batch(number), *([self.late(number)] if name == LATE else []))
            return run(self.runtime, table)

        return written

    def join(self, _: Path) -> None:
        """The table by hand, overwritten: Spark cannot write to what it reads, so the new one takes its place."""
        number = next(self.rounds[BY_HAND])
        columns = ", ".join(f"t.{name}" for name in (*COLUMNS, "at"))
        batch = self.orders.batch(number)
        sql = JOIN.format(columns=columns, all=ALL, table=self.by_hand, batch=batch)
        new = self.folder / f"by_hand-{number}"
        self.spark.sql(sql).write.parquet(str(new))
        shutil.rmtree(self.by_hand)
        self.by_hand = new

    def merge_into(self, _: Path) -> None:
        values = ", ".join(f"s.{name}" for name in (*COLUMNS, "at"))
        self.spark.sql(MERGE.format(batch=self.orders.batch(next(self.rounds[MERGE_INTO])), all=ALL, values=values))

    def check(self) -> None:
        """Exits where the histories differ, or the current versions of the table that began with them alone."""
        results = self.folder / "results"
        history = f"SELECT * FROM parquet.`{results / 'history'}`"
        others = {
            BY_HAND: f"SELECT * FROM parquet.`{self.by_hand}`",
            LAKE: "SELECT * FROM lake.shop.lake",
            MERGE_INTO: "SELECT * FROM lake.shop.by_hand",
            LATE: f"SELECT * FROM parquet.`{results / 'late'}` WHERE NOT (at < TIMESTAMP '2025-12-31')",
        }
        found = {
            name: differing(self.spark, history, other) for name, other in others.items() if name not in self.others
        }
        if ALONE not in self.others:
            alone = f"SELECT * FROM parquet.`{results / 'alone'}` WHERE is_current"
            found[ALONE] = differing(self.spark, f"{history} WHERE is_current", alone)
        rows = self.spark.sql(history).count()
        rounds = self.options.warm_ups + self.options.rounds
        if any(found.values()) or rows != self.options.rows // 100 * 100 + rounds * (self.options.rows // 200):
            sys.exit(f"rows that differ from those of scd2, which has {rows}: {found}")
        print(f"- all have led to the same {rows:,} rows")


if __name__ == "__main__":
    main()
