"""What a group costs on DuckDB: six TPC-H joints as one fused group against the same question by hand.

On TPC-H data two contenders take turns, each on a database of its own. ``fused`` is the group as ``run_group`` runs it,
with all that a run does. ``by hand`` is one SELECT in DuckDB's SQL, written by plain ``COPY``. Before anything is timed
the answers must be the same.

The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import operator
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
from fusion_tpch import BY_HAND_FLAT, GROUP, PROJECT, TABLES, arguments, fused, make_data, rows
from measuring import Spread, markdown, pairwise, take_turns

from rivet_dagster import compile_directory
from rivet_dagster.execution.runtime import Runtime

FACTOR = 1.1
"""What the fused group may take: this many times the hand-written query."""

RESULTS = PROJECT / "results_duckdb"


def main() -> None:
    options = arguments()
    data: Path = options.data or PROJECT / "data" / f"sf{options.scale:g}"
    make_data(data, options.scale)
    environ = {**os.environ, "TPCH_DATA": str(data)}
    assembly = compile_directory(PROJECT, profile="duckdb", environ=environ).raise_errors()
    runtime = Runtime(assembly, PROJECT, {}, environ)
    RESULTS.mkdir(exist_ok=True)
    with duckdb.connect(config={"threads": 2}) as connection, tempfile.TemporaryDirectory(dir=RESULTS) as scratch:
        contenders: dict[str, Any] = {
            "by hand": partial(by_hand, connection, data),
            "fused": partial(fused, runtime, GROUP),
        }
        for name, run in contenders.items():
            run(Path(scratch, name))
        if rows(Path(scratch, "by hand")) != rows(RESULTS / GROUP):
            sys.exit("'fused' gives other rows than 'by hand'")
        shutil.rmtree(Path(scratch, "by hand"))
        runs = take_turns(
            contenders, options.rounds, options.warm_ups, Path(scratch), lambda: None, cpu_seconds=time.process_time
        )
    hand, ours = runs["by hand"], runs["fused"]
    times = [
        (name, str(Spread.of(run.seconds for run in found)), str(Spread.of(run.cpu_seconds for run in found)))
        for name, found in runs.items()
    ]
    ratio = pairwise(ours, hand, operator.truediv)
    print(f"- TPC-H scale {options.scale:g}, {options.rounds} rounds, duckdb {duckdb.__version__}, 2 threads")
    print(f"- load average afterwards: {os.getloadavg()[0]:.1f}\n")
    print(markdown(("six steps", "seconds: median (min..max)", "CPU seconds"), times))
    print(f"\n- fused / by hand, pair by pair: {ratio} (goal: at most {FACTOR})")
    print(f"- fused less by hand, seconds: {pairwise(ours, hand, operator.sub)}")


def by_hand(connection: duckdb.DuckDBPyConnection, data: Path, folder: Path) -> None:
    """Read the files, ask, and write one."""
    for table in TABLES:
        connection.execute(f"CREATE OR REPLACE VIEW {table} AS SELECT * FROM read_parquet('{data}/{table}.parquet')")
    folder.mkdir()
    query = BY_HAND_FLAT.replace("year(l_shipdate) AS", "CAST(year(l_shipdate) AS INT) AS")
    connection.execute(f"COPY ({query}) TO '{folder}/part.parquet' (FORMAT parquet)")


if __name__ == "__main__":
    main()
