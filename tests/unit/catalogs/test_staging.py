"""Versions that runs stage in the catalog `filesystem`: published together, or swept; without a JVM."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.duckdb_engine import DuckDBEngine
from support.projects import PLUGINS, compile_joints, profile, sink, sql
from support.tables import catalog, fill, ids, publish, refused

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.versions import lifecycle, records
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.execution.results import StagedResult
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.writing.publish_run import publish_run
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.project import Project
from rivet_dagster.testing.staging import StagingConformance


class TestStaging(StagingConformance):
    def new_catalog(self, folder: Path) -> FilesystemCatalog:
        return catalog(folder)

    @pytest.fixture
    def catalog(self, tmp_path: Path) -> FilesystemCatalog:
        return self.new_catalog(tmp_path)

    @pytest.fixture
    def session(self):
        with DuckDBEngine(EngineSpec("duck", "duckdb")).session() as session:
            yield session


PLAN = compile_joints(sql("n", "SELECT 1 AS id"), *(sink(name, "n") for name in ("a", "b", "c"))).raise_errors()


@pytest.fixture
def lake(tmp_path) -> FilesystemCatalog:
    return catalog(tmp_path, "lake")


@pytest.fixture
def runtime(tmp_path) -> Runtime:
    return Runtime(PLAN, tmp_path)


def stage(lake, table: str, values: list[int], identity: str = "run") -> StagedResult:
    staged = fill(lake.begin(table), values).stage(f"{identity}/{table}")
    return StagedResult(table, "lake", table, staged.version, staged.identity)


def age(root: Path, table: StagedResult, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(root / "lake/.rivet" / table.table / f"{table.version}.alive", (then, then))


def seen(root: Path) -> dict[str, list[int]]:
    return {name: ids(root / "lake" / name) for name in "abc" if (root / "lake" / name).exists()}


def test_the_tables_of_a_run_are_published_in_their_order(tmp_path, lake, runtime):
    publish(lake, [1], "a")
    tables = [stage(lake, name, [2]) for name in "abc"]
    assert seen(tmp_path) == {"a": [1]}
    told: list[str] = []
    publication = publish_run(runtime, tables, told.append)
    assert seen(tmp_path) == {"a": [2], "b": [2], "c": [2]}
    assert [text.split(":")[0] for text in told] == ["published lake.a", "published lake.b", "published lake.c"]
    assert {name: version.version for name, version in publication.published.items()} == {
        table.joint: table.version for table in tables
    }
    assert publish_run(runtime, tables).published == publication.published


def test_the_folder_is_listed_once_for_all_tables_of_a_run(tmp_path, lake, runtime, monkeypatch):
    """The version to which somebody's link leads stays, the other ones that expire go."""
    oldest = {name: publish(lake, [1], name).version for name in "abc"}
    for name in "abc":
        publish(lake, [2], name)
    (tmp_path / "lake/mine").symlink_to(f".rivet/b/{oldest['b']}")
    tables = [stage(lake, name, [3]) for name in "abc"]
    listed, listdir = [], os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: listed.append(Path(path)) or listdir(path))
    publish_run(runtime, tables)
    assert listed.count(tmp_path / "lake") == 1
    homes = {name: tmp_path / "lake/.rivet" / name / oldest[name] for name in "abc"}
    assert [name for name, home in homes.items() if home.exists()] == ["b"]
    assert ids(tmp_path / "lake/mine") == [1]


def test_a_last_step_that_died_between_two_tables_is_finished_by_the_next(tmp_path, lake, runtime, monkeypatch):
    tables = [stage(lake, name, [2]) for name in "abc"]
    commit, done = FilesystemTransaction.commit, []

    def dies(transaction, *arguments):
        if done:
            raise KeyboardInterrupt
        done.append(transaction.table)
        return commit(transaction, *arguments)

    monkeypatch.setattr(FilesystemTransaction, "commit", dies)
    with pytest.raises(KeyboardInterrupt):
        publish_run(runtime, tables)
    monkeypatch.undo()
    assert seen(tmp_path) == {"a": [2]}
    # Hours later a sweep comes, before the next attempt: half of a run is not left behind.
    monkeypatch.setattr(records, "now", lambda table: time.time() + 8 * 3600)
    assert lake.sweep() == ()
    monkeypatch.undo()
    publish_run(runtime, tables)
    assert seen(tmp_path) == {"a": [2], "b": [2], "c": [2]}
    assert [path.name for path in (tmp_path / "lake").rglob("*.alive")] == []


def test_a_conflict_publishes_nothing_and_withholds_all(tmp_path, lake, runtime):
    publish(lake, [1], "b")
    tables = [stage(lake, name, [2]) for name in "abc"]
    publish(lake, [9], "b", "other")
    error = refused(publish_run, runtime, tables)
    assert error.code == "RVT-405"
    (diagnostic,) = error.diagnostics
    assert "'b' was at" in diagnostic.message
    assert all(f"{table.joint} ({table.version})" in diagnostic.message for table in tables)
    assert f"rivet-dagster versions publish a {tables[0].version}" in diagnostic.remediation
    assert seen(tmp_path) == {"b": [9]}
    for table in tables:
        assert [v.name for v in lake.versions(table.table) if v.state == "withheld"] == [table.version]
    assert lake.sweep() == ()
    with lake.take_up("a", tables[0].version) as by_hand:
        by_hand.commit("by hand")
    assert seen(tmp_path) == {"a": [2], "b": [9]}


def test_a_table_that_was_swept_keeps_back_the_others(tmp_path, lake, runtime):
    tables = [stage(lake, name, [2]) for name in "ab"]
    age(tmp_path, tables[1], 61)
    assert lake.sweep() == (f"b/{tables[1].version}",)
    error = refused(publish_run, runtime, tables)
    assert (error.code, error.diagnostics[0].joint) == ("RVT-418", "b")
    assert seen(tmp_path) == {}
    assert lake.staged_by("a", "run/a") is not None


def test_the_sweep_removes_what_ended_runs_staged_and_nothing_else(tmp_path, lake):
    publish(lake, [1], "a")
    dead, alive = stage(lake, "a", [2], "dead"), stage(lake, "a", [3], "alive")
    kept = fill(lake.begin("a"), [4])
    kept.withhold("kept")
    age(tmp_path, dead, 61)
    assert lake.building() == tuple(sorted(f"a/{table.version}" for table in (dead, alive)))
    assert lake.sweep() == (f"a/{dead.version}",)
    assert sorted(version.state for version in lake.versions("a")) == ["current", "staged", "withheld"]
    assert lake.staged_by("a", "alive/a").version == alive.version


def test_a_version_that_a_sweep_is_removing_is_not_revived(tmp_path, lake, monkeypatch):
    """Files are removed without the lock that heartbeats need."""
    table, delete, revived = stage(lake, "a", [2]), lifecycle.delete, []
    age(tmp_path, table, 61)

    def revive_first(layout, versions):
        revived.extend(lake.keep_alive("a", version) for version in versions)
        delete(layout, versions)

    monkeypatch.setattr(lifecycle, "delete", revive_first)
    assert lake.sweep() == (f"a/{table.version}",)
    assert revived == [False]
    assert lake.staged_by("a", "run/a") is None


def test_a_version_that_comes_back_while_a_sweep_removes_it_stays(tmp_path, lake, monkeypatch):
    """As one of the base that another process makes an environment's, where a killed one had left a part of it."""
    table, delete = stage(lake, "a", [2]), lifecycle.delete
    age(tmp_path, table, 61)
    folder = tmp_path / f"lake/.rivet/a/{table.version}"

    def come_back_first(layout, versions):
        folder.mkdir()
        (folder / "part.parquet").touch()
        delete(layout, versions)

    monkeypatch.setattr(lifecycle, "delete", come_back_first)
    assert lake.sweep() == ()
    assert [path.name for path in folder.iterdir()] == ["part.parquet"]
    assert not folder.with_name(f"{folder.name}.removed").exists()


def test_heartbeats_ahead_are_not_shortened_by_later_ones(tmp_path, lake, monkeypatch):
    table = stage(lake, "a", [2])
    assert lake.keep_alive("a", table.version, 3600)
    assert lake.keep_alive("a", table.version)
    monkeypatch.setattr(records, "now", lambda table: time.time() + 3600)
    assert lake.sweep() == ()
    monkeypatch.setattr(records, "now", lambda table: time.time() + 3700)
    assert lake.sweep() == (f"a/{table.version}",)


def test_a_person_can_only_publish_what_is_withheld(lake):
    table = stage(lake, "a", [2])
    assert refused(lake.take_up, "a", table.version).code == "RVT-408"


def test_a_damaged_mark_is_one_of_a_withheld_version(tmp_path, lake):
    table = stage(lake, "a", [2])
    (tmp_path / "lake/.rivet/a" / f"{table.version}.kept").write_text("{broken")
    age(tmp_path, table, 61)
    assert lake.sweep() == ()


def test_marks_of_withheld_versions_are_as_before(tmp_path, lake):
    kept = fill(lake.begin("a"), [4])
    kept.withhold("kept")
    fields = json.loads((tmp_path / "lake/.rivet/a" / f"{kept.version}.kept").read_text())
    assert set(fields) == {"landed files", "inputs", "by", "code_versions"}


@pytest.mark.parametrize(
    ("publish", "code"), [("run", None), ("group", None), ("runs", "RVT-104"), ("${P}", "RVT-104")]
)
def test_publish_is_a_key_of_the_catalog(publish, code):
    base = profile()
    lake, workspace = base.catalogs
    lake = replace(lake, options={**lake.options, "publish": publish})
    joints = (sql("n", "SELECT 1 AS id"), sink("out", "n"), sink("other", "n"))
    plan = compile_project(Project(replace(base, catalogs=(lake, workspace)), joints, {}), PLUGINS)
    assert [error.code for error in plan.errors] == ([] if code is None else [code])
    if code is None:
        assert {group.target.publish for group in plan.fused_groups if group.name != "n"} == {publish}
        assert plan.group("n").target.publish == "group"
