"""A reader of a landing zone that is killed at any instant reads no file twice, loses none, and archives what was read.

What matters happens between the first change of the manifest and the last file that is moved away.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from support.killing import PROCESSES, ended, read_killed_before_a_change, start
from support.landing import archived, put, read, rows, rows_ever, zone_files

OLD, NEW, LATER = {"old.csv": "1 2"}, {"a.csv": "3", "b c.csv": "4 5", "d/*.csv": "6"}, {"later.csv": "7"}


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tables have read what was there, and what came then only one of them has."""
    root = tmp_path_factory.mktemp("landed")
    come(root, OLD)
    read(root, "first")
    read(root, "second")
    come(root, NEW)
    read(root, "second")
    assert (archived(root), zone_files(root)) == (OLD, NEW)
    return root


def come(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        put(root, name, *map(int, text.split()))


def killed(root: Path, at: int) -> tuple[list[str], int | None]:
    """What the first table's reader changed until it died, and how it ended."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(read_killed_before_a_change, child, root, "first", "mine", at)
    child.close()
    return [*received(test)], ended(process)


def received(connection: Connection) -> Iterator[str]:
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


@pytest.mark.parametrize("next_run", ["a retry", "another run"])
def test_a_kill_before_each_file_system_change(landed, tmp_path, next_run):
    """For each change from there on, a reader that dies just before it, and what the next one makes of that."""

    def fresh() -> Path:
        shutil.rmtree(tmp_path / "root", ignore_errors=True)
        return Path(shutil.copytree(landed, tmp_path / "root", symlinks=True))

    changes, code = killed(fresh(), -1)
    assert code == 0
    published, moved = [], []
    # What comes before the manifest is written is no other than without a landing zone.
    for at in range([change.endswith(".json") for change in changes].index(True), len(changes)):
        root = fresh()
        done, code = killed(root, at)
        assert (code, len(done)) == (-signal.SIGKILL, at + 1)
        published.append(rows(root) == [3, 4, 5, 6])
        moved.append(len(archived(root)) - len(OLD))
        assert {**archived(root), **zone_files(root)} == {**OLD, **NEW}, done[-1]
        assert rows(root) in ([1, 2], [3, 4, 5, 6])
        come(root, LATER)
        read(root, "first", "mine" if next_run == "a retry" else "other")
        expected = NEW if next_run == "a retry" and published[-1] else {**NEW, **LATER}
        assert rows_ever(root) == sorted(int(n) for text in {**OLD, **expected}.values() for n in text.split())
        # The later file waits for the second table.
        assert (archived(root), zone_files(root)) == ({**OLD, **NEW}, LATER), done[-1]
    assert published == sorted(published)
    assert moved == sorted(moved)
    assert set(moved) == {0, 1, 2}
    assert (published[0], published[-1]) == (False, True)
    assert [count for count, is_published in zip(moved, published, strict=True) if count and not is_published] == []
