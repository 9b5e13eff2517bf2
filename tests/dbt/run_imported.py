"""Import the projects of this folder, run each as often as dbt did, and write what dbt's record has of them.

    python tests/dbt/run_imported.py FOLDER PROJECT[:BUILDS]... [RECORD.json[:NUMBER,...]]

PROJECT may be ``combinations`` or ``packages``, which are generated (combinations.py, packages.py).

BUILDS is how often a project is run, with its first, later and last seeds; without it as often as dbt did. RECORD.json
is a record of random projects (record_random.py), which are generated anew, or those of some NUMBERs. FOLDER gets a
copy of each project, its import, and ``<project>.json``: for each run the exit code, the rows of the tables, and the
checks and their violations, each by the name of dbt's test.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
import sys
from pathlib import Path

import combinations
import packages
from generated import Generated, generate
from record_random import SETTINGS

from rivet_dagster.catalogs.spark.names import session_settings
from rivet_dagster.cli.main import main

HERE = Path(__file__).parent
GENERATED = {combinations.NAME: combinations.combine, packages.NAME: packages.write_models}
CONFIG = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
}
PROFILE = """default:
  catalogs:
    warehouse: {{type: filesystem, path: warehouse}}
    seeds: {{type: filesystem, path: seeds, format: csv}}
    session: {{type: spark, metastore: {folder}/metastore, warehouse: {folder}/hive}}
  engines:
    - name: spark
      type: pyspark
      catalogs: [warehouse, seeds, session]
      master: local[2]
      config: {config}
  default_engine: spark
"""


def command(*arguments: object) -> tuple[int, dict]:
    """Return the exit code of a command, and its JSON."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*map(str, arguments), "--format", "json"])
    return code, json.loads(out.getvalue())


def run(folder: Path, project: str, origin: Path = HERE, builds: int = 3) -> None:
    """Import and run one project, whose files are below ``origin``, at most ``builds`` times."""
    old, new = folder / "dbt" / project, folder / "new" / project
    shutil.copytree(origin / project, old)
    code, report = command("import", "dbt", old, "--to", new)
    names = {(test["joint"], test["check"]): name for name, test in zip(_names(report), report["tests"], strict=True)}
    (new / "profiles.yaml").write_text(PROFILE.format(folder=folder, config=json.dumps(CONFIG)))
    make_sources(folder, old)
    runs = []
    for changed in (None, origin / f"{project}_later", origin / f"{project}_last")[:builds]:
        if changed is not None:
            if not changed.is_dir():
                continue
            # A run on changed seeds: the import of the changed project has them, with the columns that they have now.
            shutil.copytree(changed, old, dirs_exist_ok=True)
            shutil.rmtree(folder / "again", ignore_errors=True)
            command("import", "dbt", old, "--to", folder / "again")
            for kind in ("seeds", "sources"):
                shutil.copytree(folder / "again" / kind, new / kind, dirs_exist_ok=True)
        exit_code, result = command("-p", new, "run", "--no-fail-fast")
        judged = {_name(names, c): c for c in result["checks"] if c["kind"] != "freshness"}
        runs.append(
            {
                "exit": exit_code,
                "errors": result.get("errors"),
                "checks": {name: _verdict(check) for name, check in judged.items()},
                "violations": {name: check["violations"] for name, check in judged.items()},
                "tables": tables(new),
            }
        )
    content = {"import": code, "report": report, "runs": runs}
    (folder / f"{project}.json").write_text(json.dumps(content, indent=1))


def _verdict(check: dict) -> str:
    return "pass" if check["passed"] else "warn" if check["severity"] == "warn" else "fail"


def _name(names: dict[tuple[str, str], str], check: dict) -> str:
    """Return the name of a check in the record, where the severity is part of that of a generic test."""
    name = names[check["joint"], check["check"]]
    return f"{name}|{check['severity']}" if "|" in name else name


def _names(report: dict) -> list[str]:
    """Return the name that the record has for each test of a report, but for the severity."""
    found = []
    for test in report["tests"]:
        name = NAMED.get(test["name"]) or test["name"]
        kind = next((kind for kind in KINDS if name.startswith(f"{kind}_{test['joint']}")), None)
        if kind is None:
            found.append(name)
            continue
        column = name.removeprefix(f"{kind}_{test['joint']}").removeprefix("_")
        found.append(f"{kind}|{test['joint']}|{column}")
    return found


NAMED = {"one_key_each": "unique_customers_customer_key"}
KINDS = (
    *("accepted_values", "at_least", "at_most", "not_null", "relationships", "tools_rows_at_least", "unique"),
    *("handy_is_true", "handy_rows_between"),
)


def make_sources(folder: Path, old: Path) -> None:
    """Make the tables of sources in Hive, by the session that the runs will have."""
    declared = json.loads((old / "sources.json").read_text()) if (old / "sources.json").exists() else {}
    from pyspark.sql import SparkSession

    settings = session_settings({"metastore": f"{folder}/metastore", "warehouse": f"{folder}/hive"})
    builder = SparkSession.builder.master("local[2]")
    for key, value in {**settings, **CONFIG}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    for name, table in declared.items():
        spark.sql(f"create database if not exists {name.split('.')[0]}")
        columns = [column.split() for column in table["columns"].split(", ")]
        selected = [f"cast({column} as {kind}) as {column}" for column, kind in columns]
        frame = spark.createDataFrame(table["rows"], [column for column, _ in columns])
        frame.selectExpr(*selected).write.format("parquet").saveAsTable(name)


def tables(new: Path) -> dict:
    """Return the rows of the published tables as texts, as dbt's record has them, by one query."""
    from pyspark.sql import DataFrame, SparkSession, functions

    spark = SparkSession.builder.getOrCreate()
    found, frames = {}, []
    for path in sorted((new / "warehouse").iterdir()) if (new / "warehouse").is_dir() else ():
        if path.name.startswith("."):
            continue
        frame = spark.read.parquet(str(path.resolve()))
        columns = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        texts = ", ".join(f"cast(`{name}` as string)" for name in columns)
        frames.append(frame.select(functions.lit(path.name), functions.expr(f"array({texts})")))
        found[path.name] = {"columns": list(columns.items()), "rows": []}
    for table, row in functools.reduce(DataFrame.unionAll, frames).collect() if frames else ():
        found[table]["rows"].append(list(row))
    for table in found.values():
        table["rows"].sort(key=lambda row: [(value is not None, value) for value in row])
    return found


def write_random(folder: Path, record: Path, numbers: str) -> list[Generated]:
    """Write the projects of a record, all of them or some ``numbers``, as they are generated now, and return them."""
    chosen = numbers.split(",") if numbers else json.loads(record.read_text())["projects"]
    made = [generate(int(number), SETTINGS) for number in chosen]
    for each in made:
        write_generated(folder, each)
    return made


def write_generated(folder: Path, made: Generated) -> None:
    """Write the folders of a generated project, and of its later files."""
    for name, files in ((made.name, made.files), (f"{made.name}_later", made.later), (f"{made.name}_last", made.last)):
        for file, text in files.items():
            (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / name / file).write_text(text)


if __name__ == "__main__":
    folder = Path(sys.argv[1]).absolute()
    for argument in sys.argv[2:]:
        name, _, some = argument.partition(":")
        if name in GENERATED:
            write_generated(folder / "generated", GENERATED[name]())
            run(folder, name, folder / "generated", int(some or 3))
            continue
        if not name.endswith(".json"):
            run(folder, name, builds=int(some or 3))
            continue
        for made in write_random(folder / "random", Path(name), some):
            run(folder, made.name, folder / "random")
            path = folder / f"{made.name}.json"
            after = {model: sorted(made.after({model})) for model in made.reads}
            path.write_text(json.dumps(json.loads(path.read_text()) | {"digest": made.digest(), "after": after}))
