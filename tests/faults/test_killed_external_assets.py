"""Killing the step of a plain asset between two file system changes leaves the old or the new rows, complete."""

import os
import shutil
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from support.external_assets import KEY, runtime, store_ids, stored_ids
from support.killing import PROCESSES, ended, kill_places, start, store_killed_before_a_change

from rivet_dagster.catalogs.filesystem.writes.staged_version import StagedVersion
from rivet_dagster.execution.clean_up import sweep
from rivet_dagster.execution.writing import external_assets
from rivet_dagster.model.external_assets import Part, external_table

OLD, NEW, NEXT = [1, 2], [3, 4, 5], [6]
DAYS = DAY, _ = Part("2024-01-01", "daily"), Part("2024-01-02", "daily")


def received(connection: Connection) -> list[str]:
    """Receive messages until the other end is closed."""
    found = []
    while True:
        try:
            found.append(connection.recv())
        except EOFError:
            return found


def leftovers(root: Path) -> list[str]:
    """Return the staged files that remain after all heartbeats have expired and a sweep."""
    home = root / ".rivet/workspace/.rivet"
    for path in home.glob("*/*"):
        if path.suffix == ".alive" or path.name.startswith("."):
            os.utime(path, (0, 0), follow_symlinks=False)
    sweep([runtime(root).catalog("workspace")])
    return [str(path) for path in home.glob("*/*") if path.suffix == ".alive" or path.name.startswith(".")]


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    ("before", "part"),
    [((None,), None), ((None,), DAY), (DAYS, None)],
    ids=["the whole again", "its first partition", "no partitions any more"],
)
def test_a_kill_before_a_file_system_change(tmp_path, monkeypatch, before, part):
    """For some changes, or for each; test_killed_runs.py covers those of publishing itself."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    root = tmp_path / "root"

    def killed(at: int) -> tuple[list[str], int | None]:
        shutil.rmtree(root, ignore_errors=True)
        root.mkdir()
        for ids, old in zip((OLD[:1], OLD[1:]) if len(before) == 2 else (OLD,), before, strict=True):
            store_ids(root, ids, old)
        test, child = PROCESSES.Pipe(duplex=False)
        process = start(store_killed_before_a_change, child, root, NEW, part, at)
        child.close()
        return received(test), ended(process)

    changes, code = killed(-1)
    assert code == 0
    assert stored_ids(root) == NEW
    seen = []
    for at in kill_places(changes, 4):
        done, code = killed(at)
        assert (code, len(done)) == (-signal.SIGKILL, at + 1)
        seen.append(stored_ids(root))
        assert leftovers(root) == []
        store_ids(root, NEXT, part)
        assert stored_ids(root) == NEXT
    assert seen == sorted(seen, key=[OLD, NEW].index)  # there is one switch from the old to the new rows
    assert {*map(tuple, seen)} == {tuple(OLD), tuple(NEW)}


def test_concurrent_processes_lose_no_rows_of_each_other(tmp_path):
    made = {0: DAYS[0], 1: DAYS[1], 2: DAYS[1], 3: Part("2024-01-03", "daily")}
    processes = [start(store_ids, tmp_path, [number], part) for number, part in made.items()]
    assert [ended(process) for process in processes] == [0] * 4
    assert stored_ids(tmp_path) in ([0, 1, 3], [0, 2, 3])
    assert leftovers(tmp_path) == []


def test_an_overtaken_process_publishes_on_top_of_the_other_version(tmp_path, monkeypatch):
    monkeypatch.setattr(external_assets.time, "sleep", lambda seconds: None)
    store_ids(tmp_path, OLD)
    audit, overtakers = StagedVersion.audit, [[7], [8]]

    def overtaken(staged):
        if overtakers:
            other = overtakers.pop()
            with monkeypatch.context() as patch:
                patch.setattr(StagedVersion, "audit", audit)
                store_ids(tmp_path, other)
        return audit(staged)

    monkeypatch.setattr(StagedVersion, "audit", overtaken)
    store_ids(tmp_path, NEW)
    assert stored_ids(tmp_path) == NEW
    assert overtakers == []
    home = tmp_path / ".rivet/workspace/.rivet" / external_table(KEY)
    assert len([path for path in home.iterdir() if path.is_dir()]) == 2
    assert leftovers(tmp_path) == []


def test_the_same_run_publishes_once(tmp_path):
    store_ids(tmp_path, OLD, identity="run/step")
    store_ids(tmp_path, NEW, identity="run/step")
    assert stored_ids(tmp_path) == OLD
    store_ids(tmp_path, NEW, identity="another run/step")
    assert stored_ids(tmp_path) == NEW
