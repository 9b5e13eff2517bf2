"""Signs of life: what a dead run staged is swept, what a living one stages is not, and the dead publish nothing."""

import os
import threading
import time
from pathlib import Path

import pytest
from support.folders import ProjectFolder
from support.tables import catalog, fill, ids, publish, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.cli.main import main
from rivet_dagster.execution.heartbeat import kept_alive
from rivet_dagster.model.storage import Staged


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "warehouse/.rivet/orders"


def silent_for(seconds: float, home: Path, staged: Staged) -> None:
    """Make the last sign of life so old."""
    then = time.time() - seconds
    os.utime(home / f"{staged.version}.alive", (then, then))


def test_a_living_run_is_never_swept(warehouse, home):
    staged = fill(warehouse.stage("orders", {}), [1])
    silent_for(50, home, staged)
    assert warehouse.sweep() == ()
    before = tree(home)
    other = warehouse.stage("orders", {})  # the next run of the table sweeps as well
    warehouse.discard(other)
    assert tree(home) == before
    assert warehouse.publish(staged, "run").statistics.rows == 1


def test_a_dead_run_is_swept_and_nothing_else(tmp_path, warehouse, home):
    publish(warehouse, [1])
    published = publish(warehouse, [2])
    before = tree(home)
    staged = fill(warehouse.stage("orders", {}), [3])
    silent_for(61, home, staged)
    assert warehouse.sweep() == (f"orders/{staged.version}",)
    assert tree(home) == before
    assert warehouse.sweep() == ()
    assert warehouse.current("orders") == published
    assert ids(tmp_path / "warehouse/orders") == [2]


def test_the_next_run_of_a_table_sweeps_it(warehouse, home):
    dead = fill(warehouse.stage("orders", {}), [1])
    silent_for(61, home, dead)
    publish(warehouse, [2])
    assert not [name for name in tree(home) if name.startswith(dead.version)]


def test_a_folder_without_any_sign_is_a_dead_runs(warehouse, home):
    publish(warehouse, [1])
    for name in ("00000007-0badcafe", "00000008-0badcafe"):
        (home / name).mkdir()
    (home / "00000008-0badcafe.json").write_text("{}")
    (home / "00000009-0badcafe.alive").touch()
    os.utime(home / "00000009-0badcafe.alive", (0, 0))
    (home / ".link-0badcafe").symlink_to("nowhere")
    os.utime(home / ".link-0badcafe", (0, 0), follow_symlinks=False)
    (home / ".link-1badcafe").symlink_to("nowhere")  # somebody's of this moment
    assert warehouse.sweep() == ("orders/00000007-0badcafe", "orders/00000008-0badcafe", "orders/00000009-0badcafe")
    assert not [name for name in tree(home) if "0badcafe" in name]
    assert ".link-1badcafe" in tree(home)


def test_a_run_that_was_silent_publishes_nothing(tmp_path, warehouse, home):
    publish(warehouse, [1])
    staged = fill(warehouse.stage("orders", {}), [2])
    silent_for(61, home, staged)
    error = refused(warehouse.publish, staged, "run")
    assert error.code == "RVT-406"
    assert "gave no sign of life for 61 s" in str(error)
    assert refused(warehouse.beat, staged).code == "RVT-406"
    warehouse.discard(staged)
    assert ids(tmp_path / "warehouse/orders") == [1]


def test_a_run_that_was_swept_publishes_nothing(tmp_path, warehouse, home):
    publish(warehouse, [1])
    staged = fill(warehouse.stage("orders", {}), [2])
    silent_for(61, home, staged)
    warehouse.sweep()
    assert refused(warehouse.beat, staged).code == "RVT-406"
    Path(staged.target.paths[0]).mkdir()  # its engine goes on writing
    fill(staged, [2])
    assert refused(warehouse.publish, staged, "run").code == "RVT-406"
    assert ids(tmp_path / "warehouse/orders") == [1]


def test_nothing_stays_of_what_was_published_or_discarded(warehouse, home):
    published = publish(warehouse, [1])
    warehouse.discard(warehouse.stage("orders", {}))
    assert [name for name in tree(home) if name.endswith(".alive")] == []
    assert published.version in tree(home)


def test_signs_are_given_while_a_block_runs_and_not_after(warehouse, home):
    staged = warehouse.stage("orders", {})
    file = home / f"{staged.version}.alive"
    with kept_alive(warehouse, staged, seconds=0.05):
        silent_for(30, home, staged)
        deadline = time.monotonic() + 10
        while time.time() - file.stat().st_mtime > 5:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    silent_for(30, home, staged)
    time.sleep(0.2)
    assert time.time() - file.stat().st_mtime > 25
    assert not [thread for thread in threading.enumerate() if thread.name == "rivet-alive-orders"]


def test_storage_that_is_away_for_a_moment_does_not_end_the_signs(warehouse, home):
    staged = warehouse.stage("orders", {})
    calls = []

    class Flaky:
        def beat(self, staged: Staged) -> None:
            calls.append(staged)
            raise OSError("stale file handle")

    with kept_alive(Flaky(), staged, seconds=0.01):
        deadline = time.monotonic() + 10
        while len(calls) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_sweep_on_the_command_line(tmp_path, capsys):
    project = ProjectFolder(tmp_path, {"joints/broken.sql": "SELECT FROM WHERE"})
    lake = catalog(tmp_path, "lake")
    publish(lake, [1])
    staged = fill(lake.stage("orders", {}), [2])
    silent_for(61, tmp_path / "lake/.rivet/orders", staged)
    assert main(["-p", str(project.root), "sweep"]) == 0
    assert capsys.readouterr().out == f"removed lake: orders/{staged.version}\n1 leftover of dead runs removed\n"
    assert main(["-p", str(project.root), "sweep"]) == 0
    assert capsys.readouterr().out == "0 leftovers of dead runs removed\n"
    assert ids(tmp_path / "lake/orders") == [1]
