"""Staging, publishing and reading versions of a table, without an engine."""

import json
import os
import shutil
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from support.tables import catalog, fill, ids, publish, recorded_syncs, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path)


def test_the_published_table_is_a_relative_link_for_every_reader(tmp_path, warehouse):
    published = publish(warehouse, [1, 2])
    link = tmp_path / "warehouse/orders"
    assert os.listdir(link) == ["part-0.snappy.parquet"]
    assert os.readlink(link) == f".rivet/orders/{published.version}"
    assert ids(link) == [1, 2]
    assert pd.read_parquet(link)["id"].tolist() == [1, 2]
    assert pl.read_parquet(link)["id"].to_list() == [1, 2]
    assert duckdb.sql(f"SELECT sum(id) FROM '{link}/*.parquet'").fetchall() == [(3,)]
    assert published.uri == link.as_uri()

    moved = tmp_path / "moved"
    (tmp_path / "warehouse").rename(moved)
    assert ids(moved / "orders") == [1, 2]


def test_current_returns_the_published_version(warehouse):
    assert warehouse.current("orders") is None
    first = publish(warehouse, [1, 2], run="one")
    assert warehouse.current("orders") == first
    assert (first.statistics.rows, first.rows_before, first.identity) == (2, 0, "one")
    assert first.statistics.columns == (("id", "bigint"),)
    assert first.statistics.bytes > 0
    second = publish(warehouse, [3], run="two")
    assert warehouse.current("orders") == second
    assert (second.statistics.rows, second.rows_before) == (1, 2)
    assert first.version < second.version


def test_a_first_publish_survives_a_power_failure(tmp_path, monkeypatch):
    """Entries of new folders in their parents are synced before the link is made, and the link's own after it."""
    deep, lake = catalog(tmp_path, "data/lake"), tmp_path / "data/lake"
    synced, rename = recorded_syncs(monkeypatch), os.replace

    def replace(*paths: Path) -> None:
        synced.append(0)
        rename(*paths)

    monkeypatch.setattr(os, "replace", replace)
    staged = fill(deep.begin("orders"), [1])
    entries = [os.stat(path).st_ino for path in (tmp_path, tmp_path / "data", lake, lake / ".rivet")]
    assert set(synced) == set(entries)
    synced.clear()
    staged.commit("run")
    # Another process may have made them, and may have died before syncing.
    assert set(entries[1:]) < set(synced[: synced.index(0)])
    assert synced[synced.index(0) + 1 :] == [os.stat(lake).st_ino]


def test_a_vanished_folder_that_was_published_to_is_an_error(tmp_path):
    (tmp_path / ".rivet").mkdir()  # each compiled project has one
    mount = tmp_path / "mnt/lake"
    first = catalog(tmp_path, "mnt/lake")
    publish(first, [1])
    away = tmp_path / "unmounted"
    mount.rename(away)
    for there in ("no folder", "an empty one"):  # like a mount point
        if there == "an empty one":
            mount.mkdir()
        for lake in (first, catalog(tmp_path, "mnt/lake")):
            for ask in (
                lambda lake=lake: lake.current("orders"),
                lambda lake=lake: lake.published_by("orders", "run"),
                lambda lake=lake: lake.begin("orders"),
                lambda lake=lake: lake.begin("others"),
                lambda lake=lake: lake.tables(""),
                lake.sweep,
            ):
                error = refused(ask)
                assert error.code == "RVT-403"
                assert "mnt/lake is gone, where this project has published tables" in str(error)
                assert f"to begin anew there: mkdir -p {mount}/.rivet" in str(error)
            assert [finding.code for finding in lake.examine(True)] == ["RVT-403"]
    assert os.listdir(mount) == []
    mount.rmdir()
    away.rename(mount)
    assert catalog(tmp_path, "mnt/lake").current("orders").identity == "run"

    shutil.rmtree(mount)
    (mount / ".rivet").mkdir(parents=True)  # as the error recommends
    assert publish(catalog(tmp_path, "mnt/lake"), [2]).rows_before == 0


def test_a_first_run_creates_the_folder(tmp_path):
    """In a new project, for a removed workspace, and for a folder to which only other projects have published."""
    for project in ("one", "two"):
        (tmp_path / project / ".rivet").mkdir(parents=True)
        publish(catalog(tmp_path / project, "warehouse"), [1])
        publish(catalog(tmp_path / project, ".rivet/workspace"), [1])
    shutil.rmtree(tmp_path / "one/.rivet/workspace")
    publish(catalog(tmp_path / "one", ".rivet/workspace"), [2])
    publish(catalog(tmp_path / "one", "../three"), [1])
    shutil.rmtree(tmp_path / "three")
    publish(catalog(tmp_path / "two", "../three"), [1])


def test_a_staged_version_is_invisible_to_readers(tmp_path, warehouse):
    published = publish(warehouse, [1])
    staged = fill(warehouse.begin("orders"), [2])
    assert Path(staged.base.relation.paths[0]).name == published.version
    assert ids(tmp_path / "warehouse/orders") == [1]
    whole = staged.whole
    assert ids(Path(whole.relation.paths[0])) == [2]
    assert whole.statistics.rows == 1


def test_discarding_leaves_no_trace_and_may_be_repeated(tmp_path, warehouse):
    publish(warehouse, [1])
    before = tree(tmp_path)
    staged = fill(warehouse.begin("orders"), [2])
    staged.abort()
    staged.abort()
    assert tree(tmp_path) == before


@pytest.mark.parametrize("retained", [1, 2, 3, "2"])
def test_the_option_versions_limits_the_retained_versions(tmp_path, retained):
    warehouse = catalog(tmp_path, versions=retained)
    published = [publish(warehouse, [n]) for n in range(5)]
    for version in published[-int(retained) :]:
        assert Path(warehouse.read(version).paths[0]).is_dir()
    for version in published[: -int(retained)]:
        assert refused(warehouse.read, version).code == "RVT-401"
    names = {path.name for path in (tmp_path / "warehouse/.rivet/orders").iterdir()}
    assert len(names - {"lock", "publishers.jsonl"}) == 3 * int(retained)  # folders, manifests and file statistics
    assert published[-1].rows_before == 1
    assert warehouse.current("orders") == published[-1]


def test_a_reader_of_the_previous_version_can_finish(warehouse):
    first = publish(warehouse, [1])
    dataset = pa.dataset.dataset(warehouse.read(first).paths[0])
    publish(warehouse, [2])
    assert dataset.to_table().column("id").to_pylist() == [1]


def test_an_expired_version_is_unlisted_before_its_files_are_removed(warehouse, monkeypatch):
    """Otherwise a reader that lists the files at that moment would read a part of them."""
    first = publish(warehouse, [1])
    publish(warehouse, [2])
    removed = []

    def remove(folder: Path, **_: object) -> None:
        assert refused(warehouse.read, first).code == "RVT-401"
        removed.append(folder.exists())
        rmtree(folder, ignore_errors=True)

    rmtree = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", remove)
    publish(warehouse, [3])
    assert True in removed


@pytest.mark.parametrize("table", ["", "..", ".hidden", "a/b", "/tmp/x", "a b", "*", "day=1", "../x"])
def test_wrong_table_names_are_rejected(warehouse, tmp_path, table):
    assert refused(warehouse.begin, table).code == "RVT-404"
    assert not (tmp_path / "warehouse").exists()


def test_a_name_may_be_dotted(tmp_path, warehouse):
    publish(warehouse, [1], table="marts.orders-2024")
    assert ids(tmp_path / "warehouse/marts.orders-2024") == [1]


def test_the_manifest_has_run_rows_and_previous_version(tmp_path, warehouse):
    first = publish(warehouse, [1, 2])
    second = publish(warehouse, [3], run="nightly/orders")
    manifest = json.loads((tmp_path / f"warehouse/.rivet/orders/{second.version}.json").read_text())
    assert manifest.pop("published_at").endswith("+00:00")
    written = sum(path.stat().st_size for path in (tmp_path / "warehouse/orders").resolve().glob("*.parquet"))
    assert (manifest.pop("bytes"), manifest["record"].pop("bytes")) == (second.statistics.bytes, written)
    assert manifest == {
        "version": second.version,
        "base": first.version,
        "identity": "nightly/orders",
        "rows": 1,
        "rows_before": 2,
        "columns": [["id", "bigint"]],
        "record": {"inserted": 1, "updated": 0, "deleted": 2},
        "landed": {},
    }
