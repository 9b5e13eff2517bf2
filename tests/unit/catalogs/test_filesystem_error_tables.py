"""Error tables: published with the rows by one switch, and as old as these in every version."""

import os
import shutil
from pathlib import Path
from unittest.mock import patch

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.error_tables import ERRORS, SCHEMA, Writer, errors, messages, publish, staged
from support.tables import catalog, fill, ids, recorded_syncs, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.versions import lifecycle, links
from rivet_dagster.catalogs.filesystem.versions.links import list_others
from rivet_dagster.errors import RivetError


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "warehouse"


@pytest.fixture
def home(lake: Path) -> Path:
    return lake / ".rivet/orders"


def age_heartbeats(home: Path) -> None:
    for path in home.glob("*.alive"):
        os.utime(path, (0, 0))


def published_errors(warehouse: FilesystemCatalog, table: str = "orders") -> list[str] | None:
    relation = warehouse.errors_of(warehouse.current(table))
    told = messages(relation.paths[0]) if relation is not None else None
    assert warehouse.has_errors(warehouse.current(table)) == bool(told)
    return told


def test_rows_and_errors_are_tables_of_their_own_to_every_reader(tmp_path, warehouse, lake):
    publish(warehouse, [1, 2], ["bad cast", "overflow"])
    (tmp_path / "moved").symlink_to(lake)
    for folder in (lake, tmp_path / "moved"):
        for name, column in (("orders", "id"), (ERRORS, "message")):
            table = str(folder / name)
            rows = [1, 2] if name == "orders" else ["bad cast", "overflow"]
            assert sorted(pq.read_table(table)[column].to_pylist()) == rows
            assert sorted(pd.read_parquet(table)[column]) == rows
            assert sorted(pl.read_parquet(table)[column]) == rows
            for path in (table, f"{table}/*.parquet", f"{table}/**/*.parquet"):
                found = duckdb.sql(f"SELECT * FROM read_parquet('{path}')").to_arrow_table()
                assert sorted(found[column].to_pylist()) == rows
            assert {path.suffix for path in Path(table).iterdir()} == {".parquet"}
    assert os.readlink(lake / ERRORS) == f"orders/../errors/{ERRORS}"


def test_nothing_is_seen_before_the_commit_and_nothing_is_left_by_an_abort(warehouse, lake):
    warehouse.begin("orders").abort()
    before = tree(lake)
    transaction = staged(warehouse, [1], ["bad cast"])
    assert sorted(path.name for path in lake.iterdir()) == [".rivet"]
    assert refused(warehouse.relation, ERRORS, {}).code == "RVT-403"
    transaction.abort()
    assert tree(lake) == before


def test_the_errors_of_the_old_version_are_seen_until_the_commit(warehouse, lake):
    publish(warehouse, [1], ["one"])
    before = tree(lake)
    transaction = staged(warehouse, [2], ["two"])
    assert (ids(lake / "orders"), messages(lake / ERRORS)) == ([1], ["one"])
    transaction.abort()
    assert tree(lake) == before
    publish(warehouse, [2], ["two"])
    assert (ids(lake / "orders"), messages(lake / ERRORS)) == ([2], ["two"])


def test_a_table_without_errors_has_their_columns_and_needs_no_engine(warehouse, lake):
    transaction = fill(warehouse.begin("orders"), [1])
    stored = transaction.write_errors(ERRORS, None)
    assert stored.statistics.rows == 0
    transaction.commit("run")
    found = pq.read_table(lake / ERRORS)
    assert (found.schema, found.num_rows) == (SCHEMA, 0)
    assert published_errors(warehouse) == []


def test_rows_of_several_calls_are_one_table(warehouse, lake):
    transaction = staged(warehouse, [1], [])
    first = transaction.write_errors(ERRORS, errors(["one", "two"]))
    whole = transaction.write_errors(ERRORS, errors(["three"]))
    assert transaction.write_errors(ERRORS, None).statistics.rows == 3
    assert (first.statistics.rows, whole.statistics.rows) == (2, 3)
    assert sorted(text for path in first.relation.paths for text in messages(path)) == ["one", "two"]
    assert refused(transaction.write_errors, "others", None).code == "RVT-404"
    transaction.commit("run")
    assert messages(lake / ERRORS) == ["one", "three", "two"]
    assert len(list((lake / ERRORS).iterdir())) == 2  # an empty file is removed


def test_each_version_keeps_its_own_errors(warehouse, lake):
    first = publish(warehouse, [1], ["one"])
    folder = Path(warehouse.errors_of(first).paths[0])
    second = publish(warehouse, [2], None)
    third = publish(catalog(lake.parent, versions=3), [3], ["three"])
    assert [warehouse.errors_of(version) and messages(warehouse.errors_of(version).paths[0])
            for version in (first, second, third)] == [["one"], None, ["three"]]  # fmt: skip
    assert messages(folder) == ["one"]
    publish(warehouse, [4], ["four"])
    assert [refused(warehouse.errors_of, version).code for version in (first, second)] == ["RVT-401"] * 2
    assert not folder.exists()
    assert messages(lake / ERRORS) == ["four"]


@pytest.mark.parametrize(("name", "links"), [(None, []), ("rejected", ["rejected"])])
def test_a_version_without_that_error_table_removes_its_link(warehouse, lake, name, links):
    publish(warehouse, [1], ["one"])
    publish(warehouse, [2], None) if name is None else publish(warehouse, [2], ["two"], name)
    assert sorted(path.name for path in lake.iterdir() if path.is_symlink()) == ["orders", *links]
    assert refused(warehouse.relation, ERRORS, {}).code == "RVT-403"
    assert [messages(lake / link) for link in links] == [["two"]] * len(links)
    publish(warehouse, [3], ["three"])
    assert messages(lake / ERRORS) == ["three"]


def test_links_of_other_error_tables_are_not_followed_for_an_expiring_version(warehouse, lake):
    """Only what is neither a table nor its error table may lead to one; a link that says otherwise is somebody's."""
    publish(warehouse, [1], ["bad"])
    assert list_others(lake) == ()
    (lake / "mine").symlink_to("orders/../errors/orders__errors")
    (lake / "absent__errors").symlink_to("absent/../errors/absent__errors")
    assert {path.name for path in list_others(lake)} == {"mine", "absent__errors"}


def test_a_link_that_a_killed_run_left_is_removed_by_the_next_sweep(warehouse, lake):
    published = publish(warehouse, [1], None)
    (lake / f".rivet/orders/{published.version}.alive").touch()
    (lake / ERRORS).symlink_to(f"orders/../errors/{ERRORS}")
    (lake / "other").symlink_to(f"orders/../errors/{ERRORS}")  # a person's
    (lake / "returns__errors").symlink_to("returns/../errors/returns__errors")  # of another table
    warehouse.sweep()
    assert sorted(path.name for path in lake.iterdir()) == [".rivet", "orders", "other", "returns__errors"]


OBSTACLES = {
    "a folder": lambda path: path.mkdir(),
    "a file": lambda path: path.touch(),
    "a link to elsewhere": lambda path: path.symlink_to(".rivet"),
}


@pytest.mark.parametrize("kind", OBSTACLES)
def test_what_stands_at_the_path_of_the_error_table_is_not_replaced(warehouse, lake, kind):
    publish(warehouse, [1], None)
    before = tree(lake)
    late = staged(warehouse, [2], ["two"])
    OBSTACLES[kind](lake / ERRORS)
    for call in (late.commit, late.commit):
        error = refused(call, "run")
        assert error.code == "RVT-404"
        assert f"{kind} that is not ours stands where the error table would be: {lake / ERRORS}" in str(error)
    late.abort()
    early = fill(warehouse.begin("orders"), [2])
    assert refused(early.write_errors, ERRORS, None).code == "RVT-404"
    early.abort()
    assert ids(lake / "orders") == [1]
    assert tree(lake) == sorted([*before, f"{ERRORS}"])


def test_neither_tables_nor_their_error_tables_take_the_place_of_others(warehouse, lake):
    publish(warehouse, [1], ["one"])
    assert refused(warehouse.begin, ERRORS).code == "RVT-404"
    assert warehouse.current(ERRORS) is None
    returns = fill(warehouse.begin("returns"), [2])
    for name in (ERRORS, "orders", "returns", "Returns", "../x", ".x", ""):
        assert refused(returns.write_errors, name, None).code == "RVT-404"
    returns.abort()
    assert messages(lake / ERRORS) == ["one"]


def test_a_rollback_brings_back_the_errors(warehouse, lake):
    first = publish(warehouse, [1], ["one"])
    publish(warehouse, [2], None)
    with warehouse.restage("orders", first.version) as transaction:
        third = transaction.commit("rollback")
    assert (ids(lake / "orders"), messages(lake / ERRORS)) == ([1], ["one"])
    assert published_errors(warehouse) == ["one"]
    assert third.version != first.version
    publish(warehouse, [4], ["four"])
    assert messages(warehouse.errors_of(third).paths[0]) == ["one"]


def test_a_withheld_version_is_published_with_its_errors(warehouse, lake, home):
    publish(warehouse, [1], ["one"])
    transaction = staged(warehouse, [2], ["two"], "rejected")
    transaction.withhold("monday")
    publish(warehouse, [3], ["three"])
    age_heartbeats(home)
    assert warehouse.sweep() == ()
    assert [(version.state, version.rows) for version in warehouse.versions("orders")][-1] == ("withheld", 1)
    with warehouse.take_up("orders", transaction.version) as taken_up:
        taken_up.commit("by hand")
    assert (ids(lake / "orders"), messages(lake / "rejected")) == ([2], ["two"])
    assert not os.path.lexists(lake / ERRORS)


def test_a_withheld_version_that_is_dropped_leaves_no_errors(warehouse, home):
    publish(warehouse, [1], ["one"])
    before = tree(home)
    transaction = staged(warehouse, [2], ["two"])
    transaction.withhold()
    warehouse.take_up("orders", transaction.version).abort()
    assert tree(home) == before


def test_the_errors_of_dead_runs_are_swept(warehouse, home):
    publish(warehouse, [1], ["one"])
    before = tree(home)
    dead = staged(warehouse, [2], ["two"])
    also_dead = staged(warehouse, [3], ["three"])
    shutil.rmtree(home / also_dead.version)  # only its error table is left
    (home / f"{also_dead.version}.alive").unlink()
    age_heartbeats(home)
    assert warehouse.sweep() == (f"orders/{dead.version}", f"orders/{also_dead.version}")
    assert tree(home) == before
    assert refused(dead.write_errors, ERRORS, None).code == "RVT-406"


def test_an_expired_version_leaves_no_file(tmp_path, lake):
    warehouse = catalog(tmp_path, versions=1)
    publish(warehouse, [1], ["one"])
    last = publish(warehouse, [2], ["two"])
    assert sorted(path.name.removeprefix(last.version) for path in (lake / ".rivet/orders").iterdir()) == [
        ".files.json", ".json", ".with_errors", "lock", "publishers.jsonl"
    ]  # fmt: skip


def test_a_table_is_evicted_with_its_errors(warehouse, lake, home):
    publish(warehouse, [1], ["one"])
    warehouse.evict(publish(warehouse, [2], ["two"]))
    assert [path.name for path in lake.iterdir()] == [".rivet"]
    assert tree(home) == ["lock"]
    assert warehouse.current("orders") is None
    publish(warehouse, [3], ["three"])
    assert messages(lake / ERRORS) == ["three"]


@pytest.mark.parametrize("place", ["rows", f"errors/{ERRORS}"])
def test_a_person_s_link_to_the_rows_or_the_errors_holds_the_version(tmp_path, warehouse, lake, place):
    first = publish(warehouse, [1], ["one"])
    (lake / "mine").symlink_to(f".rivet/orders/{first.version}.with_errors/{place}")
    for number in (2, 3, 4):
        publish(warehouse, [number], ["other"])
    assert ids(lake / "mine") == [1] if place == "rows" else messages(lake / "mine") == ["one"]
    assert ids(warehouse.read(first).paths[0]) == [1]
    assert {path.name[:8] for path in (lake / ".rivet/orders").glob("0*")} == {"00000001", "00000003", "00000004"}


@pytest.mark.parametrize("before", [None, ["one"]])
def test_errors_have_the_permissions_of_earlier_errors_or_else_of_the_table(warehouse, lake, before):
    publish(warehouse, [1], before)
    for name, folder_mode, file_mode in (("orders", 0o750, 0o640), (ERRORS, 0o700, 0o600)):
        if (lake / name).exists():
            (lake / name).chmod(folder_mode)
            for path in (lake / name).iterdir():
                path.chmod(file_mode)
    publish(warehouse, [2], ["two"])
    found = [path.stat().st_mode & 0o777 for path in (lake / ERRORS, *(lake / ERRORS).iterdir())]
    assert found == ([0o750, 0o640] if before is None else [0o700, 0o600])


def test_errors_that_have_changed_since_they_were_counted_are_not_published(warehouse, lake):
    publish(warehouse, [1], ["one"])
    transaction = staged(warehouse, [2], ["two"])
    (folder,) = (lake / ".rivet/orders").glob(f"{transaction.version}.with_errors/errors/{ERRORS}")
    pq.write_table(errors(["another"]), folder / "part-late.parquet")
    assert refused(transaction.commit, "run").code == "RVT-407"
    for path in folder.iterdir():
        path.unlink()
    assert refused(transaction.commit, "run").code == "RVT-402"
    assert messages(lake / ERRORS) == ["one"]


def test_errors_survive_a_power_failure(warehouse, lake, monkeypatch):
    """Files, folders and the link are synced before the switch."""
    transaction = staged(warehouse, [1], ["one"])
    synced, switch, before = recorded_syncs(monkeypatch), os.replace, []

    def replace(*paths: Path) -> None:
        before.extend(synced)
        switch(*paths)

    monkeypatch.setattr(os, "replace", replace)
    transaction.commit("run")
    (file,) = (lake / ERRORS).iterdir()
    container = (lake / "orders").resolve().parent
    needed = [file, lake / ERRORS, container / "errors", container, container / "rows", container.parent, lake]
    assert {path.stat().st_ino for path in needed} <= set(before)


@pytest.mark.parametrize("call", ["rename", "symlink", "replace"])
@pytest.mark.parametrize("first", [True, False])
def test_a_failure_in_the_middle_of_publishing_leaves_the_old_version(warehouse, lake, monkeypatch, call, first):
    if not first:
        publish(warehouse, [1], None)
    transaction = staged(warehouse, [2], ["two"])

    def fail(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(KeyboardInterrupt):
        transaction.commit("run")
    monkeypatch.undo()
    assert not (lake / ERRORS).exists()
    assert (lake / "orders").exists() != first
    published = transaction.commit("run")
    assert (ids(lake / "orders"), messages(lake / ERRORS)) == ([2], ["two"])
    before = tree(lake)
    assert transaction.commit("run") == published
    transaction.abort()
    assert tree(lake) == before


def test_a_version_whose_publication_failed_is_withheld_and_removed_like_others(warehouse, lake, monkeypatch):
    publish(warehouse, [1], ["one"])
    before = tree(lake)
    transaction = staged(warehouse, [2], ["two"])
    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "switch", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            transaction.commit("run")
    transaction.withhold()
    assert warehouse.versions("orders")[-1].rows == 1
    warehouse.take_up("orders", transaction.version).abort()
    assert tree(lake) == before


def test_a_failed_cleanup_does_not_hide_that_the_version_is_published(warehouse, lake, monkeypatch):
    publish(warehouse, [1], ["one"])
    transaction = staged(warehouse, [2], None)
    unlink = Path.unlink

    def fail(path: Path, missing_ok: bool = False) -> None:
        if path.name == ERRORS:
            raise PermissionError(13, "Permission denied")
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", fail)
    assert transaction.commit("run").version == warehouse.current("orders").version
    monkeypatch.undo()
    publish(warehouse, [3], None)
    assert not os.path.lexists(lake / ERRORS)


def test_an_error_table_is_a_source_like_others(warehouse):
    publish(warehouse, [1], ["one"])
    relation = warehouse.relation(ERRORS, {})
    assert messages(relation.paths[0]) == ["one"]
    assert relation == warehouse.errors_of(warehouse.current("orders"))
    assert [(field.name, field.type) for field in warehouse.columns(ERRORS, {})] == [
        (name, {pa.int32(): "int", pa.string(): "string"}.get(type_, "timestamp"))
        for name, type_ in zip(SCHEMA.names, SCHEMA.types, strict=True)
    ]
    version = warehouse.data_version(ERRORS, {})
    assert warehouse.data_version(ERRORS, {}) == version
    publish(warehouse, [1], ["two"])
    assert warehouse.data_version(ERRORS, {}) != version
    assert messages(relation.paths[0]) == ["one"]
    assert warehouse.tables("") == ("orders",)


def test_files_of_an_earlier_release_are_not_shared(warehouse, lake):
    """They lack a column, and DuckDB and polars expect the columns of one file of a folder in all."""
    old = fill(warehouse.begin("orders", Writer()), [1])
    old.write_errors(ERRORS, errors(["old"]).drop_columns(["found_at"]))
    old.commit("old")
    with fill(warehouse.begin("orders", Writer()), [2]) as transaction:
        assert transaction.share_errors(ERRORS) is None
        stored = transaction.write_errors(ERRORS, errors(["old"]))
        assert stored.statistics.rows == 1
        transaction.commit("new")
    with fill(warehouse.begin("orders", Writer()), [3]) as transaction:
        assert transaction.share_errors(ERRORS) is not None
        transaction.write_errors(ERRORS, errors(["new"]))
        transaction.commit("newer")
    assert sorted(pl.read_parquet(str(lake / ERRORS))["message"]) == ["new", "old"]


def test_a_lost_manifest_loses_no_errors(warehouse, lake):
    published = publish(warehouse, [1], ["one"])
    (lake / f".rivet/orders/{published.version}.json").unlink()
    current = warehouse.current("orders")
    assert (current.version, current.statistics) == (published.version, published.statistics)
    assert published_errors(warehouse) == ["one"]


def test_statistics_and_columns_are_those_of_the_rows(warehouse):
    published = publish(warehouse, [1, 5], ["one"])
    assert published.statistics.columns == (("id", "bigint"),)
    assert warehouse.statistics(published).values["id"].max == 5
    assert warehouse.max_of(published, "id") == 5


def test_who_is_overtaken_publishes_no_errors(warehouse, lake):
    slow = staged(warehouse, [1], ["slow"])
    publish(warehouse, [2], ["fast"])
    with pytest.raises(RivetError, match="RVT-405"):
        slow.commit("slow")
    slow.abort()
    assert (ids(lake / "orders"), messages(lake / ERRORS)) == ([2], ["fast"])


def test_a_link_that_a_dead_run_left_is_removed_even_if_a_table_had_its_name(lake, warehouse):
    """The run died after it had switched readers to a version without errors."""
    warehouse.evict(fill(warehouse.begin(ERRORS), [1]).commit("run"))
    publish(warehouse, [1], ["bad"])
    with patch.object(links, "remove_replaced_link", side_effect=OSError):
        publish(warehouse, [2], None)
    assert (lake / ERRORS).is_symlink()
    assert warehouse.sweep() == ()
    assert not (lake / ERRORS).is_symlink()
