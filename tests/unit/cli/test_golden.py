"""Every command's text and JSON, compared with the files in tests/unit/cli/golden.

``pytest tests/unit/cli/test_golden.py --rewrite-golden`` writes them anew, for a look at what git then shows.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from support.adoption import make_folder
from support.commands import COMMANDS, formats
from support.dbt import write_dbt
from support.golden import Normalizer, document
from support.small_shop import FILES, ORDERS, PROFILES, install_duckdb, small_shop, write_orders
from support.tables import catalog, fill

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.cli.main import main
from rivet_dagster.compiler.diff import ColumnChange
from rivet_dagster.engines.pyspark.java import Java
from rivet_dagster.engines.pyspark.server.record import ServerRecord
from rivet_dagster.execution.difference.rows import (
    ChangedRow,
    EnvironmentDifference,
    RowDifference,
    Samples,
    TableDifference,
    VerdictChange,
)

FOLDER = Path(__file__).parent / "golden"

SPARK: Mapping[str, Any] = {
    "catalogs": PROFILES["default"]["catalogs"],
    "engines": [{
        "name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"], "jars": ["jars/lost.jar"],
        "master": "spark://127.0.0.1:1",
        "packages": ["org.postgresql:postgresql:42.7.14", "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.9.0"],
        "config": {"spark.local.dir": "/proc/nowhere"},
    }],
}  # fmt: skip
SERVER: Mapping[str, Any] = {
    "catalogs": PROFILES["default"]["catalogs"],
    "engines": [{"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"], "remote": "local"}],
}
ARCHIVED = SimpleNamespace(key="0123456789abcdef", java=Java(Path("/java"), 17))
PAID = FILES["joints/paid.sql"]
ADDED = PAID.replace(", at", ", at, 1 AS n")
CHANGED = {**ORDERS, "amount": [10, 21, 5, -7]}
DIFFERENCE = EnvironmentDifference("pr-7", (
    TableDifference(
        "by_customer", "upstream", (ColumnChange("vat", "added", None, "double"),),
        RowDifference(0, 0, 1, ("customer",), {"revenue": 1}, Samples(changed=(
            ChangedRow({"customer": "bob", "revenue": 20}, {"customer": "bob", "revenue": 21}, ("revenue",)),
        ))),
        (VerdictChange("has_customer", "not_null", "assertion", "error", "passed", "failed", 0, 1),),
        rows_before=2, rows_after=2,
    ),
))  # fmt: skip


def lake(root: Path) -> FilesystemCatalog:
    return catalog(root, "lake")


def withheld(root: Path) -> None:
    fill(lake(root).begin("by_customer"), [1]).withhold()


def plain_folder(root: Path) -> None:
    """Replace the link to a published version by a folder of somebody else's, and remove the versions."""
    (root / "lake/by_customer").unlink()
    shutil.rmtree(root / "lake/.rivet/by_customer")
    rows = pa.table({"customer": ["ann"], "revenue": pa.array([15], pa.int64())})
    make_folder(root / "lake/by_customer", {"a.parquet": rows})


def other_columns(root: Path) -> None:
    make_folder(root / "lake/by_customer", {"a.parquet": [1]})


def written(name: str, text: str) -> Callable[[Path], object]:
    return lambda root: (root / name).write_text(text)


def dbt_project(root: Path) -> None:
    write_dbt(root / "old", {
        "models/orders.sql": "{{ config(tags='daily') }}\nselect * from {{ source('crm', 'raw_orders') }}",
        "models/asks.sql": "select 1\nfrom {{ run_query('select 1') }}",
        "models/after.sql": "select * from {{ ref('asks') }}",
        "models/s.yml": "sources: [{name: crm, tables: [{name: raw_orders}]}]\n"
        "models: [{name: orders, columns: [{name: id, tests: [unique, not_nul]}]}]",
    })  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A command line, and what is done before it."""

    name: str
    line: str
    before: Callable[[Path], object] | None = None


def cases(name: str, line: str, *formats: str) -> list[Case]:
    return [Case(f"{name}.{each}", f"{line} --format {each}") for each in formats]


PLAY = [
    Case("init", "init new"),
    Case("init.example", "init example --example"),
    *cases("compile", "compile", "visual", "json", "mermaid"),
    Case("compile.diff.visual", "compile --diff old.json", written("joints/paid.sql", ADDED)),
    Case("compile.diff.json", "compile --diff old.json --format json"),
    Case("compile.errors", "compile", written("joints/paid.sql", "-- rivet:upstream: ordres\nSELECT id FROM orders")),
    Case("compile.errors.json", "compile --format json"),
    Case("compile.json_of_one", "compile revenue --format json", written("joints/paid.sql", PAID)),
    *cases("run.dry_run", "run --dry-run", "text", "json"),
    *cases("run", "run", "text", "json"),
    Case("run.environment", "run --environment pr-7", lambda root: write_orders(root, CHANGED)),
    *cases("show", "show by_customer --where 'revenue > 0'", "table", "json", "csv"),
    *cases("test", "test", "text", "json"),
    Case("test.failed", "test", lambda root: (root / "tests/wrong.test.yaml").write_text(
        (root / "tests/revenue.test.yaml").read_text().replace("are_left_out", "count").replace(": 15", ": 16")
    )),
    Case("test.failed.json", "test -k count --format json"),
    Case("lineage", "lineage by_customer.revenue"),
    Case("lineage.downstream", "lineage orders --downstream"),
    Case("watermark_set", "watermark set history 2026-01-02"),
    *cases("watermark_list", "watermark list", "text", "json"),
    Case("watermark_reset", "watermark reset history"),
    Case("environment_create", "environment create pr-8"),
    *cases("environment_list", "environment list", "text", "json"),
    *cases("diff", "diff --environment pr-7", "text", "json", "markdown"),
    Case("environment_merge", "environment merge pr-7"),
    Case("environment_merge.again", "environment merge pr-7"),
    Case("environment_drop", "environment drop pr-8"),
    *cases("versions_list", "versions list by_customer", "text", "json"),
    Case("versions_rollback", "versions rollback by_customer"),
    Case("versions_publish", "versions publish by_customer WITHHELD", withheld),
    Case("versions_drop", "versions drop by_customer WITHHELD", withheld),
    Case("versions_drop.unknown", "versions drop by_customer 00000009-ffffffff"),
    Case("sweep", "sweep --upkeep"),
    *cases("upkeep", "upkeep", "text", "json"),
    Case("adopt.again", "adopt by_customer"),
    Case("adopt.undo.refused", "adopt by_customer --undo"),
    *cases("catalog_list", "catalog list", "text", "json"),
    *cases("catalog_describe", "catalog describe lake", "text", "json"),
    *cases("engine_list", "engine list", "text", "json"),
    Case("catalog_create", "catalog create sea --type filesystem --option path=sea"),
    Case("engine_create", "engine create small --type pyspark --catalogs raw,sea --option master=local[1]"),
    Case("spark_start", "spark start --profile server"),
    Case("spark_status", "spark status --profile server"),
    Case("spark_stop", "spark stop --profile server"),
    Case("spark_archive", "spark archive --profile server --to archives"),
    *cases("doctor", "doctor", "text", "json"),
    *cases("doctor.cluster", "doctor --profile cluster", "text", "json"),
    *(Case(f"schema.{name}", f"schema {name}") for name in ("rivet", "profiles", "joint", "test")),
    *(Case(f"completion.{shell}", f"completion {shell}") for shell in ("bash", "zsh", "fish")),
    Case("import_dbt.text", "import dbt old --to moved --format text", dbt_project),
    Case("import_dbt.json", "import dbt old --to again --format json"),
    Case("adopt", "adopt by_customer", plain_folder),
    Case("adopt.undo", "adopt by_customer --undo"),
    Case("adopt.refused", "adopt by_customer", other_columns),
    Case("error", "run ordres"),
    Case("error.json", "run ordres --format json"),
    Case("usage", "run --partition a --partition-range a...b"),
    Case("usage.json", "show by_customer --limit x --format json"),
]  # fmt: skip


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Play all commands, one after another in one project, and return what each has printed."""
    folder = tmp_path_factory.mktemp("golden")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT", "JAVA_HOME", "SPARK_LOCAL_DIRS"):
            patch.delenv(name, raising=False)
        install_duckdb(patch, folder)
        root = small_shop(folder / "shop", {"profiles.yaml": {**PROFILES, "cluster": SPARK, "server": SERVER}}).root
        patch.chdir(root)
        _pretend(patch, folder)
        return {case.name: _played(case, root, normalize) for normalize in [Normalizer(root)] for case in PLAY}


def _pretend(patch: pytest.MonkeyPatch, home: Path) -> None:
    """Stand in for what is of this machine, or needs a JVM: Java, the versions of packages, Spark's own server."""
    record = ServerRecord(4711, "began", "marker", 15002, "local[*]", {}, "t0ken")
    module = "rivet_dagster.cli.spark_command"
    patch.setattr(f"{module}.ensure_server", lambda spec: (record, SimpleNamespace(close=lambda: None)))
    patch.setattr(f"{module}.find_running", lambda files: record)
    patch.setattr(f"{module}.stop_running", lambda files: record)
    patch.setattr("rivet_dagster.cli.difference_command.environment_difference", lambda *_: DIFFERENCE)
    module = "rivet_dagster.cli.spark_command"
    patch.setattr(f"{module}._engines", lambda root, profile: [(SimpleNamespace(name="spark"), ARCHIVED)])
    patch.setattr(f"{module}._made", lambda folder, jvm: SimpleNamespace(size=170_000_000))
    patch.setattr("rivet_dagster.engines.pyspark.examining.find_java", lambda _: Java(Path("/java"), 17))
    patch.setattr("rivet_dagster.engines.pyspark.examining.spark_version", lambda: "4.1.4")
    patch.setattr("rivet_dagster.cli.doctor_command.installed_version", lambda name: "1.2.3")
    patch.setattr("rivet_dagster.cli.doctor_command.requires", lambda name: [])
    patch.setattr("platform.python_version", lambda: "3.99.9")
    patch.setattr("platform.machine", lambda: "x86_64")
    patch.setattr("platform.system", lambda: "Linux")
    patch.setenv("HOME", str(home))
    patch.setenv("RIVET_CLASS_ARCHIVE", "false")


def _played(case: Case, root: Path, normalize: Normalizer) -> str:
    if case.before is not None:
        case.before(root)
    line = case.line
    if "WITHHELD" in line:
        line = line.replace(
            "WITHHELD", next(v.name for v in lake(root).versions("by_customer") if v.state == "withheld")
        )
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = main(shlex.split(line))
    if case.name == "compile.json":
        (root / "old.json").write_text(out.getvalue())
    return document(f"rivet-dagster {case.line}", code, normalize(out.getvalue()), normalize(err.getvalue()))


@pytest.mark.parametrize("case", PLAY, ids=lambda case: case.name)
def test_a_command_prints_what_its_golden_file_has(case: Case, played: Mapping[str, str], request):
    file, printed = FOLDER / f"{case.name}.txt", played[case.name]
    if request.config.getoption("--rewrite-golden"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(printed, "utf-8")
    assert printed == file.read_text("utf-8")


def test_no_command_and_no_format_is_without_a_golden_file():
    played = [shlex.split(case.line) for case in PLAY]
    for path in COMMANDS:
        calls = [line for line in played if tuple(line[: len(path)]) == path]
        assert calls, f"{' '.join(path)} is not played"
        for each in formats(path):
            assert any(each in line for line in calls), f"{' '.join(path)} --format {each} is not played"
    assert {file.stem for file in FOLDER.iterdir()} == {case.name for case in PLAY}
