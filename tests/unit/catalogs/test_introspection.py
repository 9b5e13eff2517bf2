"""Introspection: asking catalogs for the columns of sources before compiling."""

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.folders import ProjectFolder, sink

from rivet_dagster import compile_directory
from rivet_dagster.cache import CompileCache
from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.introspection import introspection
from rivet_dagster.cli import show_command
from rivet_dagster.cli.main import main
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.execution.showing import ShownRows
from rivet_dagster.project.load import load_project

FILES = {
    "sources/orders.yaml": {"type": "source", "catalog": "raw", "table": "orders.parquet"},
    "sources/few.yaml": {"type": "source", "catalog": "raw", "table": "orders.parquet", "columns": ["NAME", "id"]},
    "sources/more.yaml": {
        "type": "source", "catalog": "raw", "table": "orders.parquet", "columns": {"id": "id", "double": "id * 2"},
    },
    "sources/people.yaml": {"type": "source", "catalog": "raw", "table": "people.csv"},
    "sources/guessed.yaml": {
        "type": "source", "catalog": "raw", "table": "people.csv", "options": {"inferSchema": True},
    },
    "sources/declared.yaml": {"type": "source", "catalog": "raw", "table": "no.csv", "options": {"schema": "a INT"}},
    "joints/named.sql": "SELECT id + 1 AS next, name FROM orders",
    "sinks/out.yaml": sink("out", "named"),
    "sinks/copy.yaml": sink("copy", "orders"),
    "sinks/both.yaml": sink("both", "orders", "literal"),
    "joints/literal.sql": "SELECT 1L AS id, 'b' AS name",
    "data/people.csv": "name,city\nx,y\n",
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> ProjectFolder:
    folder = ProjectFolder(tmp_path, FILES)
    table = pa.table({"id": pa.array([1], pa.int64()), "name": pa.array(["a"])})
    pq.write_table(table, tmp_path / "data/orders.parquet")
    return folder


def schemas(plan: CompiledAssembly) -> dict[str, tuple[str, list[tuple[str, str | None]] | None]]:
    return {
        joint.name: (joint.schema_confidence, joint.schema and [(f.name, f.type) for f in joint.schema])
        for joint in plan.raise_errors().joints
    }


def test_columns_from_catalogs_propagate_through_the_plan(project):
    plan = compile_directory(project.root, introspect=True)
    assert not plan.warnings
    orders = [("id", "bigint"), ("name", "string")]
    assert schemas(plan) == {
        "orders": ("introspected", orders),
        "few": ("introspected", [("NAME", "string"), ("id", "bigint")]),
        "more": ("inferred", [("id", "bigint"), ("double", "bigint")]),
        "people": ("introspected", [("name", "string"), ("city", "string")]),
        "guessed": ("partial", [("name", None), ("city", None)]),
        "declared": ("inferred", [("a", "int")]),
        "named": ("inferred", [("next", "bigint"), ("name", "string")]),
        "out": ("inferred", [("next", "bigint"), ("name", "string")]),
        "copy": ("introspected", orders),
        "literal": ("inferred", orders),
        "both": ("introspected", orders),
    }
    assert CompiledAssembly.from_json(plan.to_json()) == plan


def test_without_introspection_fewer_schemas_are_known(project):
    known = schemas(compile_directory(project.root))
    assert known["orders"] == known["copy"] == ("none", None)
    assert known["named"] == ("partial", [("next", None), ("name", None)])
    assert known["declared"] == ("inferred", [("a", "int")])


def test_a_failure_is_a_warning_at_the_source(project, capsys):
    project.write({"data/orders.parquet": "no parquet", "profiles.yaml": (project.root / "profiles.yaml").read_text()})
    (project.root / "data/people.csv").unlink()
    plan = compile_directory(project.root, introspect=True).raise_errors()
    found = {w.joint: w for w in plan.warnings}
    assert found.keys() == {"orders", "few", "more", "people", "guessed"}
    assert {w.code for w in plan.warnings} == {"RVT-318"}
    assert (found["people"].file, found["people"].line) == ("sources/people.yaml", 1)
    assert found["people"].message == "its columns are unknown: data/people.csv does not exist; known: orders.parquet"
    assert found["orders"].message.startswith("its columns are unknown: orders.parquet cannot be read as parquet: ")
    assert main(["-p", str(project.root), "compile", "--introspect", "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 5


def test_an_unset_variable_is_a_warning_too(project):
    profiles = {"default": {
        "catalogs": {
            "raw": {"type": "filesystem", "path": "${DATA_HOME}"}, "lake": {"type": "filesystem", "path": "lake"},
        },
        "engines": [{"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"]}],
    }}  # fmt: skip
    project.write({"profiles.yaml": profiles})
    environ = {"DATA_HOME": str(project.root / "data")}
    assert not compile_directory(project.root, introspect=True, environ=environ).raise_errors().warnings
    # The profile is expanded with the variable set; introspection then runs in a process without it.
    declared = load_project(project.root, environ=environ)
    introspected = introspection(declared, project.root, {}, CompileCache())
    assert {w.message for w in introspected.warnings} == {
        "its columns are unknown: the environment variable DATA_HOME is not set"
    }


def test_a_source_without_a_catalog_is_the_usual_error(project):
    project.write({"sources/few.yaml": {"type": "source", "catalog": "rwa", "table": "orders.parquet"}})
    plan = compile_directory(project.root, introspect=True)
    assert [(error.code, error.joint) for error in plan.errors] == [("RVT-309", "few")]


@pytest.mark.slow
def test_all_catalogs_are_asked_concurrently_with_a_timeout(project, monkeypatch):
    together = threading.Barrier(4)
    endless = threading.Event()
    answered = []
    real = FilesystemCatalog.columns

    def slow(self, table, options):
        together.wait(60)  # passes when all four are asked at the same time
        if table == "orders.parquet":
            endless.wait(60)
        answered.append(real(self, table, options))
        return answered[-1]

    # Its last second begins when three have answered, regardless of their time.
    clock = SimpleNamespace(monotonic=lambda: 59.0 if len(answered) == 3 else 0.0)
    monkeypatch.setattr("rivet_dagster.catalogs.introspection.time", clock)
    monkeypatch.setattr(FilesystemCatalog, "columns", slow)
    for name in ("few", "more", "guessed", "declared"):
        (project.root / f"sources/{name}.yaml").unlink()
    for name in ("a", "b"):
        project.write({f"sources/{name}.yaml": {"type": "source", "catalog": "raw", "table": "people.csv"}})
    introspected = introspection(load_project(project.root), project.root, os.environ, CompileCache(), seconds=60)
    endless.set()
    assert introspected.tables.keys() == {"a", "b", "people"}
    assert [(w.joint, w.message) for w in introspected.warnings] == [
        ("orders", "its columns are unknown: no answer within 60 seconds")
    ]


def test_unchanged_files_are_not_opened_again(project, monkeypatch):
    first = compile_directory(project.root, introspect=True)
    asked = []
    real = FilesystemCatalog.columns
    monkeypatch.setattr(
        FilesystemCatalog, "columns", lambda self, table, options: asked.append(table) or real(self, table, options)
    )
    assert compile_directory(project.root, introspect=True) == first
    # An answer without types is stored like one with types.
    assert asked == []
    table = pa.table({"id": pa.array([1], pa.int32()), "name": pa.array(["a"])})
    pq.write_table(table, project.root / "data/orders.parquet")
    assert schemas(compile_directory(project.root, introspect=True))["orders"][1] == [("id", "int"), ("name", "string")]
    assert set(asked) == {"orders.parquet"}


def test_introspected_plans_are_reproducible(project):
    assert compile_directory(project.root, introspect=True).to_json() == (
        compile_directory(project.root, introspect=True).to_json()
    )
    assert '"introspected"' not in compile_directory(project.root).to_json()


def recalled(root, **options) -> CompiledAssembly:
    """Compile with the last answers, like definitions."""
    return compile_directory(root, recall=True, **options)


def test_the_last_answer_is_used_without_a_catalog(project, monkeypatch):
    introspected = compile_directory(project.root, introspect=True)
    assert schemas(compile_directory(project.root))["orders"] == ("none", None)  # which does not drop the last answers
    monkeypatch.setattr(FilesystemCatalog, "__init__", lambda *_: pytest.fail("a catalog is contacted"))
    again = recalled(project.root)
    assert schemas(again) == schemas(introspected)
    assert not again.warnings
    # The answer for another table does not apply.
    project.write({"sources/orders.yaml": {"type": "source", "catalog": "raw", "table": "others.parquet"}})
    assert schemas(recalled(project.root))["orders"] == ("none", None)


def test_the_last_answer_causes_no_errors(project):
    """The table may have new columns since; when asked now, missing columns are errors."""
    compile_directory(project.root, introspect=True)
    project.write({
        "joints/named.sql": "SELECT id + 1 AS next, name, nmae FROM orders",
        "sinks/copy.yaml": sink("copy", "orders", write_strategy={"mode": "merge", "key_columns": ["key"]}),
        "sinks/out.yaml": sink("out", "orders", assertions=[{"type": "not_null", "columns": ["nmae"]}]),
        "sinks/both.yaml": sink("both", "twice"),
        "joints/twice.sql": "SELECT id, orders.* FROM orders",
    })  # fmt: skip
    plan = recalled(project.root)
    assert plan.errors == ()
    found = sorted((w.code, w.joint, w.line) for w in plan.warnings)
    assert [(code, joint) for code, joint, _ in found] == [
        ("RVT-316", "twice"), ("RVT-324", "copy"), ("RVT-327", "named"), ("RVT-327", "out"),
    ]  # fmt: skip
    assert "(as the sources were when their catalogs were last asked)" in plan.warnings[0].message
    for plan in (recalled(project.root, introspect=True), compile_directory(project.root, introspect=True)):
        assert {(e.code, e.joint) for e in plan.errors} == {(code, joint) for code, joint, _ in found}
    assert recalled(project.root, introspect=True).warnings == ()


@pytest.mark.parametrize("engine", [(), ("--engine", "spark")])
def test_the_last_answer_is_used_for_rows_that_are_shown(project, monkeypatch, engine):
    compile_directory(project.root, introspect=True)
    shown = []

    def show(runtime, name, limit, where):
        shown.append(runtime.assembly.joint(name).schema_confidence)
        return ShownRows((), ())

    monkeypatch.setattr(show_command, "shown_rows", show)
    assert main(["show", "orders", "-p", str(project.root), *engine]) == 0
    assert shown == ["introspected"]


def test_if_a_catalog_does_not_answer_its_last_answer_is_used(project):
    before = schemas(compile_directory(project.root, introspect=True))
    project.write({"data/orders.parquet": "no parquet"})
    assert schemas(compile_directory(project.root, introspect=True))["orders"] == ("none", None)
    plan = recalled(project.root, introspect=True)
    assert schemas(plan) == before
    assert {w.code for w in plan.warnings} == {"RVT-318"}


def test_an_empty_answer_replaces_the_last_one(project):
    compile_directory(project.root, introspect=True)
    os.renames(project.root / "data/orders.parquet", project.root / "data/day=1/orders.parquet")
    os.renames(project.root / "data/day=1", project.root / "data/orders.parquet/day=1")
    assert schemas(recalled(project.root, introspect=True))["orders"] == ("none", None)
    assert schemas(recalled(project.root))["orders"] == ("none", None)


def test_each_thread_opens_a_catalog_once_for_all_its_sources(tmp_path, monkeypatch):
    files = {
        f"sources/s{number}.yaml": {"type": "source", "catalog": "raw", "table": "orders.parquet"}
        for number in range(60)
    }
    folder = ProjectFolder(tmp_path, files)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "data/orders.parquet")
    opened: list[str] = []
    init = FilesystemCatalog.__init__
    monkeypatch.setattr(
        FilesystemCatalog, "__init__", lambda self, spec, root: opened.append(spec.name) or init(self, spec, root)
    )
    plan = compile_directory(folder.root, introspect=True)
    assert len([joint for joint in plan.joints if joint.schema]) == 60
    assert 1 <= len(opened) <= 8
