"""The code of docs/engines.md, with the DuckDB engine of these tests."""

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from support.duckdb_engine import DuckDBEngine
from support.plugins import install

from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.registry import engine_class
from rivet_dagster.testing.engine import EngineConformance

PAGE = Path(__file__).parents[3] / "docs/engines.md"

ENTRY_POINTS, RESOURCE, SUITE = re.findall(r"```(?:toml|python)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    module = ModuleType("our_engines")
    module.DuckDBEngine = DuckDBEngine
    monkeypatch.setitem(sys.modules, "our_engines", module)
    points = tomllib.loads(ENTRY_POINTS)["project"]["entry-points"]
    install(monkeypatch, tmp_path / "site", engines=points["rivet_dagster.engines"])


def test_the_entry_point_defines_the_type(installed):
    assert engine_class("duck").type == "duck"


def test_the_documented_resource_equals_that_of_spark():
    made: dict = {}
    exec(RESOURCE, made)
    assert made["resource"] == PySparkEngine.resource


def test_the_conformance_suite_accepts_the_engine(installed):
    made: dict = {}
    exec(SUITE, made)
    suite = made["TestDuckDB"]()
    assert isinstance(suite, EngineConformance)
    with suite.new_engine().session() as session:
        assert session.rows("SELECT 1 AS v") == [{"v": 1}]
