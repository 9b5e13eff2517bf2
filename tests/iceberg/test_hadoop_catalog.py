"""Iceberg's catalog of the kind hadoop, whose tables Iceberg's Java library reads and commits to as well."""

import gzip
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from rivet_dagster.catalogs.iceberg.hadoop.folders import MetadataFolder, VersionExistsError, remove_tree
from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog


@pytest.fixture
def catalog(tmp_path: Path) -> HadoopCatalog:
    return HadoopCatalog("lake", warehouse=str(tmp_path / "warehouse"))


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(catalog: HadoopCatalog, name: Any = "shop.orders") -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def test_tables_are_created_written_and_dropped(catalog: HadoopCatalog, tmp_path: Path) -> None:
    table = catalog.create_table("shop.orders", rows().schema, properties={"a": "1"})
    folder = tmp_path / "warehouse/shop/orders"
    assert table.location() == str(folder)
    table.append(rows(1, 2))
    assert sorted(os.listdir(folder / "metadata"))[-3:] == ["v1.metadata.json", "v2.metadata.json", "version-hint.text"]
    assert (folder / "metadata/version-hint.text").read_text() == "2"
    assert ids(catalog) == [1, 2]
    log = [Path(entry.metadata_file).name for entry in catalog.load_table("shop.orders").metadata.metadata_log]
    assert log == ["v1.metadata.json"]
    with pytest.raises(TableAlreadyExistsError):
        catalog.create_table("shop.orders", rows().schema)
    with pytest.raises(NoSuchTableError):
        catalog.load_table("shop.order")
    catalog.drop_table("shop.orders")
    assert not folder.exists()
    assert not catalog.table_exists("shop.orders")
    with pytest.raises(NoSuchTableError):
        catalog.drop_table("shop.orders")


def test_namespaces_are_folders(catalog: HadoopCatalog) -> None:
    assert catalog.list_namespaces() == []
    catalog.create_namespace_if_not_exists("a.b")
    catalog.create_namespace("c")
    with pytest.raises(NamespaceAlreadyExistsError):
        catalog.create_namespace("c")
    catalog.create_table("a.b.t", rows().schema)
    assert (catalog.list_namespaces(), catalog.list_namespaces("a")) == ([("a",), ("c",)], [("a", "b")])
    assert (catalog.list_tables("a"), catalog.list_tables("a.b")) == ([], [("a", "b", "t")])
    assert catalog.load_namespace_properties("a.b")["location"].endswith("/warehouse/a/b")
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace("a.b")
    catalog.drop_namespace("c")
    for call in (catalog.list_tables, catalog.list_namespaces, catalog.drop_namespace):
        with pytest.raises(NoSuchNamespaceError):
            call("c")
    with pytest.raises(NoSuchNamespaceError):  # a table is no namespace
        catalog.list_tables("a.b.t")


def test_what_it_cannot_do_is_refused(catalog: HadoopCatalog) -> None:
    table = catalog.create_table("shop.orders", rows().schema)
    with pytest.raises(NotImplementedError, match="cannot rename"):
        catalog.rename_table("shop.orders", "shop.other")
    with pytest.raises(NotImplementedError, match="no views"):
        catalog.list_views("shop")
    with pytest.raises(ValueError, match="lies in the folder of its name"):
        catalog.create_table("shop.other", rows().schema, location="/elsewhere")
    with pytest.raises(ValueError, match="metadata elsewhere"):
        table.transaction().set_properties({"write.metadata.path": "/elsewhere"}).commit_transaction()
    with pytest.raises(ValueError, match="no folder"):
        catalog.load_table(("..", "orders"))
    with pytest.raises(ValueError, match="absolute path"):
        HadoopCatalog("lake", warehouse="s3://bucket/lake")


@pytest.mark.parametrize("hint", [None, "1", "nonsense", "9"])
def test_a_hint_may_be_missing_old_or_wrong(catalog: HadoopCatalog, tmp_path: Path, hint: str | None) -> None:
    table = catalog.create_table("shop.orders", rows().schema)
    table.append(rows(1))
    table.append(rows(2))
    file = tmp_path / "warehouse/shop/orders/metadata/version-hint.text"
    file.unlink() if hint is None else file.write_text(hint)
    assert ids(catalog) == [1, 2]


def test_compressed_metadata(catalog: HadoopCatalog, tmp_path: Path) -> None:
    properties = {"write.metadata.compression-codec": "gzip"}
    table = catalog.create_table("shop.orders", rows().schema, properties=properties)
    table.append(rows(1))
    folder = tmp_path / "warehouse/shop/orders/metadata"
    assert json.loads(gzip.decompress((folder / "v2.gz.metadata.json").read_bytes()))["format-version"] == 2
    (folder / "v2.gz.metadata.json").rename(folder / "v2.metadata.json.gz")  # as earlier releases named it
    assert ids(catalog) == [1]


def test_an_overtaken_commit_fails_even_if_its_version_is_free(catalog: HadoopCatalog, tmp_path: Path) -> None:
    table = catalog.create_table("shop.orders", rows().schema)
    table.append(rows(1))
    requirement = AssertRefSnapshotId(ref="main", snapshot_id=None)
    with pytest.raises(CommitFailedException):
        catalog.commit_table(table, (requirement,), (SetPropertiesUpdate(updates={"a": "1"}),))
    folder = catalog._metadata("shop.orders")
    for number in (3, 4):
        table.append(rows(number))
    (folder.path / "v3.metadata.json").unlink()
    with pytest.raises(VersionExistsError, match="v3"):
        folder.create(3, b"{}", False)
    assert ids(catalog) == [1, 3, 4]


def test_one_of_two_simultaneous_commits_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = MetadataFolder(tmp_path / "metadata")
    monkeypatch.setattr(MetadataFolder, "current", lambda self: None)  # neither sees the other's
    assert folder.create(1, b"first", False) == "v1.metadata.json"
    with pytest.raises(VersionExistsError):
        folder.create(1, b"second", False)
    assert sorted(os.listdir(folder.path)) == ["v1.metadata.json", "version-hint.text"]
    assert (folder.path / "v1.metadata.json").read_text() == "first"


def test_no_commit_of_many_writers_is_lost(catalog: HadoopCatalog) -> None:
    catalog.create_table("shop.orders", rows().schema)

    def write(number: int) -> None:
        while True:
            try:
                return catalog.load_table("shop.orders").append(rows(number))
            except CommitFailedException:
                pass

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(24)))
    assert ids(catalog) == list(range(24))


def test_purging_removes_files_elsewhere(catalog: HadoopCatalog, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    table = catalog.create_table("shop.orders", rows().schema, properties={"write.data.path": str(elsewhere)})
    table.append(rows(1))
    assert [path.suffix for path in elsewhere.rglob("*") if path.is_file()] == [".parquet"]
    catalog.purge_table("shop.orders")
    assert not [path for path in elsewhere.rglob("*") if path.is_file()]
    assert catalog.list_tables("shop") == []


def test_a_folder_that_another_process_has_removed_is_gone(tmp_path: Path) -> None:
    remove_tree(tmp_path / "gone")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        remove_tree(tmp_path / "file")
