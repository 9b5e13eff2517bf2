"""What an append costs by how many files the table has: a few rows to many files, to few, and by Spark alone.

``many files`` and ``few files`` are whole runs of a group whose sink appends, published and synced to disk; ``by hand``
adds the same rows to a folder of as many files by Spark's own append, which publishes nothing. All take turns in one
Spark session. The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from measuring import Measured, Spread, markdown, mean_ratio, quartiles, ratios, take_turns
from one_session import cpu_seconds, load, open_runtime, start_spark

from rivet_dagster import Joint
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime

HERE = Path(__file__).resolve().parent
MANY, FEW, BY_HAND = "many files", "few files", "by hand"
PAIRS = ((MANY, FEW), (MANY, BY_HAND))
COLUMNS = 40
"""Columns of the tables: each has bounds in each footer."""


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="appends-", dir=HERE) as folder:
        runtime = open_runtime(Path(folder), [joint for table in (MANY, FEW) for joint in joints(table)])
        spark = start_spark(runtime)
        measure(runtime, spark, Path(folder), options)
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--files", type=int, default=200, help="files of the table that has many (default 200)")
    parser.add_argument("--rounds", type=int, default=20, help="timed rounds (default 20)")
    parser.add_argument("--warm-ups", type=int, default=3, help="rounds before them that are not timed (default 3)")
    return parser.parse_args()


def joints(table: str) -> list[Joint]:
    """A source and a sink that appends its rows."""
    name = table.replace(" ", "_")
    rows = Joint(name=f"{name}_rows", type="source", catalog="raw", table="rows.parquet")
    strategy = {"mode": "append"}
    upstream = (rows.name,)
    sink = Joint(name=name, type="sink", catalog="results", table=name, upstream=upstream, write_strategy=strategy)
    return [rows, sink]


def measure(runtime: Runtime, spark: Any, folder: Path, options: argparse.Namespace) -> None:
    print(
        f"- {options.files} and 1 files to begin with, one more a round, {COLUMNS} columns; {options.rounds} rounds "
        f"after {options.warm_ups} to warm up\n- Spark {spark.version} on {spark.sparkContext.master}, "
        f"Java {spark._jvm.System.getProperty('java.version')}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores\n- load average before: {load()}"
    )
    source = folder / "data/rows.parquet"
    columns = ", ".join(f"id * {n} AS c{n}" for n in range(1, COLUMNS))
    spark.sql(f"SELECT id, {columns} FROM range(0, 1000, 1, 1)").write.parquet(str(source))
    contenders = {
        MANY: partial(append, runtime, MANY),
        FEW: partial(append, runtime, FEW),
        BY_HAND: partial(append_by_hand, spark, source, folder / "by_hand"),
    }
    for name, append_rows in contenders.items():
        for _ in range(1 if name == FEW else options.files):
            append_rows(folder)
    runs = take_turns(
        contenders,
        options.rounds,
        warm_ups=options.warm_ups,
        scratch=folder / "scratch",
        between=spark._jvm.System.gc,  # nobody pays for another's garbage
        cpu_seconds=partial(cpu_seconds, spark),
    )
    added = options.rounds + options.warm_ups
    expected = {MANY: options.files + added, FEW: 1 + added, BY_HAND: options.files + added}
    places = {MANY: folder / "results/many_files", FEW: folder / "results/few_files", BY_HAND: folder / "by_hand"}
    counted = {name: spark.read.parquet(str(place)).count() // 1000 for name, place in places.items()}
    if counted != expected:
        sys.exit(f"the tables hold {counted} appends, not {expected}")
    print(f"- all tables hold all appends\n- load average afterwards: {load()}\n\n{report(runs)}")


def append(runtime: Runtime, table: str, _: Path) -> GroupResult:
    """The product's own run of the group."""
    group = runtime.assembly.group(table.replace(" ", "_"))
    return run_group(runtime, group.name, group.joints, str(uuid.uuid4()))


def append_by_hand(spark: Any, source: Path, folder: Path, _: Path) -> None:
    """Spark's own append to a folder."""
    spark.read.parquet(f"file://{source}").write.mode("append").parquet(str(folder))


def report(runs: Mapping[str, Sequence[Measured[Any]]]) -> str:
    """The figures as Markdown."""
    times = [(name, str(Spread.of(run.seconds for run in found))) for name, found in runs.items()]
    pairs = {pair: ratios(runs[pair[0]], runs[pair[1]]) for pair in PAIRS}
    compared = [(" / ".join(pair), *quartiles(found), mean_ratio(found)) for pair, found in pairs.items()]
    return "\n\n".join(
        [
            markdown(("run", "seconds: median (min..max)"), times),
            markdown(("ratio, pair by pair", "first quartile", "median", "third quartile", "mean"), compared),
        ]
    )


if __name__ == "__main__":
    main()
