"""Heartbeats: staged versions of dead runs are swept, those of live runs are not, and dead runs publish nothing."""

import json
import os
import re
import shutil
import threading
import time
from pathlib import Path
from unittest.mock import call, patch

import pyarrow as pa
import pytest
from support.folders import ProjectFolder
from support.tables import catalog, fill, ids, publish, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions import sweep as sweep_module
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.records import FileHeartbeat
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.catalogs.rewriting.intervals import EVERYTHING
from rivet_dagster.catalogs.versions import heartbeat
from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError
from rivet_dagster.model.watermark import Override


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "warehouse/.rivet/orders"


def age_heartbeat(seconds: float, home: Path, staged: FilesystemTransaction) -> None:
    """Age the last heartbeat by ``seconds``."""
    then = time.time() - seconds
    os.utime(home / f"{staged.version}.alive", (then, then))


def test_a_live_run_is_never_swept(warehouse, home):
    staged = fill(warehouse.begin("orders"), [1])
    age_heartbeat(50, home, staged)
    assert warehouse.sweep() == ()
    before = tree(home)
    other = warehouse.begin("orders")  # the next run of the table sweeps as well
    other.abort()
    assert tree(home) == before
    assert staged.commit("run").statistics.rows == 1


def test_a_dead_run_is_swept_and_nothing_else(tmp_path, warehouse, home):
    publish(warehouse, [1])
    published = publish(warehouse, [2])
    before = tree(home)
    staged = fill(warehouse.begin("orders"), [3])
    age_heartbeat(61, home, staged)
    assert warehouse.sweep() == (f"orders/{staged.version}",)
    assert tree(home) == before
    assert warehouse.sweep() == ()
    assert warehouse.current("orders") == published
    assert ids(tmp_path / "warehouse/orders") == [2]


def test_the_next_run_of_a_table_sweeps_it(warehouse, home):
    dead = fill(warehouse.begin("orders"), [1])
    age_heartbeat(61, home, dead)
    publish(warehouse, [2])
    assert not [name for name in tree(home) if name.startswith(dead.version)]


def test_a_folder_without_a_heartbeat_belongs_to_a_dead_run(warehouse, home):
    publish(warehouse, [1])
    for name in ("00000007-0badcafe", "00000008-0badcafe"):
        (home / name).mkdir()
    (home / "00000008-0badcafe.json").write_text("{}")
    for name in ("00000008-0badcafe", "00000009-0badcafe"):
        (home / f"{name}.alive").touch()
        os.utime(home / f"{name}.alive", (0, 0))
    (home / ".link-0badcafe").symlink_to("nowhere")
    os.utime(home / ".link-0badcafe", (0, 0), follow_symlinks=False)
    (home / ".link-1badcafe").symlink_to("nowhere")  # the one of a run that has just begun
    assert warehouse.sweep() == ("orders/00000007-0badcafe", "orders/00000008-0badcafe", "orders/00000009-0badcafe")
    assert not [name for name in tree(home) if "0badcafe" in name]
    assert ".link-1badcafe" in tree(home)


def test_a_run_without_a_recent_heartbeat_publishes_nothing(tmp_path, warehouse, home):
    publish(warehouse, [1])
    staged = fill(warehouse.begin("orders"), [2])
    age_heartbeat(61, home, staged)
    error = refused(staged.commit, "run")
    assert error.code == "RVT-406"
    assert re.search(r"gave no sign of life for 6\d s", str(error))  # one more second on a busy machine
    assert refused(staged.beat).code == "RVT-406"
    staged.abort()
    assert ids(tmp_path / "warehouse/orders") == [1]


def test_a_run_that_was_swept_publishes_nothing(tmp_path, warehouse, home):
    publish(warehouse, [1])
    staged = fill(warehouse.begin("orders"), [2])
    age_heartbeat(61, home, staged)
    warehouse.sweep()
    assert refused(staged.beat).code == "RVT-406"
    Path(staged.target.paths[0]).mkdir()  # its engine goes on writing
    fill(staged, [2])
    assert refused(staged.commit, "run").code == "RVT-406"
    assert ids(tmp_path / "warehouse/orders") == [1]


def test_publishing_and_discarding_leave_no_staged_files(warehouse, home):
    published = publish(warehouse, [1])
    warehouse.begin("orders").abort()
    assert [name for name in tree(home) if name.endswith(".alive")] == []
    assert published.version in tree(home)


def test_heartbeats_are_written_while_a_block_runs_and_not_after(warehouse, home, monkeypatch):
    staged = warehouse.begin("orders")
    file = home / f"{staged.version}.alive"
    monkeypatch.setattr(heartbeat, "SECONDS", 0.05)
    with staged:
        age_heartbeat(30, home, staged)
        deadline = time.monotonic() + 60
        while time.time() - file.stat().st_mtime > 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert not [thread for thread in threading.enumerate() if thread.name == "rivet-alive-orders"]


@pytest.mark.parametrize(
    "error", [OSError("stale file handle"), RivetError("RVT-403", "cannot be reached"), KeyError("of a client")]
)
def test_temporarily_unavailable_storage_does_not_end_the_heartbeat(warehouse, home, monkeypatch, error):
    staged = warehouse.begin("orders")
    calls = []

    def away() -> None:
        calls.append(1)
        raise error

    monkeypatch.setattr(heartbeat, "SECONDS", 0.01)
    monkeypatch.setattr(staged, "beat", away)
    with staged:
        deadline = time.monotonic() + 60
        while len(calls) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_sweep_on_the_command_line(tmp_path, capsys):
    project = ProjectFolder(tmp_path, {"joints/broken.sql": "SELECT FROM WHERE"})
    lake = catalog(tmp_path, "lake")
    publish(lake, [1])
    staged = fill(lake.begin("orders"), [2])
    age_heartbeat(61, tmp_path / "lake/.rivet/orders", staged)
    assert main(["-p", str(project.root), "sweep"]) == 0
    assert capsys.readouterr().out == f"removed lake: orders/{staged.version}\n1 leftover of dead runs removed\n"
    assert main(["-p", str(project.root), "sweep"]) == 0
    assert capsys.readouterr().out == "0 leftovers of dead runs removed\n"
    assert ids(tmp_path / "lake/orders") == [1]


def error_codes(staged: FilesystemTransaction) -> list[str]:
    """Return the error code of each method of a staged version."""
    rows = pa.table({"id": [1]}).to_reader()
    verbs = {
        "base": lambda: staged.base,
        "put": lambda: staged.put(rows),
        "added": staged._staged.added,
        "share": lambda: staged._staged.share(EVERYTHING),
        "whole": lambda: staged.whole,
        "beat": staged.beat,
        "commit": lambda: staged.commit("run"),
        "withhold": staged.withhold,
    }
    return [refused(verb).code for verb in verbs.values()]


@pytest.mark.parametrize("left", ["nothing", "folder", "files", "no table at all"])
def test_every_method_of_a_swept_run_raises_the_same_error(warehouse, home, left):
    publish(warehouse, [1])
    staged = fill(warehouse.begin("orders"), [2])
    age_heartbeat(61, home, staged)
    assert warehouse.sweep() == (f"orders/{staged.version}",)
    if left in ("folder", "files"):
        Path(staged.target.paths[0]).mkdir()  # its engine goes on writing
    if left == "files":
        fill(staged, [2])
    if left == "no table at all":
        shutil.rmtree(home)
    assert set(error_codes(staged)) == {"RVT-406"}
    staged.abort()


def test_other_errors_of_a_swept_run_are_reported_as_the_cause(warehouse, home):
    """Such as an engine whose files have been removed."""
    for error, code in ((RivetError("RVT-503", "no such file"), "RVT-503"), (KeyError("x"), None)):
        with pytest.raises(type(error)) as caught, warehouse.begin("orders"):
            raise error
        assert getattr(caught.value, "code", None) == code

    def wake() -> None:
        with warehouse.begin("orders") as staged:
            age_heartbeat(61, home, staged)
            warehouse.sweep()
            raise RivetError("RVT-503", "no such file")

    swept = refused(wake)
    assert (swept.code, swept.__cause__.code) == ("RVT-406", "RVT-503")


def test_a_late_heartbeat_does_not_revive_a_swept_run(warehouse, home):
    staged = fill(warehouse.begin("orders"), [1])
    file = home / f"{staged.version}.alive"
    age_heartbeat(100, home, staged)
    with patch("os.utime", wraps=os.utime) as renewed:
        assert "gave no sign of life for 100 s" in str(refused(staged.beat))
    assert call(file) not in renewed.mock_calls
    assert not file.exists()


def test_a_heartbeat_and_a_sweep_exclude_each_other(warehouse, home):
    """A sweep removes a dead version before it can be revived, and a heartbeat that waits for the lock is not swept."""
    staged, table = fill(warehouse.begin("orders"), [1]), TableLayout(home.parents[1], "orders")
    thread = threading.Thread(target=staged.beat)
    with lifecycle.hold_lock(table):
        age_heartbeat(30, home, staged)
        thread.start()
        thread.join(0.2)
        assert thread.is_alive()
    thread.join(10)
    assert not thread.is_alive()
    with lifecycle.hold_lock(table):
        age_heartbeat(70, home, staged)
        FileHeartbeat(table, staged.version).beat(since=time.time() - 30)  # it has waited that long for the lock
    assert warehouse.sweep() == ()


def test_processes_and_probe_folders_may_appear_and_vanish_during_a_sweep(warehouse, home, monkeypatch):
    publish(warehouse, [1])
    for name in (".clock-0badcafe", ".watermark-0badcafe", ".kept-0badcafe"):
        (home / name).touch()
        os.utime(home / name, (0, 0))

    def names_in(folder: Path) -> list[str]:
        found = listed(folder)
        for probe in folder.glob(".*-*"):
            probe.unlink()
        return found

    listed = sweep_module.names_in
    monkeypatch.setattr(sweep_module, "names_in", names_in)
    assert warehouse.sweep() == ()
    assert not [name for name in tree(home) if "0badcafe" in name]


def test_unknown_files_among_the_tables_are_ignored(tmp_path, warehouse, home):
    publish(warehouse, [1])
    foreign = ["../.DS_Store", "../.nfs0001", "../.gitignore", "../notes.txt", ".DS_Store", ".nfs0002", "notes.txt"]
    for name in foreign:
        (home / name).write_text("theirs")
    (home / "../my own folder").mkdir()
    (home / "00000009-0badcafe").write_text("a file in the place of a folder")
    assert warehouse.tables("") == ("orders",)
    assert [finding.status for finding in warehouse.examine(True)] == ["ok", "warn"]
    assert warehouse.sweep() == ("orders/00000009-0badcafe",)
    publish(warehouse, [2])
    assert all((home / name).read_text() == "theirs" for name in foreign)
    assert ids(tmp_path / "warehouse/orders") == [2]


DAMAGES = {
    "empty": "",
    "cut": '{"version": "0000',
    "a list": "[]",
    "without fields": "{}",
    "another type": '{"rows": 1, "rows_before": 1, "columns": 5}',
    "no text": "\udcff\udcfe",
    "newer": None,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("which", ["current", "older"])
def test_an_unreadable_manifest_stops_only_its_own_table(tmp_path, capsys, damage, which):
    project = ProjectFolder(tmp_path, {"joints/one.sql": "SELECT 1 AS id"})
    lake = catalog(tmp_path, "lake", versions=3)
    older, current = publish(lake, [1]), publish(lake, [2])
    publish(lake, [3], table="other")
    home = tmp_path / "lake/.rivet"
    manifest = home / f"orders/{(current if which == 'current' else older).version}.json"
    newer = json.dumps({**json.loads(manifest.read_text()), "from_tomorrow": 1})
    manifest.write_text(DAMAGES[damage] if DAMAGES[damage] is not None else newer, errors="surrogateescape")
    for table in ("orders", "other"):
        (home / table / "00000009-0badcafe").mkdir()
    before = tree(home / "orders")

    assert [(f.status, f.code) for f in lake.examine(True)] == [("fail", "RVT-407"), ("warn", None)]
    assert main(["-p", str(project.root), "sweep"]) == 1
    out, err = capsys.readouterr()
    assert out == "removed lake: other/00000009-0badcafe\n1 leftover of dead runs removed\n"
    assert (err.count("RVT-407"), str(manifest) in err) == (1, True)
    assert ("from_tomorrow" in err) == ("Update rivet_dagster" in err) == (damage == "newer")
    for ask in (lake.versions, lake.begin):
        assert refused(ask, "orders").code == "RVT-407"
    assert tree(home / "orders") == before
    assert ids(tmp_path / "lake/orders") == [2]
    publish(lake, [4], table="other")
    manifest.unlink()
    publish(lake, [5])


@pytest.mark.parametrize("text", ["", "{}", "[1]", "\udcff"])
def test_an_unreadable_watermark_is_one_clear_error(warehouse, home, text):
    published = publish(warehouse, [1])
    file = home / f"{published.version}.watermark"
    file.write_text(text, errors="surrogateescape")
    error = refused(warehouse.watermark_override, published)
    assert (error.code, str(file) in str(error)) == ("RVT-407", True)
    warehouse.override_watermark(published, Override("7"))
    assert warehouse.watermark_override(published) == Override("7")


def test_a_sweep_beside_a_live_run_reads_no_links_of_the_catalog(warehouse, home, monkeypatch):
    """A catalog has thousands of links, and the table is locked meanwhile."""
    fill(warehouse.begin("orders"), [1])
    looked = []
    monkeypatch.setattr(sweep_module, "find_unlinked", lambda table, versions: looked.extend(versions) or [])
    assert warehouse.sweep() == ()
    assert looked == []
