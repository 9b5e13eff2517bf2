"""Record what dbt makes of random projects (``generated.py``), all of them built twice in one Spark.

    VENV/bin/python tests/dbt/record_random.py NUMBER... [--to FILE]

VENV is a virtual environment with dbt-core, dbt-spark and pyspark. FILE (``recorded/random.json``) gets, for each
number, a digest of the files, and the rows of the tables and the verdicts of the tests after each build.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path

from generated import Generated, generate
from record import HERE, _relations, _tests, lines

SETTINGS = {
    **json.loads((HERE / "history" / "spark.json").read_text()),
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
}
"""Those of `history`: Iceberg tables can be merged."""


def record(number: int) -> dict[str, object]:
    """Build one project twice, and return its record."""
    made = generate(number, SETTINGS)
    return {"digest": made.digest(), "builds": build(made)}


def build(made: Generated) -> list[dict[str, object]]:
    """Build a project with its files, those of the second build, and those of the third one if it has any."""
    from dbt.cli.main import dbtRunner

    folder = Path(made.name)
    builds: list[dict[str, object]] = []
    for files in filter(None, (made.files, made.later, made.last)):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        _forget_settings()
        here = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
        done = dbtRunner().invoke(["--quiet", "build", *here])
        if done.exception is not None:
            raise SystemExit(f"{made.name}: {done.exception}")
        wrong = [f"{r.node.name}: {r.message}" for r in done.result if str(r.status) == "error"]
        if wrong:
            print(made.name, *wrong, sep="\n  ")
        builds.append({"errors": wrong, "tests": _tests(folder), "tables": _tables(folder, made)})
    return builds


def _forget_settings() -> None:
    """Give the session the settings of a new one: dbt leaves the mode of overwriting behind."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.sql("reset")


def _tables(folder: Path, made: Generated) -> dict[str, object]:
    """Return the rows of the tables of models as texts."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    found: dict[str, object] = {}
    for schema, name in _relations(folder):
        if (name in made.reads and name.startswith("s")) or not spark.catalog.tableExists(f"{schema}.{name}"):
            continue
        if spark.catalog.getTable(f"{schema}.{name}").tableType == "VIEW":
            continue
        frame = spark.table(f"{schema}.{name}")
        columns = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        rows = frame.selectExpr(*(f"cast(`{name}` as string) as `{name}`" for name in columns)).collect()
        ordered = sorted(map(list, rows), key=lambda row: [(value is not None, value) for value in row])
        found[name] = {"columns": list(columns.items()), "rows": ordered}
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("numbers", nargs="+", type=int)
    parser.add_argument("--to", type=Path, default=HERE / "recorded" / "random.json")
    given = parser.parse_args()
    path = given.to.absolute()
    with tempfile.TemporaryDirectory() as location:
        os.chdir(location)
        versions = {name: version(name) for name in ("dbt-core", "dbt-spark", "pyspark")}
        projects = {}
        for number in given.numbers:
            projects[str(number)] = record(number)
            path.write_text(lines({"versions": versions, "projects": projects}, 6) + "\n")
