"""Lazy imports: the package imports nothing heavy, definitions neither Spark nor a JVM."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.example import EXAMPLE
from support.folders import ProjectFolder, sink, source

HEAVY = ("dagster", "dagster_pyspark", "pyspark", "py4j", "sqlglot", "pyarrow", "pandas", "polars", "pyiceberg")

REPORT = f"""
import json, os, sys
found = sorted(set(sys.modules) & set({HEAVY!r}))
threads = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else []
children = [thread for thread in threads if open(f"/proc/self/task/{{thread}}/children").read()]
print(json.dumps([found, children]))
"""


def loaded_by(program: str, folder: Path) -> tuple[set[str], list[str]]:
    """Return the heavy packages that a fresh process has imported at its end, and its threads and child processes."""
    done = subprocess.run(
        [sys.executable, "-c", program + REPORT], cwd=folder, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found, children = json.loads(done.stdout.splitlines()[-1])
    return set(found), children


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "data/orders.csv": "id\n1\n",
        "sources/orders.yaml": source("orders", "id INT"),
        "joints/big.sql": "-- rivet:assert: not_null(id)\nSELECT * FROM orders",
        "joints/made.py": "import no_such_module\nraise SystemExit\ndef transform(big):\n    return big\n",
        "sinks/out.yaml": sink("out", "made", "big"),
    }
    return ProjectFolder(tmp_path / "project", files).root


def test_importing_the_package_loads_no_heavy_library(tmp_path):
    assert loaded_by("import rivet_dagster\n", tmp_path) == (set(), [])


def test_loading_definitions_imports_neither_spark_nor_a_jvm_nor_a_users_module(folder):
    found, children = loaded_by(
        "from rivet_dagster import load_definitions\n"
        "defs = load_definitions('.')\n"
        "repository = defs.get_repository_def()\n"
        "assert repository.has_job('all')\n"
        "defs.resolve_asset_graph().get_all_asset_keys()\n",
        folder,
    )
    assert found & {"pyspark", "py4j", "dagster_pyspark", "pandas", "polars"} == set()
    assert {"dagster", "sqlglot"} <= found
    assert children == []


def test_definitions_on_iceberg_import_neither_spark_nor_pyiceberg(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path, ignore=shutil.ignore_patterns("data", ".rivet"), dirs_exist_ok=True)
    found, children = loaded_by(
        "from rivet_dagster import load_definitions\n"
        "defs = load_definitions('.', profile='iceberg')\n"
        "defs.resolve_asset_graph().get_all_asset_keys()\n",
        tmp_path,
    )
    assert found & {"pyspark", "py4j", "dagster_pyspark", "pyiceberg", "pandas", "polars"} == set()
    assert children == []


def test_listing_components_loads_no_spark(folder):
    found, children = loaded_by(
        "import rivet_dagster\n"
        "names = dir(rivet_dagster)\n"
        "assert {'RivetProjectComponent', 'rivet_assets'} < set(names)\n"
        "assert all(hasattr(rivet_dagster, name) for name in names)\n",
        folder,
    )
    assert found & {"pyspark", "py4j", "dagster_pyspark", "pandas", "polars"} == set()
    assert children == []


def test_a_component_with_a_plan_needs_neither_spark_nor_the_files(folder):
    found, children = loaded_by(
        "import sys\n"
        "from pathlib import Path\n"
        "import dagster as dg\n"
        "from rivet_dagster import RivetProjectComponent\n"
        "component = RivetProjectComponent(project='.')\n"
        "component.write_state_to_path(Path('state'))\n"
        "Path('rivet.yaml').unlink()\n"
        "defs = component.build_defs_from_state(dg.ComponentTree.for_test().load_context, Path('state'))\n"
        "dg.Definitions.validate_loadable(defs)\n",
        folder,
    )
    assert found & {"pyspark", "py4j", "dagster_pyspark", "pandas", "polars"} == set()
    assert children == []


def test_sensor_ticks_load_neither_spark_nor_a_jvm(folder):
    target = "target: 'key:\"out\"'"
    (folder / "rivet.yaml").write_text(
        (folder / "rivet.yaml").read_text() + "dagster:\n  sensors:\n"
        f"    a: {{type: files, source: orders, {target}}}\n"
        f"    b: {{type: source_changed, sources: [orders], {target}}}\n"
        f"    c: {{type: after_success, monitored: 'key:\"big\"', {target}}}\n"
    )
    found, children = loaded_by(
        "import dagster as dg\n"
        "from rivet_dagster import load_definitions\n"
        "with dg.DagsterInstance.ephemeral() as instance:\n"
        "    instance.report_runless_asset_event(dg.AssetMaterialization('big'))\n"
        "    for sensor in load_definitions('.').sensors:\n"
        "        with dg.build_sensor_context(instance=instance) as context:\n"
        "            assert sensor(context).cursor\n",
        folder,
    )
    assert found & {"pyspark", "py4j", "dagster_pyspark", "pandas", "polars"} == set()
    assert children == []


def test_compile_on_the_command_line_loads_neither_dagster_nor_spark(folder):
    program = "from rivet_dagster.cli.main import main\nassert main(['compile', '--format', 'json']) == 0\n"
    found, children = loaded_by(program, folder)
    assert found == {"sqlglot"}
    assert children == []
