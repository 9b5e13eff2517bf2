"""What a cluster gains, and what a driver pays: the six joints of ``fusion`` on one worker and on two, and many files.

On standalone clusters of one and of two workers, with one core each, the fused group and the query by hand take turns.
How many times as fast two workers are is the speed-up of each; that of the group is compared with that of the query.
Then a table of 10 to 10,000 files of a few rows each is copied by a group and by Spark's own reader and writer, on one
worker, in a process each. What counts is the driver alone: the peak memory of Python, the JVM's heap after a collection
of garbage, and what both read and wrote, in the second of two runs.

The figures are printed as Markdown. Nothing here asserts one. It needs Linux, and ``tpchgen-cli``.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fusion_tpch import BY_HAND, FUSED, GROUP, HAND, PROJECT, TABLES, by_hand, fused, make_data, results_folder, rows
from measuring import markdown, take_turns
from one_session import ENGINE, cpu_seconds, load, shared_session

from rivet_dagster import Joint, compile_directory
from rivet_dagster.execution.runtime import Runtime

WORKERS = (1, 2)
FILES = "files"
COPY = "files_copy"
ROWS = 10
"""Rows of each of many files."""


def main() -> None:
    options = arguments()
    if options.master is not None:
        print(json.dumps(in_child(options)))
        return
    data = PROJECT / "data" / f"sf{options.scale:g}"
    make_data(data, options.scale)
    print(f"- TPC-H scale {options.scale:g}, {options.rounds} rounds after one to warm up; load before: {load()}")
    steps = {}
    for workers in WORKERS:
        with cluster(workers) as master:
            steps[workers] = child(master, data, "--rounds", str(options.rounds))
    print(f"- load afterwards: {load()}\n\n{speed_ups(steps)}\n")
    driver: dict[int, dict[str, dict[str, float]]] = {}
    for number in options.files:
        with tempfile.TemporaryDirectory(prefix="files-", dir=results_folder()) as folder:
            make_files(Path(folder) / f"{FILES}.parquet", number)
            with cluster(1) as master:
                driver[number] = {name: child(master, Path(folder), "--copy", name) for name in (HAND, FUSED)}
    print(costs(driver))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=3, help="TPC-H scale factor (default 3: 900 MB of Parquet)")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default 5)")
    parser.add_argument("--files", type=int, nargs="*", default=[10, 100, 1_000, 10_000], help="files of a table")
    parser.add_argument("--master", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--copy", choices=[HAND, FUSED], help=argparse.SUPPRESS)
    return parser.parse_args()


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """Yield the address of a cluster's master, which ends with the block."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
    from support.cluster import standalone_cluster

    with (
        tempfile.TemporaryDirectory(prefix="cluster-") as folder,
        standalone_cluster(Path(folder), workers, memory="2g") as found,
    ):
        yield found.address


def child(master: str, data: Path, *more: str) -> Any:
    """Return what a process of its own, with a driver of its own, prints."""
    command = [sys.executable, __file__, "--master", master, "--data", str(data), *more]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


def in_child(options: argparse.Namespace) -> Any:
    """Return the seconds of each contender, or what a copy of many files costs the driver."""
    runtime = open_runtime(options.data, options.master)
    runtime.engine(ENGINE).session().close()
    spark = shared_session(runtime)
    tables = [FILES] if options.copy else TABLES
    sources = {table: options.data / f"{table}.parquet" for table in tables}
    with tempfile.TemporaryDirectory(prefix="plain-", dir=results_folder()) as scratch:
        if options.copy:
            by_spark = partial(by_hand, spark, sources, f"SELECT * FROM {FILES}")
            return copied(spark, by_spark if options.copy == HAND else partial(fused, runtime, COPY), Path(scratch))
        six_steps: Mapping[str, Callable[[Path], Any]] = {
            HAND: partial(by_hand, spark, sources, BY_HAND),
            FUSED: partial(fused, runtime, GROUP),
        }
        six_steps[HAND](Path(scratch) / "once")
        six_steps[FUSED](Path(scratch) / "once")
        if rows(Path(scratch) / "once") != rows(results_folder() / GROUP):
            sys.exit("the fused group gives other rows than the query by hand")
        runs = take_turns(
            six_steps, options.rounds, 1, Path(scratch), spark._jvm.System.gc, partial(cpu_seconds, spark)
        )
    return {name: [run.seconds for run in found] for name, found in runs.items()}


def open_runtime(data: Path, master: str) -> Runtime:
    """Return the compiled project, with a group that copies the table of many files, on a cluster."""
    environ = {**os.environ, "TPCH_DATA": str(data), "SPARK_MASTER": master}
    joints = (
        Joint(name=FILES, type="source", catalog="tpch", table=f"{FILES}.parquet"),
        Joint(name="each_row", type="sql", sql=f"SELECT * FROM {FILES}"),
        Joint(name=COPY, type="sink", upstream=("each_row",), catalog="results", table=COPY),
    )
    assembly = compile_directory(PROJECT, profile="cluster", joints=joints, environ=environ).raise_errors()
    return Runtime(assembly, PROJECT, environ=environ)


def make_files(folder: Path, number: int) -> None:
    folder.mkdir()
    for file in range(number):
        ids = range(file * ROWS, (file + 1) * ROWS)
        pq.write_table(pa.table({"id": ids, "text": [f"row {id}" for id in ids]}), folder / f"{file:06}.parquet")


def copied(spark: Any, copy: Callable[[Path], Any], scratch: Path) -> dict[str, float]:
    """Return the memory, in MB, and the bytes, in MB, of this process and its JVM."""
    jvm = spark._jvm.java.lang
    process = str(jvm.ProcessHandle.current().pid())
    copy(scratch / "first")
    before = transferred("self") + transferred(process)
    copy(scratch / "second")
    moved = transferred("self") + transferred(process) - before
    jvm.System.gc()
    heap = jvm.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    return {
        "memory": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + heap) / 2**20,
        "bytes": moved / 2**20,
    }


def transferred(process: str) -> int:
    """Return the bytes that a process has read and written so far."""
    lines = Path(f"/proc/{process}/io").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(("rchar", "wchar")))


def speed_ups(steps: Mapping[int, Mapping[str, Sequence[float]]]) -> str:
    """Return the seconds on each cluster, and how many times as fast the larger one is."""
    one, two = WORKERS
    gained = {name: statistics.median(steps[one][name]) / statistics.median(steps[two][name]) for name in steps[one]}
    lines = [
        (name, *(spread(steps[workers][name]) for workers in WORKERS), f"{gained[name]:.2f}") for name in steps[one]
    ]
    table = markdown(("six steps, seconds", "one worker", "two workers", "speed-up"), lines)
    return f"{table}\n\n- speed-up of '{FUSED}' over that of '{HAND}': {gained[FUSED] / gained[HAND]:.3f}"


def spread(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f}..{max(seconds):.2f})"


def costs(driver: Mapping[int, Mapping[str, Mapping[str, float]]]) -> str:
    """Return what the driver of each contender has and moves, and what the group adds."""
    lines = []
    for number, found in driver.items():
        for what in ("memory", "bytes"):
            hand, ours = found[HAND][what], found[FUSED][what]
            lines.append((f"{number} files, {what}", f"{hand:.1f}", f"{ours:.1f}", f"{ours - hand:.1f}"))
    return markdown(("driver, MB", HAND, FUSED, "added"), lines)


if __name__ == "__main__":
    main()
