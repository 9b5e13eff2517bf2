"""What an append and a merge cost in an Iceberg table of many files, or of many columns, against statements by hand.

Ten rows come to a table whose files another program has added: ``append`` and ``merge`` are runs of a group, published,
``INSERT INTO`` and ``MERGE INTO`` the same by hand, which nothing checks. Each merge changes a row of ten different
files. All take turns in one Spark session. The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from comparison import compare, heading, report
from one_session import load, open_runtime, start_spark
from orders import run

from rivet_dagster import Joint
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime

HERE = Path(__file__).resolve().parent
APPEND, INSERT_INTO, MERGE, MERGE_INTO = "append", "INSERT INTO", "merge", "MERGE INTO"
PAIRS = ((APPEND, INSERT_INTO), (MERGE, MERGE_INTO))
LAKE = {"type": "iceberg", "catalog": "hadoop", "warehouse": "lake", "default-namespace": "shop"}
TABLES = {"appended": {"mode": "append"}, "merged": {"mode": "merge", "key_columns": ["id"]}}
BY_HAND = {APPEND: "appended_by_hand", MERGE: "merged_by_hand"}
BATCH = 10
"""Rows of a batch."""


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="iceberg-files-", dir=HERE) as folder:
        runtime = open_runtime(Path(folder), joints(), {"lake": LAKE})
        (Path(folder) / "data").mkdir()
        spark = start_spark(runtime)
        Benchmark(runtime, spark, Path(folder), options).measure()
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=20_000, help="files of each table (default 20,000)")
    parser.add_argument("--columns", type=int, default=4, help="columns of each table (default 4)")
    parser.add_argument("--rows-of-a-file", type=int, default=10, help="rows of each of these files (default 10)")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds (default 3)")
    parser.add_argument("--warm-ups", type=int, default=1, help="rounds before them that are not timed (default 1)")
    options = parser.parse_args()
    options.rows = options.files * options.rows_of_a_file
    return options


def joints() -> list[Joint]:
    """A source, and a query and a sink for each table of the product."""
    found = [Joint(name="batch", type="source", catalog="raw", table="batch.parquet")]
    for table, strategy in TABLES.items():
        rows = Joint(name=f"{table}_rows", type="sql", sql="SELECT * FROM batch")
        fields: Any = {"catalog": "lake", "table": table, "write_strategy": strategy}
        found += [rows, Joint(name=table, type="sink", upstream=(rows.name,), **fields)]
    return found


class Benchmark:
    """The tables of all contenders, which have the same files, and the batches that come to them."""

    def __init__(self, runtime: Runtime, spark: Any, folder: Path, options: argparse.Namespace) -> None:
        self.runtime = runtime
        self.spark = spark
        self.folder = folder
        self.options = options
        self.rounds = {name: count(1) for name in (APPEND, INSERT_INTO, MERGE, MERGE_INTO)}

    def measure(self) -> None:
        print(heading(self.spark, self.options), flush=True)
        print(f"- {self.options.files:,} files, {self.options.columns} columns", flush=True)
        self.prepare()
        contenders = {
            APPEND: lambda _: self.run(APPEND, "appended"),
            INSERT_INTO: self.insert_into,
            MERGE: lambda _: self.run(MERGE, "merged"),
            MERGE_INTO: self.merge_into,
        }
        runs = compare(self.spark, self.options, self.folder / "scratch", contenders)
        self.check()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(
            f"- load average afterwards: {load()}; at most {peak} MB of Python's process\n\n{report(runs, PAIRS, {})}"
        )

    def prepare(self) -> None:
        """Publish the tables with the rows of a batch, and add the files to all of them, as another program does."""
        self.write_batch(0)
        for table in TABLES:
            assert run(self.runtime, table).published is not None
        for table in BY_HAND.values():
            self.spark.sql(f"CREATE TABLE lake.shop.{table} USING iceberg AS SELECT * FROM lake.shop.merged")
        (self.folder / "many").mkdir()
        with ThreadPoolExecutor() as pool:
            files = list(pool.map(self.write_file, range(self.options.files)))
        catalog = connect_catalog("lake", LAKE, self.folder)
        for table in (*TABLES, *BY_HAND.values()):
            catalog.load_table(("shop", table)).add_files(files, check_duplicate_files=False)

    def write_file(self, number: int) -> str:
        """Write a file of rows whose ids follow those of the file before, and return its path."""
        path, size = self.folder / f"many/{number}.parquet", self.options.rows_of_a_file
        pq.write_table(self.rows(range(number * size, (number + 1) * size), number), path)
        return str(path)

    def write_batch(self, number: int) -> None:
        """Write rows whose ids are spread over the files; those of the batch 0 are in no file."""
        distance = self.options.rows // BATCH
        ids = [-1 - each for each in range(BATCH)] if number == 0 else [n * distance + number for n in range(BATCH)]
        pq.write_table(self.rows(ids, -number), self.folder / "data/batch.parquet")

    def rows(self, ids: Sequence[int], number: int) -> pa.Table:
        others = {f"c{n}": pa.array([f"value {n} of {number}"] * len(ids)) for n in range(1, self.options.columns)}
        return pa.table({"id": pa.array(ids, pa.int64()), **others})

    def run(self, contender: str, table: str) -> GroupResult:
        self.write_batch(next(self.rounds[contender]))
        return run(self.runtime, table)

    def insert_into(self, _: Path) -> None:
        self.write_batch(next(self.rounds[INSERT_INTO]))
        self.spark.sql(f"INSERT INTO lake.shop.{BY_HAND[APPEND]} {self.batch}")

    def merge_into(self, _: Path) -> None:
        self.write_batch(next(self.rounds[MERGE_INTO]))
        self.spark.sql(
            f"MERGE INTO lake.shop.{BY_HAND[MERGE]} AS t USING ({self.batch}) AS s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )

    @property
    def batch(self) -> str:
        """The query of the batch."""
        return f"SELECT * FROM parquet.`{self.folder}/data/batch.parquet`"

    def check(self) -> None:
        """Exit where the product's tables and those by hand have other rows."""
        for table, by_hand in zip(TABLES, BY_HAND.values(), strict=True):
            one, other = (self.digest(name) for name in (table, by_hand))
            if one != other:
                sys.exit(f"{table} and {by_hand} differ: {one} and {other}")
            print(f"- {table} and {by_hand} have the same {one[0]:,} rows")

    def digest(self, table: str) -> tuple[int, int]:
        """Return the number of rows of a table, and the sum of their hashes."""
        (found,) = self.spark.sql(
            f"SELECT count(*), sum(CAST(xxhash64(*) AS DECIMAL(38, 0))) FROM lake.shop.{table}"
        ).collect()
        return tuple(found)


if __name__ == "__main__":
    main()
