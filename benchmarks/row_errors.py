"""What quarantining costs: the same joints with `on_error: fail` and `on_error: quarantine`, on clean and dirty rows.

`wide` casts 100 columns of text; `chain` casts 20 in as many fused joints, which `one` does in one joint.

In dirty rows one string of 10,000 cannot be cast. Then `fail` publishes nothing, so that all runs are compared with the
one of the same joint that may fail, but does not, on the clean rows. ``quarantine`` reads the clean rows. ``dirty``
reads the dirty ones, over a version that has errors already; ``first dirty`` writes them to a new table, so that the
run learns of the errors from an attempt that fails. ``--parts`` also measures ``good``, the query of the good rows
written by hand, which asks for no errors. All take turns in one Spark session, and are whole runs of a group, published
and synced to disk. The figures are printed as Markdown. Nothing here asserts a time.
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measuring import Measured, Spread, markdown, mean_ratio, quartiles, ratios, take_turns
from one_session import cpu_seconds, load, open_runtime, start_spark

from rivet_dagster import Joint
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.progress import WRITE
from rivet_dagster.execution.results import GroupResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.row_errors import RowErrors
from rivet_dagster.model.text_lines import Origin
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.separation import separate

HERE = Path(__file__).resolve().parent
FAIL, GOOD, CLEAN, DIRTY, FIRST = "fail", "good", "quarantine", "dirty", "first dirty"

MOST_OF_WRITE = 1.25
"""What the phase that writes rows and errors may take on clean rows, as a multiple of that of a run that may fail."""

ROWS = """
SELECT id, CASE WHEN id % 10000 = 7 AND {dirty} THEN concat('x', id) ELSE CAST(id * 31 % 1000 AS STRING) END AS s,
       CAST(id DIV 7 % 1000 AS INT) AS k, CAST(DATE '2020-01-01' + CAST(id % 1500 AS INT) AS STRING) AS d,
       CAST(id % 99991 AS INT) AS a, CAST(id % 97 + 1 AS INT) AS b, substr(sha2(CAST(id AS STRING), 256), 1, 12) AS code
FROM range(0, {rows}, 1, 8)
"""
NAMES = "SELECT CAST(id AS INT) AS k, concat('name ', id) AS name FROM range(0, 1000, 1, 1)"


@dataclass(frozen=True)
class Case:
    """A joint to be measured.

    ``sql`` reads the table ``{t}``; a row of it is bad where ``bad`` says so, and the rows of the result without those
    are counted by ``good``. ``most`` is what the whole run may take on clean rows, as a multiple of the one that may
    fail.
    """

    sql: str | Sequence[str]
    bad: str
    good: str
    most: float
    rows: str = "rows"

    @property
    def texts(self) -> Sequence[str]:
        """The queries of a chain of joints, each of which reads the one before it."""
        return (self.sql,) if isinstance(self.sql, str) else self.sql


WIDE, LONG = 100, 20
COLUMNS = {"wide": WIDE, "long": LONG}
"""Columns of text, by the name of the rows."""
WIDE_ROWS = "SELECT id, {columns} FROM range(0, {rows}, 1, 8)"
WIDE_COLUMN = "CASE WHEN id % 10000 = {i} AND {dirty} THEN 'x' ELSE CAST((id * 31 + {i}) % 1000 AS STRING) END AS c{i}"


def casts(number: int) -> str:
    return ", ".join(f"CAST(c{i} AS INT) AS v{i}" for i in range(number))


def any_bad(number: int) -> str:
    return " OR ".join(f"try_cast(c{i} AS INT) IS NULL" for i in range(number))


IS_BAD = "try_cast(s AS INT) IS NULL"
CASES: Mapping[str, Case] = {
    "map": Case(
        "SELECT id, CAST(s AS INT) AS n, CAST(d AS DATE) AS day, a / b AS ratio, upper(code) AS code FROM {t}",
        IS_BAD,
        f"SELECT count(*) FROM {{t}} WHERE NOT ({IS_BAD})",
        1.05,
    ),
    "filter": Case(
        "SELECT id, s, k, code FROM {t} WHERE CAST(s AS INT) > 500 AND k < 900",
        f"{IS_BAD} AND k < 900",
        "SELECT count(*) FROM {t} WHERE try_cast(s AS INT) > 500 AND k < 900",
        1.15,
    ),
    "group": Case(
        "SELECT k, sum(CAST(s AS INT)) AS total, count(*) AS n FROM {t} GROUP BY k",
        IS_BAD,
        f"SELECT count(*) FROM (SELECT k FROM {{t}} GROUP BY k HAVING NOT bool_or({IS_BAD}))",
        1.3,
    ),
    "join": Case(
        "SELECT t.id, t.code, u.name FROM {t} AS t JOIN names AS u ON CAST(t.s AS INT) = u.k",
        IS_BAD,
        f"SELECT count(*) FROM {{t}} WHERE NOT ({IS_BAD})",
        1.15,
    ),
    "wide": Case(
        f"SELECT id, {casts(WIDE)} FROM {{t}}",
        any_bad(WIDE),
        f"SELECT count(*) FROM {{t}} WHERE NOT ({any_bad(WIDE)})",
        1.15,
        "wide",
    ),
    "one": Case(
        f"SELECT *, {casts(LONG)} FROM {{t}}",
        any_bad(LONG),
        f"SELECT count(*) FROM {{t}} WHERE NOT ({any_bad(LONG)})",
        1.1,
        "long",
    ),
    "chain": Case(
        [f"SELECT *, CAST(c{i} AS INT) AS v{i} FROM {{t}}" for i in range(LONG)],
        any_bad(LONG),
        f"SELECT count(*) FROM {{t}} WHERE NOT ({any_bad(LONG)})",
        1.1,
        "long",
    ),
}


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="row_errors-", dir=HERE) as folder:
        runtime = open_runtime(Path(folder), joints(options.parts))
        spark = start_spark(runtime)
        Benchmark(runtime, spark, Path(folder), options).measure()
        spark.stop()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000, help="rows of each table (default 5,000,000)")
    parser.add_argument("--wide-rows", type=int, default=1_000_000, help="rows of 20 or 100 texts (default 1,000,000)")
    parser.add_argument("--rounds", type=int, default=9, help="timed rounds (default 9)")
    parser.add_argument("--warm-ups", type=int, default=2, help="rounds before them that are not timed (default 2)")
    parser.add_argument("--case", choices=CASES, action="append", help="measure this joint; may be given several times")
    parser.add_argument("--parts", action="store_true", help="also measure the query of the good rows alone")
    return parser.parse_args()


def joints(with_parts: bool) -> list[Joint]:
    """The sources, and a query and a sink for each contender."""
    sources = [f"{kind}_{rows}" for rows in ("rows", *COLUMNS) for kind in ("clean", "dirty")] + ["names"]
    found = [Joint(name=name, type="source", catalog="raw", table=f"{name}.parquet") for name in sources]
    for case, joint in CASES.items():
        for contender in contenders(with_parts):
            name = table_of(case, contender)
            read = rows_of(contender, joint.rows)
            for number, template in enumerate(joint.texts):
                sql = template.format(t=read)
                text = good_of(sql) if contender == GOOD else sql
                read = f"{name}_query_{number}"
                origin = Origin(f"joints/{read}.sql", 1, {"sql": 1})
                found.append(Joint(name=read, type="sql", sql=text, origin=origin))
            mode = "fail" if contender in (FAIL, GOOD) else "quarantine"
            fields: Mapping[str, Any] = {"catalog": "results", "table": name, "on_error": mode}
            found.append(Joint(name=name, type="sink", upstream=(read,), **fields))
    return found


def contenders(with_parts: bool) -> tuple[str, ...]:
    return (FAIL, GOOD, CLEAN, DIRTY, FIRST) if with_parts else (FAIL, CLEAN, DIRTY, FIRST)


def rows_of(contender: str, rows: str) -> str:
    """The table that its joint reads."""
    return f"dirty_{rows}" if contender in (DIRTY, FIRST) else f"clean_{rows}"


def table_of(case: str, contender: str) -> str:
    return f"{case}_{contender.replace(' ', '_')}"


def good_of(sql: str) -> str:
    """The query of the good rows of a query that can be separated."""
    found = separate(sql, QueryLocation("j"))
    assert isinstance(found, RowErrors), sql
    return found.good


class Benchmark:
    """The tables of all contenders, and their runs."""

    def __init__(self, runtime: Runtime, spark: Any, folder: Path, options: argparse.Namespace) -> None:
        self.runtime = runtime
        self.spark = spark
        self.folder = folder
        self.options = options
        self.contenders = contenders(options.parts)
        self.cases = tuple(dict.fromkeys(options.case or CASES))

    def measure(self) -> None:
        print(
            f"\n- {self.options.rows:,} rows, {self.options.rounds} rounds after {self.options.warm_ups} to warm up\n"
            f"- Spark {self.spark.version} on {self.spark.sparkContext.master}, "
            f"Java {self.spark._jvm.System.getProperty('java.version')}, Python {platform.python_version()}, "
            f"{os.cpu_count()} cores\n- load average before: {load()}"
        )
        self.prepare()
        names = [table_of(case, contender) for case in self.cases for contender in self.contenders]
        first = {name: self.run(name, self.folder) for name in names}
        for case in self.cases:
            self.check(case, first)
        runs = take_turns(
            {name: partial(self.run, name) for name in names},
            self.options.rounds,
            warm_ups=self.options.warm_ups,
            scratch=self.folder / "scratch",
            between=self.spark._jvm.System.gc,  # nobody pays for another's garbage
            cpu_seconds=partial(cpu_seconds, self.spark),
        )
        print(f"- load average afterwards: {load()}\n\n{report(runs, self.cases, self.contenders)}")

    def prepare(self) -> None:
        """The tables that the joints read."""
        tables = {
            "clean_rows": ROWS.format(rows=self.options.rows, dirty="FALSE"),
            "dirty_rows": ROWS.format(rows=self.options.rows, dirty="TRUE"),
            "names": NAMES,
        }
        for rows in {CASES[case].rows for case in self.cases} & COLUMNS.keys():
            for kind, dirty in (("clean", "FALSE"), ("dirty", "TRUE")):
                columns = ", ".join(WIDE_COLUMN.format(i=i, dirty=dirty) for i in range(COLUMNS[rows]))
                tables[f"{kind}_{rows}"] = WIDE_ROWS.format(columns=columns, rows=self.options.wide_rows)
        for table, sql in tables.items():
            path = str(self.folder / f"data/{table}.parquet")
            self.spark.sql(sql).write.parquet(path)
            self.spark.read.parquet(path).createOrReplaceTempView(table)

    def run(self, name: str, _: Path) -> GroupResult:
        """The product's own run of the group."""
        if name.endswith(table_of("", FIRST)):
            self.remove(name)
        group = self.runtime.assembly.group(name)
        return run_group(self.runtime, group.name, group.joints, str(uuid.uuid4()))

    def remove(self, name: str) -> None:
        """All that is published under this name, so that the next run is the first one again."""
        for path in (self.folder / "results").glob(f"{name}*"):
            path.unlink()
        shutil.rmtree(self.folder / "results/.rivet" / name, ignore_errors=True)

    def check(self, case: str, results: Mapping[str, GroupResult]) -> None:
        """Exits where clean rows have errors or other results, or dirty rows not the errors that they should have."""
        wanted = CASES[case]
        for contender in self.contenders:
            result = results[table_of(case, contender)]
            rows = rows_of(contender, wanted.rows)
            errors = self.count(f"SELECT count(*) FROM {rows} WHERE {wanted.bad}")
            good = self.count(wanted.good.format(t=rows))
            found = result.errors.count if result.errors is not None else 0
            published = result.published.statistics.rows if result.published is not None else None
            if (found, published) != (errors, good) or (errors > 0) != (contender in (DIRTY, FIRST)):
                sys.exit(f"{case}, {contender}: {found} errors of {errors}, published {published} rows of {good}")
            print(f"- {case}, {contender}: {good:,} rows, {errors:,} errors")
        one, other = (self.published(case, contender) for contender in (FAIL, CLEAN))
        if self.count(f"SELECT count(*) FROM (({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one}))"):
            sys.exit(f"{case}: quarantining gives other rows")

    def published(self, case: str, contender: str) -> str:
        return f"SELECT * FROM parquet.`{self.folder / 'results' / table_of(case, contender)}`"

    def count(self, sql: str) -> int:
        return int(self.spark.sql(sql).first()[0])


Runs = Sequence[Measured[GroupResult]]


def report(runs: Mapping[str, Runs], cases: Sequence[str], contenders: Sequence[str]) -> str:
    """The figures as Markdown."""
    times = [
        (
            name.replace("_", ": ", 1).replace("_", " "),
            str(Spread.of(run.seconds for run in found)),
            str(Spread.of(run.seconds for run in writes(found))),
            f"{statistics.median(run.cpu_seconds for run in found):.2f}",
        )
        for name, found in runs.items()
    ]
    compared: list[tuple[str, ...]] = []
    verdicts: list[str] = []
    for case in cases:
        base = runs[table_of(case, FAIL)]
        for contender in contenders[1:]:
            found = runs[table_of(case, contender)]
            whole, write = ratios(found, base), ratios(writes(found), writes(base))
            compared.append((f"{case}: {contender} / {FAIL}, run", *quartiles(whole), mean_ratio(whole)))
            compared.append((f"{case}: {contender} / {FAIL}, write", *quartiles(write), mean_ratio(write)))
            if contender == CLEAN:
                verdicts.append(verdict(f"{case}, run", whole, CASES[case].most))
                verdicts.append(verdict(f"{case}, write", write, MOST_OF_WRITE))
    if {"chain", "one"} <= set(cases):
        for contender in (CLEAN, DIRTY):
            whole = ratios(runs[table_of("chain", contender)], runs[table_of("one", contender)])
            compared.append((f"chain / one: {contender}, run", *quartiles(whole), mean_ratio(whole)))
    return "\n\n".join(
        [
            markdown(("run", "seconds: median (min..max)", "of these the write", "CPU seconds"), times),
            markdown(("ratio, pair by pair", "first quartile", "median", "third quartile", "mean"), compared),
            phases(runs),
            "\n".join(verdicts),
        ]
    )


def writes(runs: Runs) -> list[Measured[GroupResult]]:
    """The same runs with the time of the phase that writes, which is that of rows and errors."""
    return [Measured(run.result.phases[WRITE], run.cpu_seconds, run.result) for run in runs]


def phases(runs: Mapping[str, Runs]) -> str:
    names = tuple(next(iter(runs.values()))[0].result.phases)
    rows = [
        (
            name.replace("_", ": ", 1).replace("_", " "),
            *(f"{statistics.median(r.result.phases[p] for r in found):.3f}" for p in names),
        )
        for name, found in runs.items()
    ]
    return markdown(("median seconds of a phase", *names), rows)


def verdict(name: str, found: Sequence[float], most: float) -> str:
    word = "met" if statistics.median(found) <= most else "missed"
    within = sum(ratio <= most for ratio in found)
    return f"- goal {word}: {name} takes at most {most} x {FAIL}; so do {within} of {len(found)} pairs"


if __name__ == "__main__":
    main()
