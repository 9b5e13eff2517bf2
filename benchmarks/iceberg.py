"""What publishing to Iceberg costs: a gated replace and a merge, against the same statements by hand.

``replace`` is the run of a group whose sink replaces a table and checks it, ``INSERT OVERWRITE`` the same query written
to a table of the same catalog by hand, which nothing checks. ``merge`` brings 1% of changed rows, spread over the whole
table, into it; ``MERGE INTO`` is that statement by hand. The same two runs on the filesystem catalog are beside them.
All take turns in one Spark session. The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from comparison import arguments, compare, heading, report
from measuring import Measured, markdown
from one_session import load, open_runtime, start_spark
from orders import Orders, differing, run

from rivet_dagster import Joint
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime

HERE = Path(__file__).resolve().parent
REPLACE, OVERWRITE, REPLACE_FILES = "replace", "INSERT OVERWRITE", "replace on files"
MERGE, MERGE_INTO, MERGE_FILES = "merge", "MERGE INTO", "merge on files"

GOALS = {(REPLACE, OVERWRITE): 1.05, (MERGE, MERGE_INTO): 0.9}
"""What the first may take, as a multiple of the second."""

PAIRS = (*GOALS, (REPLACE_FILES, OVERWRITE), (MERGE_FILES, MERGE_INTO))
PHASES = ("branch", "config", "write", "quality", "publish", "clean_up")

QUERY = "SELECT *, price * quantity AS total FROM {source}"

CHECKS: Sequence[Mapping[str, Any]] = (
    {"type": "row_count", "min": 1},
    {"type": "not_null", "columns": ["id", "customer", "price"]},
    {"type": "expression", "name": "quantity_bounds", "sql": "quantity >= 0 AND quantity < 100"},
    {"type": "accepted_values", "column": "status", "values": ["open", "paid", "sent", "closed"]},
)


def main() -> None:
    options = arguments(__doc__ or "", rounds=7)
    with tempfile.TemporaryDirectory(prefix="iceberg-", dir=HERE) as folder:
        lake = {"type": "iceberg", "catalog": "hadoop", "warehouse": "lake", "default-namespace": "shop"}
        runtime = open_runtime(Path(folder), joints(), {"lake": lake})
        spark = start_spark(runtime)
        Benchmark(runtime, spark, Path(folder), options).measure()
        spark.stop()


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
        self.orders = Orders(spark, folder, options.rows)
        self.rounds: Mapping[str, Iterator[int]] = {name: count(1) for name in (MERGE, MERGE_INTO, MERGE_FILES)}

    def measure(self) -> None:
        print(heading(self.spark, self.options), flush=True)
        self.prepare()
        contenders = {
            REPLACE: lambda _: run(self.runtime, "replaced_lake"),
            OVERWRITE: self.overwrite,
            REPLACE_FILES: lambda _: run(self.runtime, "replaced_results"),
            MERGE: lambda _: self.merge(MERGE, "merged_lake"),
            MERGE_INTO: self.merge_into,
            MERGE_FILES: lambda _: self.merge(MERGE_FILES, "merged_results"),
        }
        runs = compare(self.spark, self.options, self.folder / "scratch", contenders)
        self.check()
        phases = [(name, *phases_of(runs[name])) for name in (REPLACE, MERGE)]
        table = markdown(("median seconds of the phases", *PHASES), phases)
        print(f"- load average afterwards: {load()}\n\n{report(runs, PAIRS, GOALS, table)}")

    def prepare(self) -> None:
        """All tables with all their rows, and the batches of all rounds."""
        self.orders.write(self.folder / "data/orders.parquet")
        self.orders.write(self.folder / "data/changes.parquet")
        for table in ("replaced_lake", "replaced_results", "merged_lake", "merged_results"):
            assert run(self.runtime, table).published is not None
        for table in ("overwritten", "merged_by_hand"):
            query = QUERY.format(source=f"parquet.`{self.folder}/data/orders.parquet`")
            self.spark.sql(f"CREATE TABLE lake.shop.{table} USING iceberg AS {query}")
        self.orders.write_batches(self.options.warm_ups + self.options.rounds)

    def merge(self, contender: str, table: str) -> GroupResult:
        source = self.folder / "data/changes.parquet"
        shutil.rmtree(source)
        shutil.copytree(self.orders.batch(next(self.rounds[contender])), source)
        return run(self.runtime, table)

    def overwrite(self, _: Path) -> None:
        query = QUERY.format(source=f"parquet.`{self.folder}/data/orders.parquet`")
        self.spark.sql(f"INSERT OVERWRITE lake.shop.overwritten {query}")

    def merge_into(self, _: Path) -> None:
        query = QUERY.format(source=f"parquet.`{self.orders.batch(next(self.rounds[MERGE_INTO]))}`")
        self.spark.sql(
            f"MERGE INTO lake.shop.merged_by_hand AS t USING ({query}) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    def check(self) -> None:
        """Exits where the two merges have not led to the same rows, or a table has lost some."""
        tables = ("replaced", "overwritten", "merged", "merged_by_hand")
        *_, merged, by_hand = (f"SELECT * FROM lake.shop.{table}" for table in tables)
        others = differing(self.spark, merged, by_hand)
        counted = [self.spark.table(f"lake.shop.{table}").count() for table in tables]
        if others or counted != [self.options.rows] * len(tables):
            sys.exit(f"{others} rows differ between the merges; the tables have {counted} rows")
        print(f"- the merges have led to the same {counted[-1]:,} rows")


def phases_of(runs: Sequence[Measured[GroupResult]]) -> list[str]:
    return [f"{statistics.median(run.result.phases.get(phase, 0) for run in runs):.2f}" for phase in PHASES]


if __name__ == "__main__":
    main()
