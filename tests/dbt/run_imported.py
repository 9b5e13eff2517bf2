"""Import the projects of this folder, run each as often as dbt did, and write what dbt's record has of them.

    python tests/dbt/run_imported.py FOLDER PROJECT... [RECORD.json]

RECORD.json is a record of random projects (record_random.py), which are generated anew. FOLDER gets a copy of each
project, its import, and ``<project>.json``: for each run the exit code, the rows of the tables, and the checks, each by
the name of dbt's test.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from pathlib import Path

from generated import Generated, generate
from record_random import SETTINGS

from rivet_dagster.catalogs.spark.options import session_settings
from rivet_dagster.cli.main import main

HERE = Path(__file__).parent
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


def run(folder: Path, project: str, origin: Path = HERE) -> None:
    """Import and run one project, whose files are below ``origin``."""
    old, new = folder / "dbt" / project, folder / "new" / project
    shutil.copytree(origin / project, old)
    code, report = command("import", "dbt", old, "--to", new)
    names = {(test["joint"], test["check"]): name for name, test in zip(_names(report), report["tests"], strict=True)}
    (new / "profiles.yaml").write_text(PROFILE.format(folder=folder, config=json.dumps(CONFIG)))
    make_sources(folder, old)
    runs = []
    for changed in (None, origin / f"{project}_later", origin / f"{project}_last"):
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
        checks = {_name(names, c): _verdict(c) for c in result["checks"] if c["kind"] != "freshness"}
        runs.append({"exit": exit_code, "errors": result.get("errors"), "checks": checks, "tables": tables(new)})
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
KINDS = ("accepted_values", "at_least", "at_most", "not_null", "relationships", "tools_rows_at_least", "unique")


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
    """Return the rows of the published tables as texts, as dbt's record has them."""
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    found = {}
    for path in sorted((new / "warehouse").iterdir()) if (new / "warehouse").is_dir() else ():
        if path.name.startswith("."):
            continue
        frame = spark.read.parquet(str(path.resolve()))
        columns = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
        rows = frame.selectExpr(*(f"cast(`{name}` as string) as `{name}`" for name in columns)).collect()
        ordered = sorted(map(list, rows), key=lambda row: [(value is not None, value) for value in row])
        found[path.name] = {"columns": list(columns.items()), "rows": ordered}
    return found


def write_random(folder: Path, record: Path) -> list[Generated]:
    """Write the projects of a record, as they are generated now, and return them."""
    made = [generate(int(number), SETTINGS) for number in json.loads(record.read_text())["projects"]]
    for each in made:
        for name, files in ((each.name, each.files), (f"{each.name}_later", each.later)):
            for file, text in files.items():
                (folder / name / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / name / file).write_text(text)
    return made


if __name__ == "__main__":
    folder = Path(sys.argv[1]).absolute()
    for name in sys.argv[2:]:
        if not name.endswith(".json"):
            run(folder, name)
            continue
        for made in write_random(folder / "random", Path(name)):
            run(folder, made.name, folder / "random")
            path = folder / f"{made.name}.json"
            after = {model: sorted(made.after({model})) for model in made.reads}
            path.write_text(json.dumps(json.loads(path.read_text()) | {"digest": made.digest(), "after": after}))
