"""What the gate costs: one write without checks against the same write with eight, judged in different ways.

The contenders take turns in one Spark session, on one generated table. ``ungated`` has no checks. ``in the write`` has
eight, of which the footers of the written files prove two and only the rows decide six, while they are written.
``one pass`` has the same, without that: one query over the staged rows. ``footers`` has eight that the footers prove,
and ``query a check`` the eight of ``one pass``, each of the six judged by a query of its own. All are whole runs of a
group, published and synced to disk, and all checks pass.

The figures are printed as Markdown. Nothing here asserts a time.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from measuring import Measured, Spread, markdown, mean_ratio, quartiles, ratios, take_turns
from one_session import cpu_seconds, load, open_runtime, start_spark

from rivet_dagster import Joint
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files, read_statistics
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.proof import proven_violations

HERE = Path(__file__).resolve().parent
UNGATED, IN_THE_WRITE, ONE_PASS, FOOTERS = "ungated", "in the write", "one pass", "footers"
QUERY_A_CHECK = "query a check"

GOALS = {IN_THE_WRITE: 1.08, FOOTERS: 1.03}
"""What the run may take, as a multiple of the ungated one."""

PROVEN_BY_FOOTERS = {UNGATED: 0, IN_THE_WRITE: 2, ONE_PASS: 2, FOOTERS: 8, QUERY_A_CHECK: 2}
"""How many checks need no row."""

GENERATED = """
SELECT id, id % 50000 + 1 AS customer, CAST(id % 97 AS INT) AS quantity,
       CAST((id * 7919) % 1000000 / 100 AS DECIMAL(12, 2)) AS price,
       CAST((id * 31) % 100 / 100 AS DECIMAL(4, 2)) AS discount,
       DATE '2020-01-01' + CAST(id % 1500 AS INT) AS ordered, CAST(id % 30 AS INT) AS days,
       element_at(array('open', 'paid', 'sent', 'closed'), CAST(id % 4 AS INT) + 1) AS status,
       substr(sha2(CAST(id AS STRING), 256), 1, 12) AS code
FROM range(0, {rows}, 1, 8)
"""

ORDERS = """
SELECT id, customer, quantity, price, price * (1 - discount) AS net, ordered, date_add(ordered, days) AS shipped,
       status, upper(code) AS code, concat('c', customer, '@example.org') AS email,
       named_struct('city', concat('city ', customer % 500)) AS place
FROM generated
"""

SCANNED: Sequence[Mapping[str, Any]] = (
    {"type": "not_null", "columns": ["place.city"]},
    {"type": "accepted_values", "column": "status", "values": ["open", "paid", "sent", "closed"]},
    {"type": "expression", "name": "code_length", "sql": "length(code) = 12"},
    {"type": "expression", "name": "code_case", "sql": "code = upper(code)"},
    {"type": "expression", "name": "price_sign", "sql": "price >= 0"},
    {"type": "expression", "name": "net_below_price", "sql": "net <= price"},
    {"type": "expression", "name": "shipped_after", "sql": "shipped >= ordered"},
    {"type": "expression", "name": "email_form", "sql": "email LIKE '%@example.org'"},
)

PROVEN: Sequence[Mapping[str, Any]] = (
    {"type": "row_count", "min": 1},
    {"type": "not_null", "columns": ["id"]},
    {"type": "not_null", "columns": ["customer"]},
    {"type": "not_null", "columns": ["status"]},
    {"type": "not_null", "columns": ["code", "email"]},
    {"type": "expression", "name": "id_sign", "sql": "id >= 0"},
    {"type": "expression", "name": "customer_bounds", "sql": "customer BETWEEN 1 AND 50000"},
    {"type": "expression", "name": "quantity_bounds", "sql": "quantity >= 0 AND quantity < 100"},
)

CHECKS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    UNGATED: (),
    IN_THE_WRITE: SCANNED,
    ONE_PASS: SCANNED,
    FOOTERS: PROVEN,
    # A check with a timeout is never judged together with others.
    QUERY_A_CHECK: [{**check, "timeout": "1h"} for check in SCANNED],
}

Runs = Sequence[Measured[GroupResult]]


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="gate-", dir=HERE) as folder:
        runtime = open_runtime(Path(folder), joints())
        spark = start_spark(runtime)
        spark.sql(GENERATED.format(rows=options.rows)).write.parquet(str(Path(folder) / "data/generated.parquet"))
        measure(runtime, spark, Path(folder), options)
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="rows of the table (default 4,000,000)")
    parser.add_argument("--rounds", type=int, default=30, help="timed rounds (default 30)")
    parser.add_argument("--against", choices=sorted(CHECKS.keys() - {UNGATED}), nargs="+", help="measure these alone")
    parser.add_argument("--warm-ups", type=int, default=4, help="rounds before them that are not timed (default 4)")
    return parser.parse_args()


def joints() -> list[Joint]:
    """The source, and for each contender the same query with checks of its own."""
    found = [Joint(name="generated", type="source", catalog="raw", table="generated.parquet")]
    for contender, checks in CHECKS.items():
        name = group_of(contender)
        query = Joint(name=f"{name}_orders", type="sql", sql=ORDERS)
        quality = {"assertions": checks}
        fields: Mapping[str, Any] = {"catalog": "results", "table": name, "quality": quality}
        found += [query, Joint(name=name, type="sink", upstream=(query.name,), **fields)]
    return found


def group_of(contender: str) -> str:
    return contender.replace(" ", "_")


def measure(runtime: Runtime, spark: Any, folder: Path, options: argparse.Namespace) -> None:
    chosen = CHECKS if options.against is None else (UNGATED, *options.against)
    contenders: Mapping[str, Callable[[Path], GroupResult]] = {name: partial(run, runtime, name) for name in chosen}
    java = spark._jvm.System.getProperty("java.version")
    print(
        f"- {options.rows:,} rows, {options.rounds} rounds after {options.warm_ups} to warm up\n"
        f"- Spark {spark.version} on {spark.sparkContext.master}, Java {java}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores\n"
        f"- load average before: {load()}"
    )
    first = {name: contender(folder) for name, contender in contenders.items()}
    print(judged_as_meant(first, runtime, options.rows))
    runs = take_turns(
        contenders,
        options.rounds,
        warm_ups=options.warm_ups,
        scratch=folder / "scratch",
        between=spark._jvm.System.gc,  # nobody pays for another's garbage
        cpu_seconds=partial(cpu_seconds, spark),
    )
    print(f"- load average afterwards: {load()}\n")
    print(report(runs))


def run(runtime: Runtime, contender: str, _: Path) -> GroupResult:
    """The product's own run of the group."""
    group = runtime.assembly.group(group_of(contender))
    if contender == ONE_PASS:
        with patch.object(PySparkSession, "observe", lambda *_: None):
            return run_group(runtime, group.name, group.joints, str(uuid.uuid4()))
    return run_group(runtime, group.name, group.joints, str(uuid.uuid4()))


def judged_as_meant(results: Mapping[str, GroupResult], runtime: Runtime, rows: int) -> str:
    """A line that says so; exits where a check fails, or the footers prove another one than they should."""
    for name, result in results.items():
        if result.published is None or result.published.statistics.rows != rows:
            sys.exit(f"'{name}' has not published {rows} rows: {[c.check.name for c in result.checks if not c.passed]}")
        known = read_statistics(parquet_files(runtime.root / "results" / group_of(name)))
        proven = [c.check.name for c in result.checks if proven_violations(c.check.queries.proof, known) is not None]
        if len(proven) != PROVEN_BY_FOOTERS[name]:
            sys.exit(f"'{name}': the footers prove {proven}")
    told = (f"{name}: {len(result.checks)}" for name, result in results.items())
    return f"- checks, all passed: {', '.join(told)}"


def report(runs: Mapping[str, Runs]) -> str:
    """The figures as Markdown."""
    times = [
        (name, str(Spread.of(run.seconds for run in found)), f"{statistics.median(r.cpu_seconds for r in found):.2f}")
        for name, found in runs.items()
    ]
    gated = [name for name in runs if name != UNGATED]
    pairs = {name: ratios(runs[name], runs[UNGATED]) for name in gated}
    compared = [(f"{name} / {UNGATED}", *quartiles(found), mean_ratio(found)) for name, found in pairs.items()]
    phases = [
        (phase, *(f"{statistics.median(run.result.phases[phase] for run in found):.3f}" for found in runs.values()))
        for phase in runs[UNGATED][0].result.phases
    ]
    return "\n\n".join(
        [
            markdown(("run", "seconds: median (min..max)", "CPU seconds"), times),
            markdown(("ratio, pair by pair", "first quartile", "median", "third quartile", "mean"), compared),
            markdown(("median seconds of a phase", *runs), phases),
            "\n".join(verdict(runs, name, most) for name, most in GOALS.items() if name in runs),
        ]
    )


def verdict(runs: Mapping[str, Runs], name: str, most: float) -> str:
    found = ratios(runs[name], runs[UNGATED])
    word = "met" if statistics.median(found) <= most else "missed"
    within = sum(ratio <= most for ratio in found)
    return f"- goal {word}: {name} takes at most {most} x {UNGATED}; so do {within} of {len(found)} pairs"


if __name__ == "__main__":
    main()
