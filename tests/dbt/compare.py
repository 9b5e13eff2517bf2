"""A table of project, model and run: the rows that dbt makes beside those of the imported project.

    python tests/dbt/compare.py [--dbt VENV | --recorded] [PROJECT...]

VENV is a virtual environment with dbt-core, dbt-spark and pyspark; without it one is made, of what the registry has.
A project is one of PROJECTS, or `random_N`, which is generated from the number N. dbt builds each of them as often as
there are seeds for it, and the import is run as often. After dbt's first build, `import dbt --verify` compares the two.

With --recorded dbt does not run: its rows are those of ``recorded/``, and nothing is verified.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from combinations import NAME as COMBINATIONS
from combinations import combine
from generated import generate
from record import HERE, record
from record_random import SETTINGS
from run_imported import write_generated

sys.path[:0] = [str(HERE.parent)]
from support.dbt import compared  # noqa: E402

PROJECTS = ("cafe", "ledger", "toolkit", "shop", "history", COMBINATIONS, "random_2", "random_14", "random_17")

Row = tuple[str, str, str, str, str, str]
TITLES: Row = ("project", "model", "run", "rows of dbt", "rows here", "verdict")


def make_environment(folder: Path) -> Path:
    """Make a virtual environment with dbt for the Spark of this one, and return it."""
    venv = folder / "dbt"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    packages = ["dbt-core", "dbt-spark[session]", f"pyspark=={version('pyspark')}"]
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", *packages], check=True)
    return venv


def write_project(folder: Path, project: str) -> Path:
    """Return the folder that has a project and its later seeds; one that is generated is written to ``folder``."""
    if (HERE / project).is_dir():
        return HERE
    made = combine() if project == COMBINATIONS else generate(int(project.removeprefix("random_")), SETTINGS)
    made.files["spark.json"] = json.dumps(SETTINGS)
    write_generated(folder, made)
    return folder


def build_with_dbt(venv: Path, folder: Path, project: str) -> tuple[list[Any], list[Any]]:
    """Return the builds of dbt, and the verdicts of `--verify` after the first one."""
    verified: list[Any] = []

    def verify(copy: Path) -> None:
        command = ["import", "dbt", copy, "--to", folder / "verified" / project, "--verify", "dev", "--format", "json"]
        done = subprocess.run(
            [sys.executable, "-m", "rivet_dagster.cli.process", *map(str, command)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 2):
            raise SystemExit(done.stdout + done.stderr)
        verified.extend(json.loads(done.stdout)["verification"]["tables"])

    builds: Any = record(venv, project, write_project(folder / "origins", project), verify)["builds"]
    return builds, verified


def recorded_builds(project: str) -> list[Any]:
    """Return what has been recorded of dbt's builds."""
    number = project.removeprefix("random_")
    if number != project:
        builds: list[Any] = json.loads((HERE / "recorded" / "random.json").read_text())["projects"][number]["builds"]
        return builds
    builds = json.loads((HERE / "recorded" / f"{project}.json").read_text())["builds"]
    return builds


def run_here(folder: Path, project: str, builds: int) -> tuple[list[Any], list[Any]]:
    """Return the runs of the imported project, and what the report says of its models and snapshots."""
    numbered = f"{HERE / 'recorded' / 'random.json'}:{project.removeprefix('random_')}"
    given = numbered if project.startswith("random_") else f"{project}:{builds}"
    subprocess.run([sys.executable, HERE / "run_imported.py", folder / "runs", given], check=True)
    result = json.loads((folder / "runs" / f"{project}.json").read_text())
    return result["runs"], [*result["report"]["models"], *result["report"]["others"]]


def compare(project: str, venv: Path | None, folder: Path) -> Iterator[Row]:
    """Yield a row for each table and run, and one for each that `--verify` has judged."""
    builds, verified = (recorded_builds(project), []) if venv is None else build_with_dbt(venv, folder, project)
    (folder / "runs").mkdir(exist_ok=True)
    runs, entries = run_here(folder, project, len(builds))
    left_out = {entry["name"]: entry["reasons"] for entry in entries if entry["status"] == "left_out"}
    for table in verified:
        counts = (_count(table.get("rows_in_dbt")), _count(table.get("rows_here")))
        yield project, table["name"], "--verify", *counts, _verdict(table)
    for number, (build, run) in enumerate(zip(builds, runs, strict=True), 1):
        for table, dbt in build["tables"].items():
            ours = run["tables"].get(table)
            counts = (_count(len(dbt["rows"])), _count(None if ours is None else len(ours["rows"])))
            if ours is not None:
                verdict = "equal" if compared(dbt) == compared(ours) else "differs"
            else:
                verdict = "left out" if table in left_out else "not stored"
            yield project, table, str(number), *counts, verdict


def _count(rows: int | None) -> str:
    return "" if rows is None else str(rows)


def _verdict(table: Mapping[str, Any]) -> str:
    if table["verdict"] != "differs":
        return "; ".join((table["verdict"].replace("_", " "), *table["reasons"]))
    rows, columns = table["rows"], ", ".join([*table["columns"], *(each["column"] for each in table["schema"])])
    return f"differs: +{rows['added']} -{rows['removed']} ~{rows['changed']}{f' in {columns}' if columns else ''}"


def main() -> None:
    """Print the table as Markdown, and how often each verdict was given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="*", default=PROJECTS)
    parser.add_argument("--dbt", type=Path, metavar="VENV")
    parser.add_argument("--recorded", action="store_true")
    given = parser.parse_args()
    os.environ.pop("DAGSTER_HOME", None)
    counted: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as location:
        folder = Path(location)
        venv = None
        if not given.recorded:
            venv = given.dbt.absolute() if given.dbt is not None else make_environment(folder)
        print(f"| {' | '.join(TITLES)} |\n|{'---|' * len(TITLES)}")
        for project in given.projects:
            for row in compare(project, venv, folder):
                print(f"| {' | '.join(row)} |", flush=True)
                how = "--verify" if row[2] == "--verify" else "runs"
                counted[how, row[-1].partition(":")[0].partition(";")[0]] += 1
    print()
    for (how, verdict), number in sorted(counted.items()):
        print(f"{how}: {number} {verdict}")


if __name__ == "__main__":
    main()
