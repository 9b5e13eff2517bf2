"""Versions that a person decides on: kept back, brought back, listed, evicted."""

import json
import os
from datetime import timedelta
from pathlib import Path

import pytest
from support.tables import catalog, fill, ids, publish, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog, manifest
from rivet_dagster.model.storage import Record, Staged


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path, versions=3)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "warehouse/orders"


def kept_back(warehouse: FilesystemCatalog, values: list[int]) -> Staged:
    staged = fill(warehouse.stage("orders", {}), values)
    warehouse.keep_back(staged)
    return staged


def listed(warehouse: FilesystemCatalog) -> list[tuple[str, str, int | None, str]]:
    return [(one.name, one.state, one.rows, one.identity) for one in warehouse.versions("orders")]


def test_a_version_is_found_by_the_run_that_published_it(warehouse, table, monkeypatch):
    assert warehouse.published_by("orders", "one") is None
    first = publish(warehouse, [1, 2], run="one")
    second = publish(warehouse, [3], run="two")
    assert warehouse.published_by("orders", "one") == first
    assert warehouse.published_by("orders", "two") == second
    assert warehouse.published_by("orders", "three") is None
    for name in ("three", "four", "five", "six", "seven"):
        publish(warehouse, [4], run=name)
    for expired, name in ((first, "one"), (second, "two")):
        assert refused(warehouse.read, expired).code == "RVT-401"
        assert warehouse.published_by("orders", name) == expired
    assert warehouse.published_by("orders", "eight") is None
    newest = json.loads((table.parent / f"{os.readlink(table)}.json").read_text())
    assert [one["identity"] for one in newest["expired"]] == ["one", "two", "three", "four"]
    monkeypatch.setattr(manifest, "REMEMBERED", timedelta(0))
    publish(warehouse, [5], run="eight")
    assert warehouse.published_by("orders", "one") is None
    assert warehouse.published_by("orders", "six").rows_before == 1


def test_a_version_that_an_earlier_release_published_is_remembered_too(tmp_path, table):
    """Its manifest tells nothing of those before it, nor what it did to the rows."""
    warehouse = catalog(tmp_path, versions=1)
    path = table.parent / f".rivet/orders/{publish(warehouse, [1, 2], run='one').version}.json"
    known = {"version", "base", "identity", "rows", "rows_before", "bytes", "columns", "published_at"}
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key in known}))
    for name in ("two", "three"):
        publish(warehouse, [3], run=name)
    assert warehouse.published_by("orders", "one").record == Record(2)


def test_what_was_evicted_was_published_by_nobody(warehouse):
    for name in ("one", "two", "three", "four"):
        last = publish(warehouse, [1], run=name)
    warehouse.evict(last)
    publish(warehouse, [2], run="five")
    assert [warehouse.published_by("orders", name) for name in ("one", "four")] == [None, None]


def test_all_versions_are_listed_the_newest_first(warehouse):
    assert warehouse.versions("orders") == ()
    first = publish(warehouse, [1, 2], run="one")
    second = publish(warehouse, [3], run="two")
    building = fill(warehouse.stage("orders", {}), [4])
    kept = kept_back(warehouse, [5, 6, 7])
    assert listed(warehouse) == [
        (second.version, "current", 1, "two"),
        (first.version, "older", 2, "one"),
        (kept.version, "kept back", 3, ""),
    ]
    warehouse.discard(building)


def test_a_version_kept_back_is_never_swept(warehouse, table):
    publish(warehouse, [1])
    staged = kept_back(warehouse, [2])
    before = tree(table.parent)
    assert warehouse.sweep() == ()
    publish(warehouse, [3])
    assert {name for name in before if staged.version in name} <= set(tree(table.parent))
    assert ids(table) == [3]


def test_a_version_kept_back_is_published_upon_what_is_there_now(warehouse, table):
    publish(warehouse, [1])
    kept = kept_back(warehouse, [2, 3])
    newer = publish(warehouse, [4])
    staged = warehouse.take_up("orders", kept.version)
    assert staged.base == newer.version
    published = warehouse.publish(staged, "by hand")
    assert (published.version, published.rows_before) == (kept.version, 1)
    assert ids(table) == [2, 3]
    assert not any(one.state == "kept back" for one in warehouse.versions("orders"))
    assert warehouse.sweep() == ()


def test_a_version_kept_back_is_dropped(warehouse, table):
    publish(warehouse, [1])
    before = tree(table.parent)
    kept = kept_back(warehouse, [2])
    warehouse.discard(warehouse.take_up("orders", kept.version))
    assert tree(table.parent) == before


def test_an_older_version_comes_back_as_a_new_one(warehouse, table):
    first = publish(warehouse, [1, 2], run="one")
    publish(warehouse, [3], run="two")
    published = warehouse.publish(warehouse.restage("orders", first.version), "rollback")
    assert ids(table) == [1, 2]
    assert published.version not in (first.version, "")
    assert (published.statistics.rows, published.rows_before) == (2, 1)
    assert [state for _, state, *_ in listed(warehouse)] == ["current", "older", "older"]
    (one,), (other,) = (sorted(Path(warehouse.read(v).paths[0]).iterdir()) for v in (first, published))
    assert os.path.samefile(one, other)
    publish(warehouse, [4])
    publish(warehouse, [5])
    publish(warehouse, [6])
    assert ids(table) == [6]
    assert [(state, rows) for _, state, rows, _ in listed(warehouse)] == [("current", 1), ("older", 1), ("older", 1)]
    assert refused(warehouse.restage, "orders", first.version).code == "RVT-408"


def test_bringing_back_loses_against_a_run_that_publishes_meanwhile(warehouse, table):
    first = publish(warehouse, [1])
    publish(warehouse, [2])
    staged = warehouse.restage("orders", first.version)
    publish(warehouse, [3])
    assert refused(warehouse.publish, staged, "rollback").code == "RVT-405"
    assert ids(table) == [3]


def test_files_are_copied_where_the_file_system_cannot_share_them(warehouse, table, monkeypatch):
    first = publish(warehouse, [1, 2])
    publish(warehouse, [3])

    def no_links(*_: object) -> None:
        raise PermissionError("links are not permitted here")

    monkeypatch.setattr(os, "link", no_links)
    warehouse.publish(warehouse.restage("orders", first.version), "rollback")
    assert ids(table) == [1, 2]


def test_versions_that_are_not_there(warehouse, table):
    current = publish(warehouse, [1])
    before = tree(table.parent)
    for call in (warehouse.restage, warehouse.take_up):
        for name in (current.version, "00000009-00000000", "../orders"):
            assert refused(call, "orders", name).code == "RVT-408"
    assert tree(table.parent) == before


def test_eviction_leaves_nothing_but_what_another_run_builds(warehouse, table):
    publish(warehouse, [1])
    last = publish(warehouse, [2])
    building = fill(warehouse.stage("orders", {}), [3])
    warehouse.evict(last)
    assert warehouse.current("orders") is None
    assert not table.exists()
    assert {name.partition(".")[0] for name in os.listdir(table.parent / ".rivet/orders")} == {"lock", building.version}
    assert refused(warehouse.read, last).code == "RVT-401"


def test_eviction_spares_a_newer_version(warehouse, table):
    last = publish(warehouse, [1])
    publish(warehouse, [2])
    warehouse.evict(last)
    assert ids(table) == [2]
