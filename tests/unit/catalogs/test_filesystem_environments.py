"""Environments of the filesystem catalog, written without a JVM."""

import os
import shutil
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest
from support.conformance import with_some_cases
from support.duckdb_engine import DuckDBEngine
from support.environments import NAME, content, environment
from support.error_tables import ERRORS, messages, staged
from support.error_tables import publish as publish_with_errors
from support.tables import catalog, fill, ids, publish, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.files import data_files
from rivet_dagster.execution.clean_up import sweep
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.storage import CURRENT, OLDER, Provenance
from rivet_dagster.model.watermark import Override
from rivet_dagster.model.write_plan import Append
from rivet_dagster.testing.catalog import CatalogConformance


@pytest.fixture
def session():
    with DuckDBEngine(EngineSpec("duck", "duckdb")).session() as session:
        yield session


class TestCatalog(CatalogConformance):
    """The catalog itself."""

    def new_catalog(self, folder: Path) -> FilesystemCatalog:
        return FilesystemCatalog(CatalogSpec("lake", "filesystem", {"path": "lake"}), folder)


@pytest.mark.slow
@with_some_cases
class TestEnvironment(CatalogConformance):
    """An environment is a catalog like any other."""

    def new_catalog(self, folder: Path):
        return environment(catalog(folder, "lake"))


@pytest.mark.slow
@with_some_cases
class TestEnvironmentOfAFullCatalog(CatalogConformance):
    """So is one whose base has other tables."""

    def new_catalog(self, folder: Path):
        lake = catalog(folder, "lake")
        if lake.current("others") is None:
            publish(lake, [1], "others")
        return environment(lake)

    def test_published_tables_are_found_by_the_beginning_of_their_names(self, catalog, session):
        assert catalog.tables("others") == ("others",)


@pytest.fixture
def lake(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path, "lake")


def test_the_base_stays_byte_for_byte_the_same(tmp_path, lake):
    publish(lake, [1])
    publish_with_errors(lake, [2], ["bad"])
    before = content(tmp_path / "lake")
    there = environment(lake)
    publish_with_errors(there, [3], ["worse"])
    publish_with_errors(there, [4], None)
    publish(there, [5], "others")
    fill(there.begin("orders"), [6]).abort()
    there.sweep()
    there.evict(there.current("others"))
    assert content(tmp_path / "lake") == before
    assert lake.drop(NAME)
    assert content(tmp_path / "lake") == before


def test_the_bases_rows_are_shared_on_disk(tmp_path, lake, session):
    """A write that adds rows neither copies nor changes the base's files."""
    base = publish(lake, [1, 2])
    there = environment(lake)
    with there.begin("orders", session) as transaction:
        transaction.write(Append(), session.query("SELECT CAST(3 AS BIGINT) AS id"))
        assert transaction.base is not None
        new = transaction.commit("run")
    folders = [Path(c.read(version).paths[0]) for c, version in ((lake, base), (there, new))]
    (shared,) = folders[0].iterdir()
    assert (folders[1] / shared.name).stat().st_ino == shared.stat().st_ino
    assert [sorted(ids(folder)) for folder in folders] == [[1, 2], [1, 2, 3]]


def test_nothing_is_copied_until_a_table_is_written(tmp_path, lake):
    for number in range(20):
        publish(lake, [number], f"table_{number}")
    environment(lake)
    assert not list((tmp_path / "lake/.rivet/.environments").rglob("*.parquet"))


@pytest.mark.slow
def test_an_environment_of_a_thousand_tables_is_made_at_once(lake, tmp_path):
    publish(lake, [1])
    homes = tmp_path / "lake/.rivet"
    for number in range(1000):
        shutil.copytree(homes / "orders", homes / f"table_{number}", symlinks=True)
    began = time.perf_counter()
    environment(lake)
    assert time.perf_counter() - began < 1


def test_a_landed_file_that_the_base_has_consumed_is_known_there(lake):
    """What was read is recorded with the version, of which the environment has a copy."""
    file = LandedFile("a.csv", 1, 2)
    fill(lake.begin("orders"), [1]).commit("run", Provenance({"raw": ConsumedFiles((file,))}))
    there = environment(lake)
    fill(there.begin("orders"), [2]).abort()
    assert there.current("orders").landed["raw"].files == (file,)


def test_a_watermark_that_was_set_for_the_next_run_is_set_there_too(lake):
    base = publish(lake, [1])
    lake.override_watermark(base, Override("7"))
    there = environment(lake)
    transaction = there.begin("orders")
    assert there.watermark_override(there.current("orders")) == Override("7")
    new = fill(transaction, [2]).commit("run")
    assert there.watermark_override(new) is None
    there.override_watermark(new, Override("8"))
    assert lake.watermark_override(base) == Override("7")
    (merged,) = lake.merge(NAME)
    assert lake.watermark_override(merged) == Override("8")


def test_its_versions_and_a_rollback_there(lake):
    base = publish(lake, [1])
    there = environment(lake)
    assert [version.name for version in there.versions("orders")] == [base.version]
    new = publish(there, [2])
    assert [(v.name, v.state) for v in there.versions("orders")] == [(new.version, CURRENT), (base.version, OLDER)]
    with there.restage("orders", base.version) as transaction:
        back = transaction.commit("rollback")
    assert ids(there.read(back).paths[0]) == [1]
    (table,) = lake.built(NAME)
    assert table.same
    assert lake.current("orders") == base


def test_what_a_run_in_the_environment_withheld_stays_there(lake):
    publish(lake, [1])
    there = environment(lake)
    transaction = fill(there.begin("orders"), [2])
    transaction.withhold("run")
    assert lake.versions("orders")[-1].state == CURRENT
    assert there.versions("orders")[-1].name == transaction.version
    with there.take_up("orders", transaction.version) as taken:
        taken.commit("by hand")
    assert ids(there.read(there.current("orders")).paths[0]) == [2]


def test_an_error_table_is_read_beside_the_rows_of_the_same_environment(lake):
    publish_with_errors(lake, [1], ["base"])
    there = environment(lake)
    assert messages(there.relation(ERRORS, {}).paths[0]) == ["base"]
    publish_with_errors(there, [2], ["there"])
    assert messages(there.relation(ERRORS, {}).paths[0]) == ["there"]
    assert messages(lake.relation(ERRORS, {}).paths[0]) == ["base"]
    publish_with_errors(there, [3], None)
    assert refused(there.relation, ERRORS, {}).code == "RVT-403"


def test_a_merge_publishes_error_tables_too(tmp_path, lake):
    publish_with_errors(lake, [1], ["base"])
    there = environment(lake)
    publish_with_errors(there, [2], ["there"])
    lake.merge(NAME)
    assert ids(tmp_path / "lake/orders") == [2]
    assert messages(tmp_path / "lake" / ERRORS) == ["there"]


def test_a_merge_copies_nothing_and_leaves_only_a_name(tmp_path, lake):
    there = environment(lake)
    new = publish(there, [2])
    inode = next(Path(there.read(new).paths[0]).iterdir()).stat().st_ino
    lake.merge(NAME)
    assert next((tmp_path / "lake/orders").iterdir()).stat().st_ino == inode
    assert tree(tmp_path / "lake/.rivet/.environments/pr-7") == [".environment.json", ".lock", ".used"]
    assert sweep([lake]).names == ()
    lake.sweep_environments(timedelta(seconds=-1))
    assert not lake.is_merged(NAME)
    assert tree(tmp_path / "lake/.rivet/.environments") == [".lock"]


def test_the_retry_of_a_run_that_was_merged_finds_its_version(lake):
    publish(environment(lake), [2], run="run-1/orders")
    (merged,) = lake.merge(NAME)
    assert lake.published_by("orders", "run-1/orders").version == merged.version


def test_tables_are_merged_in_the_order_in_which_they_were_built(lake):
    there = environment(lake)
    for name in ("c", "a", "b"):
        publish(there, [1], name)
        time.sleep(0.002)
    assert [version.table for version in lake.merge(NAME)] == ["c", "a", "b"]


def test_all_tables_whose_base_has_moved_are_named(lake):
    there = environment(lake)
    for name in ("a", "b", "c"):
        publish(lake, [1], name)
        publish(there, [2], name)
    publish(lake, [3], "a")
    publish(lake, [3], "c")
    error = refused(lake.merge, NAME)
    assert [diagnostic.code for diagnostic in error.diagnostics] == ["RVT-405"] * 2
    assert ["'a'" in str(error), "'b'" in str(error), "'c'" in str(error)] == [True, False, True]
    assert "run it again" in str(error)


def test_a_table_that_the_base_publishes_during_the_merge_is_not_overwritten(tmp_path, lake, monkeypatch):
    there = environment(lake)
    for name in ("a", "b"):
        publish(lake, [1], name)
        publish(there, [2], name)
        time.sleep(0.002)
    begin_copy = FilesystemCatalog.begin_copy

    def overtaken(self, layout, *rest, **options):
        if layout.name == "b":
            publish(catalog(tmp_path, "lake"), [3], "b")
        return begin_copy(self, layout, *rest, **options)

    monkeypatch.setattr(FilesystemCatalog, "begin_copy", overtaken)
    assert refused(lake.merge, NAME).code == "RVT-405"
    monkeypatch.undo()
    assert [ids(tmp_path / "lake" / name) for name in ("a", "b")] == [[2], [3]]
    # The other table may be built anew there, and is merged then; what was merged is not published twice.
    moved = [table.table for table in lake.built(NAME) if table.moved]
    assert moved == ["b"]
    there.evict(there.current("b"))
    publish(there, [4], "b")
    assert [version.table for version in lake.merge(NAME)] == ["a", "b"]
    assert [ids(tmp_path / "lake" / name) for name in ("a", "b")] == [[2], [4]]
    assert len(lake.versions("a")) == 2


def test_a_file_system_without_hard_links(tmp_path, lake, monkeypatch):
    def unsupported(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(data_files.os, "link", unsupported)
    publish(lake, [1])
    there = environment(lake)
    fill(there.begin("orders"), [2]).commit("run")
    lake.merge(NAME)
    assert ids(tmp_path / "lake/orders") == [2]


def test_permissions_are_those_of_the_base(tmp_path, lake):
    base = publish_with_errors(lake, [1], ["secret"])
    home = tmp_path / "lake/.rivet/orders" / f"{base.version}.with_errors"
    (home / "rows").chmod(0o750)
    (home / "errors" / ERRORS).chmod(0o700)
    there = environment(lake)
    with staged(there, [2], ["secret"]) as transaction:
        assert transaction.whole.statistics.rows == 1  # judged, as in a run
        transaction.commit("run")
    (merged,) = lake.merge(NAME)
    home = tmp_path / "lake/.rivet/orders" / f"{merged.version}.with_errors"
    assert [(path.stat().st_mode & 0o777) for path in (home / "rows", home / "errors" / ERRORS)] == [0o750, 0o700]


def test_two_environments_at_once(lake):
    """Each builds upon the base, and nothing that one does is seen by the other."""
    publish(lake, [0])
    errors = []

    def work(name: str, number: int) -> None:
        try:
            for run in range(5):
                there = environment(catalog(lake.location.root, "lake"), name)
                publish(there, [number * 10 + run], run=f"{name}/{run}")
                assert ids(there.read(there.current("orders")).paths[0]) == [number * 10 + run]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(f"pr-{n}", n)) for n in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    seen = [ids(environment(lake, f"pr-{n}").relation("orders", {}).paths[0]) for n in (1, 2, 3)]
    assert (seen, ids(lake.relation("orders", {}).paths[0])) == ([[14], [24], [34]], [0])


def test_many_runs_that_seed_one_table_at_once(lake):
    """All but one are overtaken, and none takes the base's version for one that was built there."""
    publish(lake, [0])
    there = environment(lake)
    transactions, barrier = [], threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        transactions.append(there.begin("orders"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lake.built(NAME) == ()
    fill(transactions[0], [1]).commit("run")
    assert [refused(fill(each, [2]).commit, "other").code for each in transactions[1:]] == ["RVT-405"] * 3
    (table,) = lake.built(NAME)
    assert not table.moved


def test_a_dead_run_there_is_swept_with_the_base(tmp_path, lake):
    there = environment(lake)
    transaction = fill(there.begin("orders"), [1])
    assert lake.building() == (f"pr-7/orders/{transaction.version}",)
    for path in (tmp_path / "lake").rglob("*.alive"):
        os.utime(path, (0, 0))
    assert sweep([lake]).names == (f"lake: environment pr-7/orders/{transaction.version}",)
    assert lake.building() == ()


def test_what_interrupted_drops_and_creations_left_is_swept(tmp_path, lake):
    folders = tmp_path / "lake/.rivet/.environments"
    environment(lake)
    (folders / ".dropped-pr-6-0123abcd/.rivet").mkdir(parents=True)
    (folders / ".new-pr-5-0123abcd/.rivet").mkdir(parents=True)
    assert [one.name for one in lake.environments()] == [NAME]
    assert sweep([lake]).names == ("lake: environment pr-6",)
    os.utime(folders / ".new-pr-5-0123abcd", (0, 0))
    sweep([lake])
    assert {path.partition("/")[0] for path in tree(folders)} == {".lock", NAME}


def test_dropping_again_finishes_an_interrupted_drop(tmp_path, lake):
    left = tmp_path / "lake/.rivet/.environments/.dropped-pr-7-0123abcd/.rivet"
    left.mkdir(parents=True)
    assert lake.drop(NAME)
    assert not left.exists()
    assert not lake.drop(NAME)


def test_a_run_in_an_environment_that_is_dropped_meanwhile_fails(lake):
    there = environment(lake)
    transaction = fill(there.begin("orders"), [1])
    lake.drop(NAME)
    assert refused(transaction.commit, "run").code in ("RVT-404", "RVT-406")
    transaction.abort()
    assert (lake.environments(), lake.current("orders")) == ((), None)


@pytest.mark.parametrize("by", ["sweep", "creation"])
def test_what_an_engine_writes_after_a_drop_is_removed(tmp_path, lake, by):
    publish(lake, [1])
    late = fill(environment(lake).begin("orders"), [2])
    lake.drop(NAME)
    folder = Path(late.target.paths[0]) / "_temporary/0"
    folder.mkdir(parents=True)
    (folder / "part-0.parquet").touch()
    if by == "sweep":
        assert lake.sweep_environments() == (NAME,)
        assert tree(tmp_path / "lake/.rivet/.environments") == [".lock"]
    there = environment(lake)
    assert lake.built(NAME) == ()
    assert fill(there.begin("orders"), [3]).commit("run").statistics.rows == 1
    assert not folder.exists()
    assert lake.sweep_environments() == ()
    assert [environment.tables for environment in lake.environments()] == [("orders",)]


def test_names_that_are_none(lake):
    for name in ("", "PR-7", "-a", "a/b", "..", "a" * 65, "é"):
        assert refused(lake.use_environment, name, "default").code == "RVT-129"


def test_a_store_has_no_environments(tmp_path):
    remote = catalog(tmp_path, "s3a://bucket/raw")
    remote.use_environment(NAME, "default")
    assert remote.in_environment(NAME) is remote
    assert (remote.environments(), remote.built(NAME), remote.sweep_environments(), remote.drop(NAME)) == (
        (),
        (),
        (),
        False,
    )
    assert not remote.is_merged(NAME)
