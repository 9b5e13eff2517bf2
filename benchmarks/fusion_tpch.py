"""What fusion costs: six joints as one fused group against the same question written by hand.

On TPC-H data, four contenders take turns in one Spark session. ``fused`` is the group as ``run_group`` runs it, with
all that a run does: stage, write, audit the files, publish, sync to disk. ``by hand`` is one SELECT, written by plain
``df.write.parquet``; its joins are nested as the steps nest them, those of ``by hand (flat)`` stand in a row. ``one
table a step`` writes each step's query to a Parquet table that the next one reads. All four begin by opening the source
files. Before anything is timed, all answers must be the same, and that of DuckDB too.

The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import operator
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset
from measuring import Measured, Spread, markdown, pairwise, take_turns
from one_session import ENGINE, cpu_seconds, load, shared_session, start_spark

from rivet_dagster import Joint, compile_directory
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.reading.inputs import frames
from rivet_dagster.execution.reading.rendering import render_whole
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime

PROJECT = Path(__file__).resolve().parent / "fusion"
TABLES = ("lineitem", "orders", "customer", "nation", "region")
STEPS = ("shipped_lines", "customer_orders", "nations", "sales", "european_sales", "nation_revenue")
GROUP = "revenue_by_nation"
ONE_ROW = "one_row"
ONE_ROW_GROUP = "one_row_copy"

FACTOR, FIXED = 1.05, 0.3
"""What the fused group may take: this many times the hand-written query, and this many seconds more."""

BY_HAND = """
SELECT n_name AS nation, year(l_shipdate) AS ship_year, count(*) AS lines,
       sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem
JOIN (orders JOIN customer ON c_custkey = o_custkey) ON o_orderkey = l_orderkey
JOIN (nation JOIN region ON r_regionkey = n_regionkey) ON n_nationkey = c_nationkey
WHERE r_name = 'EUROPE' AND l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1997-01-01'
GROUP BY n_name, year(l_shipdate)
"""

BY_HAND_FLAT = """
SELECT n_name AS nation, year(l_shipdate) AS ship_year, count(*) AS lines,
       sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM lineitem
JOIN orders ON o_orderkey = l_orderkey
JOIN customer ON c_custkey = o_custkey
JOIN nation ON n_nationkey = c_nationkey
JOIN region ON r_regionkey = n_regionkey
WHERE r_name = 'EUROPE' AND l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1997-01-01'
GROUP BY n_name, year(l_shipdate)
"""

ONE_ROW_JOINTS = (
    Joint(name=ONE_ROW, type="source", catalog="results", table=f"{ONE_ROW}.parquet"),
    Joint(name="same_row", type="sql", sql=f"SELECT * FROM {ONE_ROW}"),
    Joint(name=ONE_ROW_GROUP, type="sink", upstream=("same_row",), catalog="results", table=ONE_ROW_GROUP),
)
"""A second group beside the six steps, whose run is nothing but the fixed cost of a group."""

HAND, FLAT, FUSED, TABLE_A_STEP = "by hand", "by hand (flat)", "fused", "one table a step"

Runs = Sequence[Measured[GroupResult | None]]


def main() -> None:
    options = arguments()
    data: Path = options.data or PROJECT / "data" / f"sf{options.scale:g}"
    make_data(data, options.scale)
    runtime = open_runtime(data)
    spark = start_spark(runtime)
    with tempfile.TemporaryDirectory(prefix="plain-", dir=results_folder()) as scratch:
        measure(runtime, spark, data, Path(scratch), options)
    spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale factor (default 1: 300 MB of Parquet)")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds (default 15)")
    parser.add_argument("--warm-ups", type=int, default=4, help="rounds before them that are not timed (default 4)")
    parser.add_argument("--data", type=Path, help="where the data is or goes (default fusion/data/sf<scale>)")
    options = parser.parse_args()
    if options.data:
        options.data = options.data.resolve()
    return options


def make_data(folder: Path, scale: float) -> None:
    """Generate the tables that are missing; a table appears whole or not at all."""
    missing = [table for table in TABLES if not (folder / f"{table}.parquet").exists()]
    if not missing:
        return
    beside_python = Path(sys.executable).with_name("tpchgen-cli")
    program = str(beside_python) if beside_python.exists() else shutil.which("tpchgen-cli")
    if program is None:
        sys.exit("tpchgen-cli is not installed. Install it with: pip install tpchgen-cli")
    folder.mkdir(parents=True, exist_ok=True)
    print(f"generating {', '.join(missing)} at scale {scale:g} in {folder}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="new-", dir=folder) as made:
        command = [program, "parquet", "-s", f"{scale:g}", "-T", ",".join(missing), "--output-dir", made, "--quiet"]
        subprocess.run(command, check=True)
        for table in missing:
            os.replace(Path(made, f"{table}.parquet"), folder / f"{table}.parquet")


def results_folder() -> Path:
    """Where the project's sinks lie, and everything else that the benchmark writes: all on one disk."""
    folder = PROJECT / "results"
    folder.mkdir(exist_ok=True)
    return folder


def open_runtime(data: Path) -> Runtime:
    """The compiled project, whose engine connects to the process's one Spark session."""
    environ = {**os.environ, "TPCH_DATA": str(data)}
    assembly = compile_directory(PROJECT, joints=ONE_ROW_JOINTS, environ=environ).raise_errors()
    runtime = Runtime(assembly, PROJECT, {ENGINE: lambda: shared_session(runtime)}, environ)
    return runtime


def measure(runtime: Runtime, spark: Any, data: Path, scratch: Path, options: argparse.Namespace) -> None:
    one_row = results_folder() / f"{ONE_ROW}.parquet"
    spark.sql("SELECT 1 AS id").write.mode("overwrite").parquet(str(one_row))
    sources = {table: data / f"{table}.parquet" for table in TABLES}
    six_steps: Mapping[str, Callable[[Path], GroupResult | None]] = {
        HAND: partial(by_hand, spark, sources, BY_HAND),
        FUSED: partial(fused, runtime, GROUP),
        FLAT: partial(by_hand, spark, sources, BY_HAND_FLAT),
        TABLE_A_STEP: partial(one_table_a_step, spark, sources, runtime),
    }
    single_row: Mapping[str, Callable[[Path], GroupResult | None]] = {
        HAND: partial(by_hand, spark, {ONE_ROW: one_row}, f"SELECT * FROM {ONE_ROW}"),
        FUSED: partial(fused, runtime, ONE_ROW_GROUP),
    }
    print(conditions(spark, options))
    print(same_answers(six_steps, sources, scratch))
    print(same_plans(runtime, spark, sources))

    turns = partial(
        take_turns,
        warm_ups=options.warm_ups,
        scratch=scratch,
        between=spark._jvm.System.gc,  # nobody pays for another's garbage
        cpu_seconds=partial(cpu_seconds, spark),
    )
    runs = turns(six_steps, options.rounds)
    # A run over one row is short, and the noise in it large beside it.
    tiny = turns(single_row, 3 * options.rounds)
    print(f"- load average afterwards: {load()}\n")
    print(report(runs, tiny))


def by_hand(spark: Any, sources: Mapping[str, Path], query: str, folder: Path) -> None:
    """What a script would do: open the files, ask, write."""
    open_sources(spark, sources)
    spark.sql(query).write.parquet(str(folder))


def fused(runtime: Runtime, group_name: str, _: Path) -> GroupResult:
    """The product's own run of one group, published in its catalog."""
    group = runtime.assembly.group(group_name)
    return run_group(runtime, group_name, group.joints, str(uuid.uuid4()))


def one_table_a_step(spark: Any, sources: Mapping[str, Path], runtime: Runtime, folder: Path) -> None:
    """The joints' own queries, each written to Parquet and read from there by the next."""
    open_sources(spark, sources)
    for step in STEPS:
        table = str(folder / step)
        spark.sql(runtime.assembly.joint(step).sql).write.parquet(table)
        spark.read.parquet(table).createOrReplaceTempView(step)


def open_sources(spark: Any, sources: Mapping[str, Path]) -> None:
    for name, path in sources.items():
        # Spelled as the product spells it: to Spark's comparison of plans, a path and its URI are two relations.
        spark.read.parquet(f"file://{path}").createOrReplaceTempView(name)


def same_answers(
    contenders: Mapping[str, Callable[[Path], GroupResult | None]], sources: Mapping[str, Path], scratch: Path
) -> str:
    """A line that says so; exits where two answers differ in a single row."""
    with duckdb.connect() as connection:
        for name, path in sources.items():
            connection.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet('{path}')")
        expected = sorted(connection.execute(BY_HAND_FLAT).fetchall())
    written = {
        HAND: scratch / HAND,
        FUSED: results_folder() / GROUP,
        FLAT: scratch / FLAT,
        TABLE_A_STEP: scratch / TABLE_A_STEP / STEPS[-1],
    }
    for name, run in contenders.items():
        run(scratch / name)
        if (found := rows(written[name])) != expected:
            sys.exit(f"'{name}' gives other rows than DuckDB:\n{found}\n{expected}")
        shutil.rmtree(scratch / name, ignore_errors=True)
    return f"- same {len(expected)} rows: {', '.join([*contenders, 'DuckDB'])}"


def rows(folder: Path) -> list[tuple[Any, ...]]:
    table = pyarrow.dataset.dataset(folder, format="parquet").to_table()
    return sorted(tuple(row.values()) for row in table.to_pylist())


def same_plans(runtime: Runtime, spark: Any, sources: Mapping[str, Path]) -> str:
    """Lines that say whether Spark's optimizer makes one plan of the fused query and of each hand-written one."""
    group = runtime.assembly.group(GROUP)
    session = runtime.engine(ENGINE).session()
    try:
        fused_plan = optimized_plan(frames(runtime, render_whole(group, GROUP), session, {})[0])
    finally:
        session.close()
    open_sources(spark, sources)
    answers = []
    for name, query in {HAND: BY_HAND, FLAT: BY_HAND_FLAT}.items():
        # Spark's own comparison: the ids of expressions and the names it makes up do not count, all else does.
        same = fused_plan.sameResult(optimized_plan(spark.sql(query)))
        answers.append(f"- optimized plan of '{FUSED}' is that of '{name}': {'yes' if same else 'no'}")
    return "\n".join(answers)


def optimized_plan(frame: Any) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()


def conditions(spark: Any, options: argparse.Namespace) -> str:
    java = spark._jvm.System.getProperty("java.version")
    return (
        f"- TPC-H scale {options.scale:g}, {options.rounds} rounds after {options.warm_ups} to warm up\n"
        f"- Spark {spark.version} on {spark.sparkContext.master}, Java {java}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores\n"
        f"- load average before: {load()}"
    )


def report(runs: Mapping[str, Runs], tiny: Mapping[str, Runs]) -> str:
    """The figures as Markdown."""
    fused_runs, hand = runs[FUSED], runs[HAND]
    times = [
        (name, str(Spread.of(run.seconds for run in found)), f"{median_cpu(found):.2f}") for name, found in runs.items()
    ]
    ratios = [
        (
            f"{one} / {other}",
            str(pairwise(runs[one], runs[other], operator.truediv)),
            f"{cpu_ratio(runs, one, other):.2f}",
        )
        for one, other in ((FUSED, HAND), (FUSED, FLAT), (TABLE_A_STEP, FUSED), (TABLE_A_STEP, HAND))
    ]
    fixed = [
        ("one row, fused less by hand", str(pairwise(tiny[FUSED], tiny[HAND], operator.sub))),
        ("one row, fused", str(Spread.of(run.seconds for run in tiny[FUSED]))),
        ("one row, by hand", str(Spread.of(run.seconds for run in tiny[HAND]))),
        ("six steps, fused less by hand", str(pairwise(fused_runs, hand, operator.sub))),
        ("six steps, fused, outside Spark", str(Spread.of(outside_spark(run) for run in fused_runs))),
    ]
    phases = [
        (name, phase_spread(fused_runs, name), phase_spread(tiny[FUSED], name)) for name in phase_names(fused_runs)
    ]
    return "\n\n".join(
        [
            markdown(("six steps", "seconds: median (min..max)", "CPU seconds"), times),
            markdown(("ratio", "pair by pair: median (min..max)", "of CPU seconds"), ratios),
            markdown(("fixed cost of a group", "seconds: median (min..max)"), fixed),
            markdown(("phase of a fused run", "six steps", "one row"), phases),
            "\n".join(verdict(runs, name) for name in (HAND, FLAT)),
        ]
    )


def median_cpu(found: Runs) -> float:
    return statistics.median(run.cpu_seconds for run in found)


def cpu_ratio(runs: Mapping[str, Runs], one: str, other: str) -> float:
    return statistics.median(a.cpu_seconds / b.cpu_seconds for a, b in zip(runs[one], runs[other], strict=True))


def phases_of(run: Measured[GroupResult | None]) -> Mapping[str, float]:
    assert run.result is not None
    return run.result.phases


def phase_names(found: Runs) -> list[str]:
    return list(phases_of(found[0]))


def phase_spread(found: Runs, name: str) -> str:
    spread = Spread.of(phases_of(run)[name] for run in found)
    return f"{spread.median:.3f} ({spread.least:.3f}..{spread.most:.3f})"


def outside_spark(run: Measured[GroupResult | None]) -> float:
    """All but planning the query and writing its rows; those two hold some of our own work, too."""
    phases = phases_of(run)
    return run.seconds - phases["config"] - phases["write"]


def verdict(runs: Mapping[str, Runs], name: str) -> str:
    pairs = [(a.seconds, FACTOR * b.seconds + FIXED) for a, b in zip(runs[FUSED], runs[name], strict=True)]
    within = sum(taken <= allowed for taken, allowed in pairs)
    medians = statistics.median(taken for taken, _ in pairs), statistics.median(allowed for _, allowed in pairs)
    return (
        f"- {FUSED} takes at most {FACTOR} x {name} + {FIXED} s in {within} of {len(pairs)} pairs; "
        f"medians: {medians[0]:.2f} s taken, {medians[1]:.2f} s allowed"
    )


if __name__ == "__main__":
    main()
