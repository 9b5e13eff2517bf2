"""Environments whose runs, merges and drops are killed before some changes of the file system, or before each."""

import os
import shutil
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from support.environments import NAME, build, content, drop, environment, merge, two_tables
from support.error_tables import ERRORS, messages
from support.error_tables import publish as publish_with_errors
from support.killing import PROCESSES, ended, kill_places, start, work_killed_before_a_change
from support.tables import catalog, ids, publish, refused, tree

from rivet_dagster.execution.clean_up import sweep


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: a kill loses nothing that was written, only a power failure does."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def killed(old: Path, root: Path, work: Callable[[Path], None], at: int) -> tuple[list[str], int | None]:
    """Kill ``work`` on a copy of ``old`` before its change number ``at``; return its changes and its exit code."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(old, root, symlinks=True)
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(work_killed_before_a_change, child, work, root, at)
    child.close()
    changes = []
    while True:
        try:
            changes.append(test.recv())
        except EOFError:
            break
    return changes, ended(process)


def kills(tmp_path: Path, work: Callable[[Path], None], few: int):
    """Yield the name of each change before which ``work`` has been killed, on a new copy of ``tmp_path/old``.

    At length it is killed before each change, else before those that matter most and ``few`` others.
    """
    root = tmp_path / "root"
    changes, code = killed(tmp_path / "old", root, work, -1)
    assert code == 0
    for at in kill_places(changes, few):
        done, code = killed(tmp_path / "old", root, work, at)
        assert (code, len(done)) == (-signal.SIGKILL, at + 1)
        yield done[-1]


def expire_heartbeats(root: Path) -> None:
    for path in root.rglob("*"):
        if path.suffix == ".alive" or path.name.startswith((".link-", ".clock-")):
            os.utime(path, (0, 0), follow_symlinks=False)


@pytest.mark.nightly
def test_a_kill_while_a_table_is_first_written_there(tmp_path):
    """The base stays the same, and the next run builds upon the base's rows: nothing half is taken for its version."""
    old = tmp_path / "old"
    publish_with_errors(catalog(old, "lake"), [1], ["old"])
    before, root = content(old / "lake"), tmp_path / "root"
    built = []
    for change in kills(tmp_path, build, 6):
        lake = catalog(root, "lake")
        assert content(root / "lake") == before, change
        there = environment(lake)
        seen = there.current("orders")
        rows, errors = ids(there.read(seen).paths[0]), messages(there.errors_of(seen).paths[0])
        assert (rows, errors) in (([1], ["old"]), ([2], ["new"])), change
        assert [table.table for table in lake.built(NAME)] == (["orders"] if rows == [2] else []), change
        built.append(rows == [2])
        transaction = there.begin("orders")
        (base,) = (transaction.base,)
        assert base is not None
        assert ids(base.relation.paths[0]) == rows, change
        transaction.abort()
        publish_with_errors(there, [3], None)
        (table,) = lake.built(NAME)
        assert (table.base.version, table.moved) == (lake.current("orders").version, False), change
        assert ids(there.read(table.base).paths[0]) == [1], change
        expire_heartbeats(root)
        sweep([lake])
        assert lake.building() == (), change
        home = root / "lake/.rivet/.environments/pr-7/.rivet/orders"
        left = {path.name.partition(".")[0] for path in home.iterdir() if path.name[0].isdigit()}
        assert left <= {version.name for version in there.versions("orders")} | {table.base.version}, change
        assert content(root / "lake") == before, change
    assert built == sorted(built)
    assert built[0] < built[-1]


def test_a_kill_of_a_merge_is_finished_by_the_same_command(tmp_path):
    """Each table of the base is the old one or the new one, all are new in the end, and none is published twice.

    A run in the environment would be lost: it is refused until the merge is finished.
    """
    two_tables(tmp_path / "old")
    root, found = tmp_path / "root", []
    new = {"orders": [2], "others": [2], "more": [2]}
    for change in kills(tmp_path, merge, 6):
        lake = catalog(root, "lake")
        found.append(seen(root))
        assert all(rows in ([1], [2], None) for rows in found[-1].values()), change
        if found[-1]["orders"] == [2]:
            assert refused(lake.use_environment, NAME, "default").code == "RVT-415", change
            assert refused(lake.in_environment(NAME).begin, "orders").code == "RVT-415", change
        assert messages(root / "lake" / ERRORS) == (["new"] if found[-1]["orders"] == [2] else ["old"]), change
        expire_heartbeats(root)
        if lake.is_merged(NAME):
            assert refused(lake.merge, NAME).code == "RVT-415", change
        else:
            lake.merge(NAME)
        assert seen(root) == new, change
        assert messages(root / "lake" / ERRORS) == ["new"], change
        assert [len(lake.versions(table)) for table in new] == [2, 2, 1], change
        assert lake.environments() == (), change
        sweep([lake])
        assert lake.building() == (), change
    assert [list(rows.values()).count([2]) for rows in (found[0], found[-1])] == [0, 3]


def test_a_kill_of_a_drop_is_finished_by_the_next_command_or_the_sweep(tmp_path):
    """It is there wholly or not at all, and the base is never touched."""
    two_tables(tmp_path / "old")
    before, root = content(tmp_path / "old/lake"), tmp_path / "root"
    listed = []
    for number, change in enumerate(kills(tmp_path, drop, 7)):
        lake = catalog(root, "lake")
        listed.append([environment.tables for environment in lake.environments()])
        assert listed[-1] in ([("more", "orders", "others")], []), change
        if listed[-1] or number % 2:
            assert lake.drop(NAME), change
        else:
            assert len(sweep([lake]).names) == 1, change
        assert tree(root / "lake/.rivet/.environments") in ([], [".lock"]), change
        assert not lake.drop(NAME)
        assert content(root / "lake") == before, change
        publish(environment(lake), [5])  # the name is free again
        assert ids(root / "lake/orders") == [1]
    assert (listed[0], listed[-1]) == ([("more", "orders", "others")], [])


def test_a_kill_while_an_abandoned_one_is_swept(tmp_path):
    """The next sweep removes what is left."""
    two_tables(tmp_path / "old")
    before, root = content(tmp_path / "old/lake"), tmp_path / "root"
    for change in kills(tmp_path, sweep_all, 6):
        lake = catalog(root, "lake")
        lake.sweep_environments(timedelta(seconds=-1))
        assert tree(root / "lake/.rivet/.environments") in ([], [".lock"]), change
        assert content(root / "lake") == before, change


def sweep_all(root: Path) -> None:
    catalog(root, "lake").sweep_environments(timedelta(seconds=-1))


def seen(root: Path) -> dict[str, list[int] | None]:
    """Return the rows that readers of the base see."""
    tables = {name: root / "lake" / name for name in ("orders", "others", "more")}
    return {name: ids(path) if path.exists() else None for name, path in tables.items()}
