"""What a group of a few rows costs in a run of many, beyond its statement by hand.

Each contender is a whole process of many groups, and one of a single group; the difference, divided by the number of
groups, is what a further group costs. ``by hand`` is one script that writes the same queries one after another in one
Spark session, each to Parquet files. ``plain``, ``quarantine`` and ``checks`` are `rivet-dagster run` of as many
published joints: without more, with ``on_error: quarantine`` over a cast that no row fails, and with two checks each.

    .venv/bin/python benchmarks/small_groups.py --groups 400 --rounds 3
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from measuring import Spread, markdown
from one_session import PROFILES, load

HAND = "by hand"
GOALS: Mapping[str, float] = {"plain": 0.12, "quarantine": 0.2, "checks": 0.18}
"""What a group may cost beyond its statement by hand, in seconds."""

HEADERS: Mapping[str, str] = {
    "plain": "-- rivet:catalog: results\n",
    "quarantine": "-- rivet:catalog: results\n-- rivet:on_error: quarantine\n",
    "checks": "-- rivet:catalog: results\n-- rivet:assert: not_null(id)\n-- rivet:assert: expression(doubled >= id)\n",
}

SCRIPT = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]")
for key, value in {config!r}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
for number in range(int(sys.argv[1])):
    spark.read.parquet("data/numbers.parquet").createOrReplaceTempView("numbers")
    spark.sql({query!r}.format(number=number)).write.parquet(f"results/group_{{number}}")
spark.stop()
"""

QUERY = "SELECT id, CAST(text AS INT) * 2 AS doubled, {number} AS number FROM numbers WHERE id % 2 = 0"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--groups", type=int, default=400, help="groups of a run (default 400)")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds (default 3)")
    parser.add_argument("--only", nargs="+", choices=GOALS, default=list(GOALS), help="these beside the one by hand")
    options = parser.parse_args()
    print(f"- {options.groups} groups, {options.rounds} rounds; load average before: {load()}")
    costs: dict[str, list[float]] = {name: [] for name in (HAND, *options.only)}
    for _ in range(options.rounds):
        for name, found in costs.items():
            many, one = seconds(name, options.groups), seconds(name, 1)
            found.append((many - one) / (options.groups - 1))
            print(f"  {name}: {many:.1f} s, of one group {one:.1f} s", flush=True)
    print(f"- load average afterwards: {load()}\n")
    print(markdown(("contender", "seconds a group", "beyond by hand", "goal"), [row(n, costs) for n in costs]))


def seconds(name: str, groups: int) -> float:
    """Return how long a contender's process takes in a new folder."""
    with tempfile.TemporaryDirectory(prefix="small-groups-") as scratch:
        folder = Path(scratch)
        (folder / "data").mkdir()
        numbers = pa.table({"id": range(20), "text": [str(n) for n in range(20)]})
        pq.write_table(numbers, folder / "data/numbers.parquet")
        if name == HAND:
            config = PROFILES["default"]["engines"][0]["config"]
            (folder / "run.py").write_text(SCRIPT.format(config=config, query=QUERY))
            command = [sys.executable, "run.py", str(groups)]
        else:
            write_project(folder, name, groups)
            command = [sys.executable, "-m", "rivet_dagster.cli.process", "run"]
        environ = {key: value for key, value in os.environ.items() if key != "DAGSTER_HOME"}
        started = time.perf_counter()
        ended = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True)
        taken = time.perf_counter() - started
        if ended.returncode:
            sys.exit(f"{name}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        missing = [n for n in range(groups) if not (folder / f"results/group_{n}").exists()]
        if missing:
            sys.exit(f"{name} has not written the groups {missing}")
        return taken


def write_project(folder: Path, name: str, groups: int) -> None:
    """Write the source and the published joints."""
    for part in ("sources", "joints", "sinks"):
        (folder / part).mkdir()
    (folder / "rivet.yaml").write_text(
        yaml.safe_dump({"profiles": "profiles.yaml", "sources": "sources", "joints": "joints", "sinks": "sinks"})
    )
    (folder / "profiles.yaml").write_text(yaml.safe_dump(PROFILES))
    (folder / "sources/numbers.yaml").write_text(
        yaml.safe_dump({"name": "numbers", "type": "source", "catalog": "raw", "table": "numbers.parquet"})
    )
    for number in range(groups):
        text = HEADERS[name] + QUERY.format(number=number) + "\n"
        (folder / f"joints/group_{number}.sql").write_text(text)


def row(name: str, costs: Mapping[str, list[float]]) -> tuple[str, ...]:
    if name == HAND:
        return name, f"{Spread.of(costs[name])}", "", ""
    beyond = Spread.of(ours - hand for ours, hand in zip(costs[name], costs[HAND], strict=True))
    return name, f"{Spread.of(costs[name])}", f"{beyond}", f"{GOALS[name]}"


if __name__ == "__main__":
    main()
