"""Independent groups at once: limit 4 against limit 1 in one process, and the ways to run the groups of a job.

Each of the first four groups sleeps for two seconds in one Spark task, so that the ratio shows what is not parallel.
The six groups of the second part sleep for one second each, all with limit 4; each way runs in a fresh process, whose
time includes every start of a JVM.

    .venv/bin/python benchmarks/parallel_groups.py --rounds 3
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import yaml
from measuring import Spread, markdown

from rivet_dagster import load_definitions

HERE = str(Path(__file__).parent)
FOLDERS = ("sources", "joints", "sinks")
PRELOADED = ["dagster", "rivet_dagster.definitions.load", "pyspark.sql.connect.session"]
FORK_SERVER = {"start_method": {"forkserver": {"preload_modules": PRELOADED}}}
WAYS: Mapping[str, Mapping[str, Any]] = {
    # A way is what the job's executor is (None: the project's own), and what its engine declares besides.
    "in one process, in threads": {"executor": None, "engine": {}},
    "multiprocess, a JVM a step": {"executor": dg.multiprocess_executor, "engine": {}},
    "the same without an archive of classes": {
        "executor": dg.multiprocess_executor,
        "engine": {"class_archive": False},
    },
    "multiprocess, one Spark server": {"executor": dg.multiprocess_executor, "engine": {"remote": "local"}},
    "the same by a fork server": {
        "executor": dg.multiprocess_executor.configured(FORK_SERVER),
        "engine": {"remote": "local"},
    },
}


def project(folder: Path, groups: int, seconds: float, limit: int, engine: Mapping[str, Any]) -> None:
    """Write a project of sleeping groups; the engine has as many task slots as the limit needs."""
    for name in FOLDERS:
        (folder / name).mkdir(parents=True)
    (folder / "rivet.yaml").write_text(yaml.safe_dump({"profiles": "profiles.yaml", **{n: n for n in FOLDERS}}))
    spark = {
        "name": "spark",
        "type": "pyspark",
        "catalogs": ["lake"],
        "master": "local[4]",
        "concurrency_limit": limit,
        "config": {"spark.ui.enabled": False, "spark.driver.memory": "1g"},
        **engine,
    }
    profile = {"catalogs": {"lake": {"type": "filesystem", "path": "lake"}}, "engines": [spark]}
    (folder / "profiles.yaml").write_text(yaml.safe_dump({"default": profile}))
    sleep = f"java_method('java.lang.Thread', 'sleep', {round(1000 * seconds)}L + id)"
    for number in range(groups):
        (folder / f"joints/group_{number}.sql").write_text(
            f"-- rivet:eager: true\nSELECT id, {sleep} AS slept FROM range(0, 1, 1, 1)\n"
        )


def job(folder: str, way: str) -> dg.JobDefinition:
    """Return the job over all groups; step processes call this, too."""
    executor = WAYS[way]["executor"]
    given = {} if executor is None else {"executor": executor}
    return load_definitions(folder, **given).resolve_job_def("all")


def run(folder: Path, way: str, instance: dg.DagsterInstance) -> float:
    """Run the job and return the seconds that it took."""
    made = dg.build_reconstructable_job(
        "parallel_groups", "job", (str(folder), way), reconstructor_working_directory=HERE
    )
    started = time.perf_counter()
    assert dg.execute_job(made, instance).success
    return time.perf_counter() - started


def limits(scratch: Path, rounds: int) -> dict[int, list[float]]:
    """Return the times of four groups by limit, on one warm Spark, in turn."""
    way = next(iter(WAYS))
    for limit in (1, 4):
        project(scratch / f"limit_{limit}", 4, 2, limit, {})
    times: dict[int, list[float]] = {1: [], 4: []}
    with dg.DagsterInstance.local_temp(tempfile.mkdtemp(dir=scratch)) as instance:
        run(scratch / "limit_4", way, instance)  # starts Spark
        for _ in range(rounds):
            for limit, found in times.items():
                found.append(run(scratch / f"limit_{limit}", way, instance))
    return times


def ways(scratch: Path, rounds: int) -> dict[str, list[float]]:
    """Return the times of six groups by the way that they run, each in a fresh process."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(rounds):
        for way, found in times.items():
            folder = scratch / uuid.uuid4().hex
            project(folder, 6, 1, 4, WAYS[way]["engine"])
            command = [sys.executable, __file__, "--one", str(folder), way]
            out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder).stdout
            found.append(float(out.splitlines()[-1]))
            if "remote" in WAYS[way]["engine"]:
                stop = [sys.executable, "-m", "rivet_dagster.cli.process", "-p", str(folder), "spark", "stop"]
                subprocess.run(stop, check=True, capture_output=True)
    return times


def main(arguments: Sequence[str]) -> None:
    """Measure and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=2, metavar=("PROJECT", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        folder, way = options.one
        with dg.DagsterInstance.local_temp(tempfile.mkdtemp(dir=folder)) as instance:
            print(run(Path(folder), way, instance))
        return
    with tempfile.TemporaryDirectory() as scratch:
        by_limit = limits(Path(scratch), options.rounds)
        ratio = statistics.median(by_limit[4]) / statistics.median(by_limit[1])
        rows = [[f"limit {limit}", str(Spread.of(found))] for limit, found in by_limit.items()]
        print(markdown(["4 groups of 2 s, warm", "seconds"], [*rows, ["ratio", f"{ratio:.2f}"]]))
        print()
        by_way = ways(Path(scratch), options.rounds)
        print(markdown(["6 groups of 1 s, cold", "seconds"], [[w, str(Spread.of(t))] for w, t in by_way.items()]))


if __name__ == "__main__":
    main(sys.argv[1:])
