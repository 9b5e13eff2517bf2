"""Changes by others and interruptions while a table is published."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest
from support.tables import catalog, fill, ids, publish, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.errors import RivetError


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path)


def test_a_published_version_cannot_be_discarded(tmp_path, warehouse):
    staged = fill(warehouse.begin("orders"), [1])
    first = staged.commit("run")
    staged.abort()
    assert ids(tmp_path / "warehouse/orders") == [1]
    publish(warehouse, [2])
    staged.abort()
    assert ids(Path(warehouse.read(first).paths[0])) == [1]


def test_publishing_twice_changes_nothing(tmp_path, warehouse):
    staged = fill(warehouse.begin("orders"), [1])
    first = staged.commit("run")
    before = tree(tmp_path)
    assert staged.commit("run") == first
    assert tree(tmp_path) == before


def test_a_transaction_on_an_older_version_does_not_publish(tmp_path, warehouse):
    slow = fill(warehouse.begin("orders"), [1])
    fast = publish(warehouse, [2])
    error = refused(slow.commit, "slow")
    assert error.code == "RVT-405"
    assert fast.version in str(error)
    assert ids(tmp_path / "warehouse/orders") == [2]
    assert ids(Path(slow.target.paths[0])) == [1]


def test_of_many_concurrent_publishes_one_succeeds(tmp_path, warehouse):
    staged = [fill(warehouse.begin("orders"), [n]) for n in range(8)]
    won, lost = [], []

    def race(n: int) -> None:
        try:
            won.append((n, staged[n].commit(f"run {n}")))
        except RivetError as error:
            lost.append(error.code)

    threads = [threading.Thread(target=race, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == ["RVT-405"] * 7
    assert ids(tmp_path / "warehouse/orders") == [won[0][0]]


def test_expiry_continues_an_interrupted_one(tmp_path, warehouse, monkeypatch):
    monkeypatch.setattr(lifecycle, "remove", lambda *_: None)
    for n in range(4):
        publish(warehouse, [n])
    monkeypatch.undo()
    publish(warehouse, [4])
    assert len(list((tmp_path / "warehouse/.rivet/orders").glob("*[0-9a-f].json"))) == 2


@pytest.mark.parametrize("place", ["switch", "manifest", "sync"])
@pytest.mark.parametrize("failure", [OSError(errno.EIO, "broken"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_failure_in_the_middle_of_publishing_leaves_the_old_table(tmp_path, warehouse, monkeypatch, place, failure):
    publish(warehouse, [1])
    before = tree(tmp_path)
    staged = fill(warehouse.begin("orders"), [2])

    def fail(*_: object, **__: object) -> None:
        raise failure

    monkeypatch.setattr(os, {"switch": "replace", "manifest": "fsync", "sync": "symlink"}[place], fail)
    with pytest.raises((RivetError, KeyboardInterrupt)):
        staged.commit("run")
    monkeypatch.undo()
    assert ids(tmp_path / "warehouse/orders") == [1]
    staged.abort()
    assert tree(tmp_path) == before
    publish(warehouse, [3])
    assert ids(tmp_path / "warehouse/orders") == [3]


def test_a_failure_after_the_switch_leaves_the_new_table(tmp_path, warehouse, monkeypatch):
    publish(warehouse, [1])
    staged = fill(warehouse.begin("orders"), [2])
    monkeypatch.setattr(lifecycle, "expire", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        staged.commit("run")
    staged.abort()
    assert ids(tmp_path / "warehouse/orders") == [2]
    assert warehouse.current("orders").identity == "run"


def test_a_table_that_this_catalog_did_not_publish_is_not_replaced(tmp_path, warehouse):
    place = tmp_path / "warehouse/orders"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for make, clear in [
        (place.mkdir, place.rmdir),
        (place.touch, place.unlink),
        (lambda: place.symlink_to(elsewhere), place.unlink),
    ]:
        place.parent.mkdir(exist_ok=True)
        make()
        error = refused(warehouse.begin, "orders")
        assert error.code == "RVT-404"
        assert warehouse.current("orders") is None
        clear()

    staged = fill(warehouse.begin("orders"), [1])
    place.write_text("precious")
    assert refused(staged.commit, "run").code == "RVT-404"
    staged.abort()
    assert place.read_text() == "precious"


def test_an_engine_that_wrote_nothing_is_an_error(tmp_path, warehouse):
    staged = warehouse.begin("orders")
    for error in (refused(lambda: staged.whole), refused(staged.commit, "run")):
        assert error.code == "RVT-402"
        assert "warehouse/.rivet/orders" in str(error)
    shutil.rmtree(staged.target.paths[0])
    assert refused(staged.commit, "run").code == "RVT-402"
    assert warehouse.current("orders") is None


def test_a_lost_manifest_is_restored_from_the_data(tmp_path, warehouse):
    published = publish(warehouse, [1, 2])
    (tmp_path / f"warehouse/.rivet/orders/{published.version}.json").unlink()
    current = warehouse.current("orders")
    assert (current.version, current.statistics) == (published.version, published.statistics)
    assert publish(warehouse, [3]).rows_before == 2


@pytest.mark.parametrize("rest", [0, 1], ids=["in whole", "in part"])
def test_a_version_that_is_removed_while_it_is_looked_at_is_not_current(tmp_path, warehouse, monkeypatch, rest):
    """A sweep removes first the manifest, then the files; the next version is published before that."""
    first = publish(warehouse, [1, 2])
    folder = Path(warehouse.read(first).paths[0])
    shutil.copy(next(folder.glob("*.parquet")), folder / "part-00001.parquet")
    read = lifecycle.read_statistics

    def slowly(files):
        monkeypatch.undo()
        publish(catalog(tmp_path), [3])
        (tmp_path / f"warehouse/.rivet/orders/{first.version}.json").unlink(missing_ok=True)
        for file in files[rest:]:
            file.unlink()
        return read(files[: rest or None])

    (tmp_path / f"warehouse/.rivet/orders/{first.version}.json").unlink()
    monkeypatch.setattr(lifecycle, "read_statistics", slowly)
    current = warehouse.current("orders")
    assert (current.version != first.version, current.statistics.rows) == (True, 1)


def test_a_table_with_removed_data_can_be_published_again(tmp_path, warehouse):
    publish(warehouse, [1, 2])
    shutil.rmtree(tmp_path / "warehouse/.rivet/orders")
    assert warehouse.current("orders") is None
    again = publish(warehouse, [3])
    assert again.rows_before == 0
    assert ids(tmp_path / "warehouse/orders") == [3]
