"""The catalogs of docs/catalogs.md: the code of the page passes the conformance suite and runs a project."""

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
import yaml
from support.duckdb_engine import DuckDBEngine
from support.folders import PROFILES
from support.plugins import install

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.registry import catalog_class
from rivet_dagster.model.inputs import FilesPosition
from rivet_dagster.model.profile import CatalogSpec, EngineSpec

PAGE = Path(__file__).parents[2] / "docs/catalogs.md"

BLOCKS = re.findall(r"```(?:toml|python|yaml)\n(.*?)```", PAGE.read_text(), re.DOTALL)
NAMED = {block.split("\n")[0].removeprefix("# "): block for block in BLOCKS if block.startswith("# ")}


def module(path: str) -> ModuleType:
    """Make the module of a code block that begins with its path."""
    name = path.removesuffix(".py").replace("/", ".")
    package = sys.modules.setdefault(name.rpartition(".")[0], ModuleType(name.rpartition(".")[0]))
    package.__path__ = []
    found = sys.modules[name] = ModuleType(name)
    exec(compile(NAMED[path], path, "exec"), vars(found))
    return found


@pytest.fixture(scope="module", autouse=True)
def removed_afterwards():
    """Remove the page's package afterwards, so that no other test imports it."""
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "our_catalogs"]:
        del sys.modules[name]


@pytest.fixture
def session():
    """A session that does not start a process for rows that are given as Arrow, as the suite does hundreds of times."""
    with DuckDBEngine(EngineSpec("duck", "duckdb")).session() as session:
        yield session


FOLDER, TABLES = module("our_catalogs/folder.py"), module("our_catalogs/tables.py")
_suite: dict = {}
exec(compile(NAMED["tests/test_tables.py"], "tests/test_tables.py", "exec"), _suite)
TestArrowTables = _suite["TestArrowTables"]
"""The page's own test, in a session of these tests."""


def write(path: Path, rows: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, rows.schema) as stream:
        stream.write_table(rows)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    points = tomllib.loads(NAMED["pyproject.toml"])["project"]["entry-points"]
    install(monkeypatch, tmp_path / "site", catalogs=points["rivet_dagster.catalogs"])


def files(**sink) -> dict:
    profile = yaml.safe_load(NAMED["profiles.yaml"])["default"]
    engine = {**PROFILES["default"]["engines"][0], "catalogs": ["raw", "lake"]}
    gate = {"assertions": [{"type": "not_null", "columns": ["id"]}]}
    sink = {"type": "sink", "catalog": "lake", "table": "big", "upstream": "big", "quality": gate, **sink}
    return {
        "profiles.yaml": {"default": {**profile, "engines": [engine]}},
        "sources/orders.yaml": {"type": "source", "catalog": "raw", "table": "orders"},
        "joints/big.sql": "SELECT id, name FROM orders WHERE id > 1\n",
        "sinks/big_orders.yaml": sink,
    }


@pytest.mark.nightly
def test_a_project_reads_one_catalog_and_publishes_to_the_other(installed, project, tmp_path):
    merge = {"mode": "merge", "key_columns": ["id"]}
    folder = project(files(write_strategy=merge))
    for names in (["one", "two", "three"], ["one", "zwei", "three"]):
        write(folder.root / "data/orders.arrows", pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": names}))
        (result,) = folder.run_all().values()
    assert (result.published.record.updated, result.published.statistics.rows) == (1, 2)
    assert isinstance(result.published.inputs["orders"], FilesPosition)
    lake = TABLES.ArrowTables(CatalogSpec("lake", "arrow_tables", {"path": "lake"}), folder.root)
    assert lake.current("big") == result.published
    rows = lake.relation("big", {}).batches().read_all().sort_by("id").to_pylist()
    assert rows == [{"id": 2, "name": "zwei"}, {"id": 3, "name": "three"}]
    assert [path.name for path in (folder.root / "lake/.building").iterdir()] == []


def test_errors_of_a_project_are_reported(installed, project):
    folder = project({**files(table="../big", options={"colour": "red"})})
    errors = compile_directory(folder.root).errors
    assert [error.code for error in errors] == ["RVT-204", "RVT-203"]


def test_the_types_equal_those_of_the_entry_points(installed):
    points = tomllib.loads(NAMED["pyproject.toml"])["project"]["entry-points"]["rivet_dagster.catalogs"]
    assert {name: catalog_class(name).type for name in points} == {name: name for name in points}
    assert catalog_class("arrow_folder").check({}) == {"path": "is missing"}


def test_what_a_session_needs():
    (block,) = [block for block in BLOCKS if "def session_needs" in block]
    needs: dict = {}
    exec(block, needs)
    assert needs["session_needs"](None, "pyspark").packages == ("org.postgresql:postgresql:42.7.14",)
    assert needs["session_needs"](None, "duckdb").packages == ()
