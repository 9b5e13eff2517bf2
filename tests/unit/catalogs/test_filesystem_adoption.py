"""Folders of Parquet files that somebody else has made, taken over as the first version of a table."""

from __future__ import annotations

import errno
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from support.adoption import make_folder
from support.tables import catalog, fill, ids, publish, refused, tree

from rivet_dagster import file_replacement
from rivet_dagster.catalogs.filesystem.versions import adoption
from rivet_dagster.model.storage import CURRENT, OLDER, Record

FILES = {"b.parquet": [3], "a.parquet": [1, 2], "_SUCCESS": b"", ".a.parquet.crc": b"crc"}


@pytest.fixture
def lake(tmp_path):
    return catalog(tmp_path, "lake")


@pytest.fixture
def folder(tmp_path) -> Path:
    return make_folder(tmp_path / "lake/orders", FILES)


def stamps(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Return the files of a folder with their inode, modification time and mode, and those of the folder."""
    found = {".": folder.stat()} | {path.name: path.stat() for path in folder.iterdir()}
    return {name: (status.st_ino, status.st_mtime_ns, status.st_mode) for name, status in found.items()}


def test_the_folder_itself_becomes_the_first_version(lake, folder):
    folder.chmod(0o750)
    before = stamps(folder)
    existing = lake.existing("orders")
    assert existing.uri == folder.as_uri()
    assert (existing.statistics.rows, existing.statistics.columns) == (3, (("id", "bigint"),))
    assert existing.layout == {"files": "2 of Parquet", "partitions": "none"}
    error = refused(lake.begin, "orders")
    assert error.code == "RVT-404"
    assert "rivet-dagster adopt JOINT" in str(error)

    adopted = lake.adopt("orders")
    assert (adopted.identity, adopted.statistics.rows, adopted.record) == ("adopted", 3, Record(0))
    assert (folder.is_symlink(), stamps(folder), ids(folder)) == (True, before, [1, 2, 3])
    assert lake.existing("orders") is None
    assert lake.adopt("orders") == adopted == lake.current("orders")
    assert [(v.name, v.state, v.rows, v.identity) for v in lake.versions("orders")] == [
        (adopted.version, CURRENT, 3, "adopted")
    ]
    assert lake.published_by("orders", "run") is None
    assert lake.max_of(adopted, "id") == 3
    assert lake.sweep() == ()


def test_later_versions_are_built_upon_it(lake, folder):
    adopted = lake.adopt("orders")
    transaction = lake.begin("orders")
    assert ids(transaction.base.relation.paths[0]) == [1, 2, 3]
    transaction.abort()
    published = publish(lake, [7])
    assert (ids(folder), published.rows_before) == ([7], 3)
    assert [(v.state, v.identity) for v in lake.versions("orders")] == [(CURRENT, "run"), (OLDER, "adopted")]
    with lake.restage("orders", adopted.version) as restaged:
        restaged.commit("rollback")
    assert ids(folder) == [1, 2, 3]
    for number in range(3):
        publish(lake, [number])
    assert refused(lake.read, adopted).code == "RVT-401"  # it expires as others do


def test_it_is_given_up_until_another_version_is_published(lake, folder, tmp_path):
    assert not lake.give_up("orders")
    assert not lake.give_up("others")
    before, content = stamps(folder), tree(tmp_path / "lake/orders")
    for _ in range(2):
        lake.adopt("orders")
        assert lake.give_up("orders")
        assert (folder.is_symlink(), stamps(folder), tree(folder)) == (False, before, content)
        assert os.listdir(tmp_path / "lake/.rivet/orders") == ["lock"]
        assert (lake.current("orders"), lake.tables(""), lake.sweep(), lake.building()) == (None, (), (), ())
        assert [finding.status for finding in lake.examine(publishes=True)] == ["ok"]
    lake.adopt("orders")
    published = publish(lake, [7])
    error = refused(lake.give_up, "orders")
    assert error.code == "RVT-404"
    assert f"'orders' is at the version {published.version}, which was published from here (run)" in str(error)
    assert ids(folder) == [7]


def test_a_run_that_began_upon_it_does_not_publish_after_it_was_given_up(lake, folder):
    lake.adopt("orders")
    transaction = fill(lake.begin("orders"), [7])
    assert lake.give_up("orders")
    assert refused(transaction.commit, "run").code == "RVT-404"
    transaction.abort()
    assert ids(folder) == [1, 2, 3]


def test_a_table_without_rows_is_taken_over(lake, tmp_path):
    folder = make_folder(tmp_path / "lake/orders", {"a.parquet": []})
    assert lake.adopt("orders").statistics.rows == 0
    assert ids(folder) == []


def test_there_may_be_no_table(lake, tmp_path):
    assert (lake.existing("orders"), lake.adopt("orders"), tree(tmp_path)) == (None, None, [])


NANOSECONDS = pa.table({"at": pa.array([1], pa.timestamp("ns"))})
REFUSED = {
    "a folder": ({"1/a.parquet": [1]}, "has its files in folders, as in 1"),
    "no file": ({"_SUCCESS": b""}, "has no Parquet file"),
    "CSV": ({"a.csv": b"id\n1\n"}, "has a file that is not read: the file"),
    "half a file": ({"a.parquet": [1], "b.parquet": b"PAR1"}, "b.parquet, as the engine wrote it, cannot be read"),
    "names": (
        {"a.parquet": [1], "b.parquet": pa.table({"ID": [1]})},
        "has files whose columns differ, a.parquet and b.parquet: ID, id",
    ),
    "types": (
        {"a.parquet": [1], "b.parquet": pa.table({"id": [Decimal("1.5")]})},
        "has files whose columns differ, a.parquet and b.parquet: id",
    ),
    "nanoseconds": (
        {"a.parquet": NANOSECONDS},
        "has a column 'at' of the type timestamp[ns], which Spark does not read",
    ),
    "Delta": ({"a.parquet": [1], "_delta_log/0.json": b"{}"}, "is a table of the format Delta"),
    "Iceberg": ({"data/a.parquet": [1], "metadata/v1.metadata.json": b"{}"}, "is a table of the format Iceberg"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_version_can_be_is_refused_and_stays(lake, tmp_path, name):
    files, why = REFUSED[name]
    folder = make_folder(tmp_path / "lake/orders", files)
    before = stamps(folder)
    for call in (lake.existing, lake.adopt):
        error = refused(call, "orders")
        assert error.code == "RVT-404"
        assert f"{folder} cannot be taken over: it " in str(error)
        assert why in str(error)
    assert (folder.is_symlink(), stamps(folder)) == (False, before)


def test_neither_a_file_nor_a_link_to_elsewhere_is_taken_over(lake, tmp_path):
    make_folder(tmp_path / "lake", {"orders": [1]})
    assert "a file that is not ours stands where the table would be" in str(refused(lake.adopt, "orders"))
    make_folder(tmp_path / "elsewhere", FILES)
    (tmp_path / "lake/others").symlink_to(tmp_path / "elsewhere")
    assert "a link to elsewhere that is not ours" in str(refused(lake.existing, "others"))


def test_a_file_system_that_cannot_exchange_is_named(lake, folder, monkeypatch):
    def fail(path, other):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(adoption, "exchange", fail)
    before = stamps(folder)
    error = refused(lake.adopt, "orders")
    assert error.code == "RVT-402"
    assert "does not exchange a folder for a link in one step: Operation not supported" in str(error)
    assert (stamps(folder), ids(folder)) == (before, [1, 2, 3])
    monkeypatch.undo()
    assert lake.adopt("orders").version.startswith("00000001-")


def test_an_exchange_is_one_step_or_an_error(tmp_path):
    one, other = make_folder(tmp_path / "one", {"a": b"1"}), tmp_path / "other"
    other.symlink_to("elsewhere")
    file_replacement.exchange(one, other)
    assert (os.readlink(one), tree(other)) == ("elsewhere", ["a"])
    with pytest.raises(FileNotFoundError):
        file_replacement.exchange(one, tmp_path / "nothing")
    assert os.readlink(one) == "elsewhere"
