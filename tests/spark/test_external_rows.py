"""Rows of other Dagster assets in a workspace that gives other relations than files."""

import pyarrow as pa
import pytest
from support.folders import PROFILES, sink
from support.plugins import install

from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.external_assets import external_reference, store_external_asset
from rivet_dagster.model.external_assets import Part

PATH = ("shop", "raw")
FIRST = pa.table({"id": pa.array([1, 2], pa.int32())})
SECOND = pa.table({"id": pa.array([2**40], pa.int64()), "name": ["x"]})


@pytest.fixture
def shop(project, monkeypatch, tmp_path):
    install(monkeypatch, tmp_path / "site", catalogs={"memory": "rivet_dagster.testing.memory:MemoryCatalog"})
    workspace, profile = tmp_path.name, PROFILES["default"]
    catalogs = {**profile["catalogs"], workspace: {"type": "memory"}}
    return project({
        "profiles.yaml": {"default": {**profile, "catalogs": catalogs, "workspace": workspace}},
        "sources/raw.yaml": {
            "name": "raw", "type": "source", "catalog": "dagster", "table": "shop/raw",
            "columns": [{"doubled": "id * 2"}, "id"], "filter": "id > 1",
        },
        "sinks/report.yaml": sink("report", "raw"),
    })  # fmt: skip


def report(shop):
    shop.run_all()
    return sorted(shop.rows("report"), key=lambda row: row["id"])


def test_one_table_in_memory_is_read_by_joints_and_assets(shop):
    runtime = Runtime(shop.assembly, shop.root)
    store_external_asset(runtime, PATH, None, FIRST, "one")
    assert external_reference(runtime, PATH).to_arrow().column("id").to_pylist() == [1, 2]
    assert report(shop) == [{"doubled": 4, "id": 2}]


def test_partitions_in_memory_are_read_together(shop):
    """A column that a partition lacks is NULL in its rows, and the wider of two types holds all values."""
    runtime = Runtime(shop.assembly, shop.root)
    for key, rows in {"a": FIRST, "b": SECOND}.items():
        store_external_asset(runtime, PATH, Part(key, "letters"), rows, key)
    together = external_reference(runtime, PATH).to_arrow()
    assert sorted(together.to_pylist(), key=lambda row: row["id"]) == [
        {"id": 1, "name": None},
        {"id": 2, "name": None},
        {"id": 2**40, "name": "x"},
    ]
    assert together.schema.field("id").type == pa.int64()
    assert report(shop) == [{"doubled": 4, "id": 2}, {"doubled": 2**41, "id": 2**40}]
