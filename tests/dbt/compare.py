"""A table of project, model and run: the rows that dbt makes beside those of the imported project, and its tests.

    python tests/dbt/compare.py [--dbt VENV | --recorded] [PROJECT...]

VENV is a virtual environment with dbt-core, dbt-spark and pyspark; without it one is made, of what the registry has.
A project is one of PROJECTS, or `random_N`, which is generated from the number N. dbt builds each of them as often as
there are seeds for it, and the import is run as often. After dbt's first build, `import dbt --verify` compares the two.

The rows of a test are those that violate it. Those of dbt are known after its first build, of tests that have a name.

With --recorded dbt does not run: its rows are those of ``recorded/``, and nothing is verified. There are none of
`packages`, whose rows depend on the day.
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

import packages
from combinations import NAME as COMBINATIONS
from combinations import combine
from generated import Generated, generate
from record import HERE, record
from record_random import SETTINGS
from run_imported import write_generated

sys.path[:0] = [str(HERE.parent)]
from support.dbt import compared  # noqa: E402

PROJECTS = (
    *("cafe", "ledger", "toolkit", packages.NAME),
    *("shop", "history", COMBINATIONS, "random_2", "random_14", "random_17"),
)

Row = tuple[str, str, str, str, str, str]
TITLES: Row = ("project", "model or test", "run", "rows of dbt", "rows here", "verdict")


def make_environment(folder: Path) -> Path:
    """Make a virtual environment with the dbt that was recorded and the Spark of this one, and return it."""
    venv = folder / "dbt"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    # A newer dbt-core fetches a parser that is not in the registry.
    versions = json.loads((HERE / "recorded" / "cafe.json").read_text())["versions"]
    dbt = [f"dbt-core=={versions['dbt-core']}", f"dbt-spark[session]=={versions['dbt-spark']}"]
    pyspark = f"pyspark=={version('pyspark')}"
    subprocess.run([venv / "bin" / "pip", "install", "--quiet", *dbt, pyspark], check=True)
    return venv


def write_project(folder: Path, project: str) -> Path:
    """Return the folder that has a project and its later seeds; one that is generated is written to ``folder``."""
    if (HERE / project).is_dir():
        return HERE
    made = generated_project(project)
    write_generated(folder, made)
    if project == packages.NAME:
        packages.install(folder / project)
    return folder


def generated_project(project: str) -> Generated:
    """Return a project that is generated."""
    if project == packages.NAME:
        return packages.write_models()
    made = combine() if project == COMBINATIONS else generate(int(project.removeprefix("random_")), SETTINGS)
    made.files["spark.json"] = json.dumps(SETTINGS)
    return made


def build_with_dbt(venv: Path, folder: Path, project: str) -> tuple[list[Any], list[Any], dict[str, int | None]]:
    """Return the builds of dbt; after the first one the verdicts of `--verify`, and the violations of each test."""
    verified: list[Any] = []
    violations: dict[str, int | None] = {}

    def verify(copy: Path) -> None:
        results = json.loads((copy / "target" / "run_results.json").read_text())["results"]
        nodes = json.loads((copy / "target" / "manifest.json").read_text())["nodes"]
        for result in results:
            if result["unique_id"].startswith("test."):
                violations[nodes[result["unique_id"]]["name"]] = result["failures"]
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
    return builds, verified, violations


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
    """Yield a row for each table, test and run, and one for each table that `--verify` has judged."""
    builds, verified, violations = (
        (recorded_builds(project), [], {}) if venv is None else build_with_dbt(venv, folder, project)
    )
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
        yield from compare_tests(project, number, build["tests"], violations if number == 1 else {}, run)


def compare_tests(
    project: str, number: int, dbt: Mapping[str, str], violations: Mapping[str, int | None], run: Mapping[str, Any]
) -> Iterator[Row]:
    """Yield a row for each test that both have judged: by the violations that dbt has counted, else by its status."""
    for test, status in run["checks"].items():
        ours = run["violations"][test]
        if test in violations:
            theirs = violations[test]
            is_equal = bool(ours) == bool(theirs) if None not in (ours, theirs) else False
            verdict = "differs" if not is_equal else "equal" if ours == theirs else "equal, other violations"
            yield project, test, f"{number}, test", _count(theirs), _count(ours), verdict
        elif test in dbt:
            verdict = "equal" if dbt[test] == status else f"differs: {dbt[test]} in dbt, {status} here"
            yield project, test, f"{number}, test", "", _count(ours), verdict
        else:
            yield project, test, f"{number}, test", "", _count(ours), "of no known name in dbt"


def _count(rows: int | None) -> str:
    return "" if rows is None else str(rows)


def _verdict(table: Mapping[str, Any]) -> str:
    if table["verdict"] != "differs":
        return "; ".join((table["verdict"].replace("_", " "), *table["reasons"]))
    rows, columns = table["rows"], ", ".join([*table["columns"], *(each["column"] for each in table["schema"])])
    counts = f"differs: +{rows['added']} -{rows['removed']} ~{rows['changed']}{f' in {columns}' if columns else ''}"
    return "; ".join((counts, *table["reasons"]))


def main() -> None:
    """Print the table as Markdown, and how often each verdict was given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("projects", nargs="*", metavar="PROJECT")
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
        projects = [name for name in PROJECTS if not (given.recorded and name == packages.NAME)]
        for project in given.projects or projects:
            for row in compare(project, venv, folder):
                print(f"| {' | '.join(cell.replace('|', ' ') for cell in row)} |", flush=True)
                how = "--verify" if row[2] == "--verify" else "tests" if row[2].endswith("test") else "runs"
                counted[how, row[-1].partition(":")[0].partition(";")[0]] += 1
    print()
    for (how, verdict), number in sorted(counted.items()):
        print(f"{how}: {number} {verdict}")


if __name__ == "__main__":
    main()
