"""Finding sources, and the options of the catalog and its tables, without an engine."""

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import tables
from support.tables import refused

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.registry import catalog_class, catalog_traits
from rivet_dagster.engines.registry import engine_class
from rivet_dagster.model.profile import CatalogSpec

CSV = {"header": "true", "enforceSchema": "false"}


def catalog(root: Path, **options: object) -> FilesystemCatalog:
    return tables.catalog(root, **{"path": "data", **options})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name in ("orders.csv", "days/1.csv", "days/2.csv", "days/_log.csv", "more/x.json.gz", "plain", "dir/part.orc"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("id\n1\n")
    return folder


@pytest.mark.parametrize(
    ("table", "format", "paths"),
    [
        ("orders.csv", "csv", ["orders.csv"]),
        ("days", "csv", ["days"]),
        ("days/*.csv", "csv", ["days/1.csv", "days/2.csv"]),
        ("days/[!2]*", "csv", ["days/1.csv"]),
        ("{days,more}/*", "csv", ["days/1.csv", "days/2.csv", "more/x.json.gz"]),
        ("more/x.json.gz", "json", ["more/x.json.gz"]),
        ("dir", "orc", ["dir"]),
        ("plain", "parquet", ["plain"]),
        ("../data/plain", "parquet", ["../data/plain"]),
    ],
)
def test_a_table_is_a_file_a_folder_or_a_glob(tmp_path, data, table, format, paths):
    found = catalog(tmp_path).relation(table, {})
    assert found.format == format
    assert list(found.paths) == [str(data / path) for path in paths]


def test_absolute_paths_and_local_uris(tmp_path, data):
    elsewhere = catalog(tmp_path / "other", path=data.as_uri())
    assert elsewhere.relation("orders.csv", {}).paths == (str(data / "orders.csv"),)
    assert elsewhere.relation(str(data / "days"), {}).paths == (str(data / "days"),)
    assert elsewhere.relation((data / "days").as_uri() + "/*.csv", {}).paths[0] == str(data / "days/1.csv")


def test_the_file_extension_of_the_catalogs_format_may_be_omitted(tmp_path, data):
    assert catalog(tmp_path, format="csv").relation("orders", {}).paths == (str(data / "orders.csv"),)
    assert refused(catalog(tmp_path).relation, "orders", {}).code == "RVT-403"


def test_a_missing_table_is_an_error_with_near_names(tmp_path, data):
    error = refused(catalog(tmp_path).relation, "order.csv", {})
    assert error.code == "RVT-403"
    assert "data/order.csv does not exist; did you mean 'orders.csv'?" in str(error)
    assert "nor does the folder data/nowhere" in str(refused(catalog(tmp_path).relation, "nowhere/x", {}))
    assert "no file matches data/days/*.json" in str(refused(catalog(tmp_path).relation, "days/*.json", {}))


def test_files_that_engines_ignore_are_no_data(tmp_path, data):
    for table in ("days/_log.csv", "days/_*"):
        assert refused(catalog(tmp_path).relation, table, {}).code == "RVT-403"
    (data / "empty").mkdir()
    assert "holds no data file" in str(refused(catalog(tmp_path).relation, "empty", {}))
    assert catalog(tmp_path).relation("empty", {"schema": "id INT", "format": "csv"}).format == "csv"


def test_names_with_glob_characters(tmp_path, data):
    (data / "a[1].csv").write_text("id\n1\n")
    assert catalog(tmp_path).relation("a[1].csv", {}).paths == (str(data / "a[1].csv"),)


def test_csv_has_a_header_that_is_checked_unless_the_user_says_otherwise(tmp_path, data):
    raw = catalog(tmp_path)
    assert raw.relation("orders.csv", {}).options == CSV
    given = {"schema": "id INT", "HEADER": False, "nullValue": "NA", "maxColumns": 9, "format": "csv"}
    expected = {"enforceSchema": "false", "schema": "id INT", "HEADER": "false", "nullValue": "NA", "maxColumns": "9"}
    assert raw.relation("orders.csv", given).options == expected
    (data / "x.tsv").write_text("id\n1\n")
    assert raw.relation("x.tsv", {}).options == {**CSV, "sep": "\t"}
    assert raw.relation("x.tsv", {"delimiter": ";"}).options == {**CSV, "delimiter": ";"}
    assert raw.relation("dir", {}).options == {}


def test_the_format_and_options_of_a_table_are_checked(tmp_path, data):
    raw = catalog(tmp_path)
    assert raw.relation("plain", {"format": "json"}).format == "json"
    assert "did you mean 'parquet'" in str(refused(raw.relation, "plain", {"format": "parqet"}))
    assert "`sep` must be a text, a number or a boolean, not nothing" in str(
        refused(raw.relation, "days", {"sep": None})
    )
    assert refused(raw.begin, "t", None, {"format": "csv"}).code == "RVT-204"
    assert raw.begin("t", None, {"compression": "zstd"}).target.options == {"compression": "zstd"}


def test_a_published_table_is_read_at_one_version(tmp_path):
    raw = catalog(tmp_path, format="csv")
    staged = raw.begin("orders")
    pq.write_table(pa.table({"id": [1]}), f"{staged.target.paths[0]}/part-0.parquet")
    published = staged.commit("run")
    for found in (raw.relation("orders", {}), catalog(tmp_path, path=".").relation("data/orders", {})):
        assert found == raw.read(published)


def test_a_link_to_a_file_keeps_its_name(tmp_path, data):
    (data / "blob").write_bytes(b"")
    (data / "linked.csv.gz").symlink_to("blob")
    assert catalog(tmp_path).relation("linked.csv.gz", {}).paths == (str(data / "linked.csv.gz"),)


def test_the_data_version_follows_the_files(tmp_path, data):
    raw = catalog(tmp_path)
    versions = [raw.data_version("days", {})]

    def changed() -> bool:
        versions.append(raw.data_version("days", {}))
        return versions[-1] != versions[-2]

    assert not changed()
    (data / "days/3.csv").write_text("id\n3\n")
    assert changed()
    (data / "days/3.csv").write_text("id\n33\n")
    assert changed()
    os.utime(data / "days/3.csv", ns=(0, 0))
    assert changed()
    (data / "days/3.csv").rename(data / "days/4.csv")
    assert changed()
    (data / "days/_log.csv").write_text("noise")
    (data / "days/.hidden").write_text("noise")
    (data / "days/_temporary").mkdir()
    (data / "days/_temporary/5.csv").write_text("id\n")
    assert not changed()
    (data / "days/loop").symlink_to(data / "days")
    assert not changed()
    assert raw.data_version("days/*.csv", {}) != raw.data_version("days/1.csv", {})
    assert refused(raw.data_version, "nothing", {}).code == "RVT-403"


def test_a_file_system_without_symbolic_links_is_rejected(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "symlink", refuse)
    assert refused(catalog(tmp_path).begin, "orders").code == "RVT-402"
    assert list((tmp_path / "data/.rivet/orders").iterdir()) == []


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "data").write_text("a file")
    assert refused(catalog(tmp_path).begin, "orders").code == "RVT-404"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "parqet"}, "must be one of parquet, csv, json, orc, not 'parqet'; did you mean 'parquet'?"),
        ({"versions": 0}, "`versions` must be a whole number of at least 1, not 0"),
        ({"versions": True}, "not true"),
        ({"path": None}, "`path` must be a path, not nothing"),
        ({"pth": "x"}, "has the unknown option 'pth'; did you mean 'path'?"),
    ],
)
def test_wrong_options_of_the_catalog(tmp_path, options, message):
    error = refused(lambda: catalog(tmp_path, **options))
    assert message in str(error)
    assert error.exit_code == 10


def test_a_missing_path_and_unexpanded_values(tmp_path):
    error = refused(FilesystemCatalog, CatalogSpec("raw", "filesystem", {"versions": "x"}), tmp_path)
    assert [d.code for d in error.diagnostics] == ["RVT-105", "RVT-104"]
    assert FilesystemCatalog.check({"path": "${HOME}", "format": "${F}", "versions": "${N}"}) == {}


def test_types_are_found_by_entry_point():
    assert catalog_class("filesystem") is FilesystemCatalog
    assert catalog_traits()["filesystem"].options == FilesystemCatalog.options
    assert "did you mean 'filesystem'" in str(refused(catalog_class, "filesytem"))
    error = refused(engine_class, "spark")
    assert error.code == "RVT-109"
    assert "pyspark" in str(error)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("orders.csv", ["orders.csv"]),
        ("days", ["days/1.csv", "days/2.csv"]),
        ("days/*.csv", ["days/1.csv", "days/2.csv"]),
        ("days/3.csv", []),
        ("days/*.json", []),
        ("2025", []),
    ],
)
def test_listed_files_are_those_that_are_read_or_none_yet(tmp_path, data, table, names):
    found = catalog(tmp_path).files(table, {})
    assert [file.path for file in found] == names
    assert {file.size for file in found} <= {5}
    assert [file.mtime_ns for file in found] == [(data / name).stat().st_mtime_ns for name in names]


@pytest.mark.parametrize("table", ["nowhere/orders.csv", "nowhere/*.csv"])
def test_listing_files_in_a_missing_folder_is_an_error(tmp_path, data, table):
    error = refused(catalog(tmp_path).files, table, {})
    assert error.code == "RVT-403"
    assert "nowhere" in str(error)


def test_an_unreadable_folder_is_not_empty(tmp_path, data, monkeypatch):
    def refuse(path, *_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refuse)
    error = refused(catalog(tmp_path).files, "days", {})
    assert error.code == "RVT-403"
    assert "data/days cannot be listed: Permission denied" in str(error)


@pytest.mark.parametrize("table", ["orders.csv", "days", "days/*.csv", "more", "plain"])
def test_relation_and_version_of_one_look_are_those_of_two(tmp_path, data, table):
    lake = catalog(tmp_path)
    assert lake.find(table, {}) == (lake.relation(table, {}), lake.data_version(table, {}))


def test_a_file_is_looked_up_once_for_its_relation_and_its_version(tmp_path, data, monkeypatch):
    looked_up, status = [], os.stat
    monkeypatch.setattr(os, "stat", lambda path, **options: looked_up.append(str(path)) or status(path, **options))

    def looks(look) -> int:
        looked_up.clear()
        look("days", {})
        return looked_up.count(str(data / "days"))

    lake = catalog(tmp_path)
    assert looks(lake.find) == looks(lake.data_version) > 0


@pytest.mark.parametrize("table", ["nowhere.csv", "nowhere/*.csv"])
def test_what_is_not_there_is_no_version(tmp_path, data, table):
    lake = catalog(tmp_path)
    assert str(refused(lake.find, table, {})) == str(refused(lake.relation, table, {}))
