"""What publishing to Iceberg costs: a gated replace and a merge, against the same statements by hand.

``replace`` is the run of a group whose sink replaces a table and checks it, ``INSERT OVERWRITE`` the same query written
to a table of the same catalog by hand, which nothing checks. ``merge`` brings 1% of changed rows, spread over the whole
table, into it; ``MERGE INTO`` is that statement by hand. The same two runs on the filesystem catalog are beside them.
All take turns in one Spark session. The figures are printed as Markdown. Nothing here asserts a time.
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
REPLACE, OVERWRITE, REPLACE_FILES = "replace", "INSERT OVERWRITE", "replace on files"
MERGE, MERGE_INTO, MERGE_FILES = "merge", "MERGE INTO", "merge on files"

GOALS = {(REPLACE, OVERWRITE): 1.15, (MERGE, MERGE_INTO): 1.05}
"""What the first may take, as a multiple of the second."""

PAIRS = (*GOALS, (REPLACE_FILES, OVERWRITE), (MERGE_FILES, MERGE_INTO))

ROWS = """
SELECT id, id % 50000 + 1 AS customer, CAST(id % 97 AS INT) AS quantity,
       CAST((id * 7919 + {change}) % 1000000 / 100 AS DECIMAL(12, 2)) AS price,
       DATE '2020-01-01' + CAST(id % 1500 AS INT) AS ordered,
       element_at(array('open', 'paid', 'sent', 'closed'), CAST(id % 4 AS INT) + 1) AS status,
       concat('c', id % 50000, '@example.org') AS email
FROM range(0, {rows}, 1, 4) WHERE {where}
"""

QUERY = "SELECT *, price * quantity AS total FROM {source}"

CHECKS: Sequence[Mapping[str, Any]] = (
    {"type": "row_count", "min": 1},
    {"type": "not_null", "columns": ["id", "customer", "price"]},
    {"type": "expression", "name": "quantity_bounds", "sql": "quantity >= 0 AND quantity < 100"},
    {"type": "accepted_values", "column": "status", "values": ["open", "paid", "sent", "closed"]},
)


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="iceberg-", dir=HERE) as folder:
        lake = {"type": "iceberg", "catalog": "hadoop", "warehouse": "lake", "default-namespace": "shop"}
        runtime = open_runtime(Path(folder), joints(), {"lake": lake})
        spark = start_spark(runtime)
        Benchmark(runtime, spark, Path(folder), options).measure()
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of each table (default 5,000,000)")
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds (default 7)")
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds before them that are not timed (default 2)")
    return parser.parse_args()


def joints() -> list[Joint]:
    """A source, a query and a sink for each contender of the product."""
    merge = {"mode": "merge", "key_columns": ["id"]}
    found = [Joint(name="orders", type="source", catalog="raw", table="orders.parquet")]
    found += [Joint(name="changes", type="source", catalog="raw", table="changes.parquet")]
    for catalog in ("lake", "results"):
        for name, source, strategy in (("replaced", "orders", "replace"), ("merged", "changes", merge)):
            rows = Joint(name=f"{name}_rows_{catalog}", type="sql", sql=QUERY.format(source=source))
            fields: Mapping[str, Any] = {"catalog": catalog, "table": name, "write_strategy": strategy}
            quality = {"quality": {"assertions": CHECKS}} if name == "replaced" else {}
            sink = Joint(name=f"{name}_{catalog}", type="sink", upstream=(rows.name,), **fields, **quality)
            found += [rows, sink]
    return found


class Benchmark:
    """The tables of all contenders, and the batches that come to them."""

    def __init__(self, runtime: Runtime, spark: Any, folder: Path, options: argparse.Namespace) -> None:
        self.runtime = runtime
        self.spark = spark
        self.folder = folder
        self.options = options
        self.rounds: Mapping[str, Iterator[int]] = {name: count(1) for name in (MERGE, MERGE_INTO, MERGE_FILES)}

    def measure(self) -> None:
        print(
            f"- {self.options.rows:,} rows, {self.options.rounds} rounds after {self.options.warm_ups} to warm up\n"
            f"- Spark {self.spark.version} on {self.spark.sparkContext.master}, "
            f"Java {self.spark._jvm.System.getProperty('java.version')}, Python {platform.python_version()}, "
            f"{os.cpu_count()} cores\n- load average before: {load()}"
        )
        self.prepare()
        contenders = {
            REPLACE: partial(self.run, "replaced_lake"),
            OVERWRITE: self.overwrite,
            REPLACE_FILES: partial(self.run, "replaced_results"),
            MERGE: partial(self.merge, MERGE, "merged_lake"),
            MERGE_INTO: self.merge_into,
            MERGE_FILES: partial(self.merge, MERGE_FILES, "merged_results"),
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
        self.write(self.folder / "data/orders.parquet")
        self.write(self.folder / "data/changes.parquet")
        for table in ("replaced_lake", "replaced_results", "merged_lake", "merged_results"):
            assert self.run(table, self.folder).published is not None
        for table in ("overwritten", "merged_by_hand"):
            query = QUERY.format(source=f"parquet.`{self.folder}/data/orders.parquet`")
            self.spark.sql(f"CREATE TABLE lake.shop.{table} USING iceberg AS {query}")
        for number in range(1, self.options.warm_ups + self.options.rounds + 1):
            self.write(self.batch(number), where=f"id % 100 = {number}", change=number)

    def batch(self, number: int) -> Path:
        return self.folder / f"batches/{number}.parquet"

    def write(self, path: Path, where: str = "TRUE", change: int = 0) -> None:
        sql = ROWS.format(rows=self.options.rows, where=where, change=change)
        self.spark.sql(sql).write.mode("overwrite").parquet(str(path))

    def run(self, table: str, _: Path) -> GroupResult:
        """The product's own run of the group."""
        group = self.runtime.assembly.group(table)
        return run_group(self.runtime, group.name, group.joints, str(uuid.uuid4()))

    def merge(self, contender: str, table: str, folder: Path) -> GroupResult:
        source = self.folder / "data/changes.parquet"
        shutil.rmtree(source)
        shutil.copytree(self.batch(next(self.rounds[contender])), source)
        return self.run(table, folder)

    def overwrite(self, _: Path) -> None:
        query = QUERY.format(source=f"parquet.`{self.folder}/data/orders.parquet`")
        self.spark.sql(f"INSERT OVERWRITE lake.shop.overwritten {query}")

    def merge_into(self, _: Path) -> None:
        query = QUERY.format(source=f"parquet.`{self.batch(next(self.rounds[MERGE_INTO]))}`")
        self.spark.sql(
            f"MERGE INTO lake.shop.merged_by_hand AS t USING ({query}) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def check(self) -> None:
        """Exits where the two merges have not led to the same rows, or a table has lost some."""
        merged, by_hand = (f"SELECT * FROM lake.shop.{table}" for table in ("merged", "merged_by_hand"))
        differing = self.spark.sql(f"({merged} EXCEPT ALL {by_hand}) UNION ALL ({by_hand} EXCEPT ALL {merged})").count()
        tables = ("replaced", "overwritten", "merged", "merged_by_hand")
        counted = [self.spark.table(f"lake.shop.{table}").count() for table in tables]
        if differing or counted != [self.options.rows] * len(tables):
            sys.exit(f"{differing} rows differ between the merges; the tables have {counted} rows")
        print(f"- the merges have led to the same {counted[-1]:,} rows")


Runs = Sequence[Measured[Any]]


def report(runs: Mapping[str, Runs]) -> str:
    """The figures as Markdown."""
    times = [
        (name, str(Spread.of(run.seconds for run in found)), f"{statistics.median(r.cpu_seconds for r in found):.2f}")
        for name, found in runs.items()
    ]
    pairs = {pair: ratios(runs[pair[0]], runs[pair[1]]) for pair in PAIRS}
    compared = [(" / ".join(pair), *quartiles(found), mean_ratio(found)) for pair, found in pairs.items()]
    phases = [(name, *phases_of(runs[name])) for name in (REPLACE, MERGE)]
    return "\n\n".join(
        [
            markdown(("run", "seconds: median (min..max)", "CPU seconds"), times),
            markdown(("ratio, pair by pair", "first quartile", "median", "third quartile", "mean"), compared),
            markdown(("median seconds of the phases", *PHASES), phases),
            "\n".join(verdict(pair, pairs[pair], most) for pair, most in GOALS.items()),
        ]
    )


PHASES = ("branch", "config", "write", "quality", "publish", "clean_up")


def phases_of(runs: Sequence[Measured[GroupResult]]) -> list[str]:
    return [f"{statistics.median(run.result.phases.get(phase, 0) for run in runs):.2f}" for phase in PHASES]


def verdict(pair: tuple[str, str], found: Sequence[float], most: float) -> str:
    word = "met" if statistics.median(found) <= most else "missed"
    within = sum(ratio <= most for ratio in found)
    return f"- goal {word}: {pair[0]} takes at most {most} x {pair[1]}; so do {within} of {len(found)} pairs"


if __name__ == "__main__":
    main()
