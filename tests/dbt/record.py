"""Record what dbt makes of the projects of this folder, for tests that compare it with what their imports make.

    python tests/dbt/record.py VENV [PROJECT...]

VENV is a virtual environment with dbt-core, dbt-spark and pyspark. Each project is built in a copy, again with the
files of ``<project>_later`` over its own, and with those of ``<project>_last`` where there are any.
``recorded/<project>.json`` gets the rows of all tables and views, and the verdicts of all tests, after each build.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).parent
PROJECTS = ("shop", "history", "cafe", "ledger", "toolkit")

SPARK = """
import json, sys
from pyspark.sql import SparkSession
settings = json.loads(sys.argv[3])
builder = SparkSession.builder.master("local[2]").enableHiveSupport()
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
todo = json.loads(sys.argv[1])
for name, table in todo.get("make", {}).items():
    spark.sql(f"create database if not exists {name.split('.')[0]}")
    columns = [column.split() for column in table["columns"].split(", ")]
    frame = spark.createDataFrame(table["rows"], [column for column, _ in columns])
    casts = [f"cast({column} as {kind}) as {column}" for column, kind in columns]
    frame.selectExpr(*casts).write.format("parquet").saveAsTable(name)
found = {}
for schema, table in todo.get("read", []):
    frame = spark.table(f"{schema}.{table}")
    columns = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    texts = [f"cast(`{name}` as string) as `{name}`" for name in columns]
    rows = [list(row) for row in frame.selectExpr(*texts).collect()]
    ordered = sorted(rows, key=lambda row: [(value is not None, value) for value in row])
    found[table] = {"columns": list(columns.items()), "rows": ordered}
if todo.get("read"):
    with open(sys.argv[2], "w") as file:
        json.dump(found, file)
spark.stop()
"""


def record(
    venv: Path, project: str, origin: Path = HERE, after_first: Callable[[Path], None] = lambda _: None
) -> dict[str, object]:
    """Return what dbt makes of one project, whose files are below ``origin``.

    ``after_first`` is called with the folder of the copy after the first build.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / project
        shutil.copytree(origin / project, copy)
        settings = json.loads((copy / "spark.json").read_text()) if (copy / "spark.json").exists() else {}
        sources = json.loads((copy / "sources.json").read_text()) if (copy / "sources.json").exists() else {}
        if sources:
            _spark(venv, copy, {"make": sources}, settings)
        builds = []
        for files in (project, f"{project}_later", f"{project}_last"):
            if not (origin / files).is_dir():
                continue
            shutil.copytree(origin / files, copy, dirs_exist_ok=True)
            command = [venv / "bin" / "dbt", "build", "--profiles-dir", ".", "--no-use-colors"]
            done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
            results = copy / "target" / "run_results.json"
            if not results.exists():
                raise SystemExit(done.stdout + done.stderr)
            print(done.stdout[-1500:], file=sys.stderr)
            builds.append({"tests": _tests(copy), "tables": _spark(venv, copy, {"read": _relations(copy)}, settings)})
            if len(builds) == 1:
                after_first(copy)
        versions = subprocess.run(
            [venv / "bin" / "python", "-c", _VERSIONS], capture_output=True, text=True, check=True
        ).stdout.strip()
        return {"versions": json.loads(versions), "builds": builds}


def lines(value: object, depth: int = 5) -> str:
    """Return JSON with a line for each key and item, down to a depth: that of the tables, and of their rows."""
    if depth and isinstance(value, dict):
        return "{\n" + ",\n".join(f"{json.dumps(key)}: {lines(value[key], depth - 1)}" for key in sorted(value)) + "}"
    if depth and isinstance(value, list):
        return "[\n" + ",\n".join(lines(item, depth - 1) for item in value) + "]"
    return json.dumps(value)


_VERSIONS = """
import json
from importlib.metadata import version
print(json.dumps({name: version(name) for name in ("dbt-core", "dbt-spark", "pyspark")}))
"""


def _relations(copy: Path) -> list[list[str]]:
    """Return the schema and the name of each table and view."""
    manifest = json.loads((copy / "target" / "manifest.json").read_text())
    stored = [
        node
        for node in manifest["nodes"].values()
        if node["resource_type"] in ("model", "seed", "snapshot") and node["config"]["materialized"] != "ephemeral"
    ]
    return sorted([node["schema"], node["alias"]] for node in stored)


def _tests(copy: Path) -> dict[str, str]:
    """Return the verdict of each test, by its name in the manifest."""
    manifest = json.loads((copy / "target" / "manifest.json").read_text())
    results = json.loads((copy / "target" / "run_results.json").read_text())["results"]
    found = {}
    for result in results:
        node = manifest["nodes"].get(result["unique_id"])
        if node is not None and node["resource_type"] == "test":
            found[_name(node)] = result["status"]
    return dict(sorted(found.items()))


def _name(node: dict) -> str:
    """Return what identifies a test here and in the report of an import."""
    meta = node.get("test_metadata")
    if meta is None:
        return node["name"]
    attached = (node.get("attached_node") or node["depends_on"]["nodes"][-1]).split(".")
    of = "_".join(attached[2:] if attached[0] != "source" else attached[3:])
    macro = meta["name"] if meta["namespace"] is None else f"{meta['namespace']}_{meta['name']}"
    return f"{macro}|{of}|{node.get('column_name') or ''}|{node['config']['severity'].lower()}"


def _spark(venv: Path, folder: Path, todo: dict, settings: dict) -> dict:
    out = folder / "tables.json"
    command = [venv / "bin" / "python", "-c", SPARK, json.dumps(todo), str(out), json.dumps(settings)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return json.loads(out.read_text()) if out.exists() else {}


if __name__ == "__main__":
    venv = Path(sys.argv[1]).absolute()
    for name in sys.argv[2:] or PROJECTS:
        path = HERE / "recorded" / f"{name}.json"
        path.write_text(lines(record(venv, name)) + "\n")
