"""A reader of a landing zone that is killed at any instant reads no file twice, loses none, and archives read files.

The relevant changes are those from the first one of the manifest to the last file that is archived.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from support.killing import PROCESSES, ended, kill_places, read_killed_before_a_change, start
from support.landing import archived, put, read, rows, rows_ever, zone_files

OLD, NEW, LATER = {"old.csv": "1 2"}, {"a.csv": "3", "b c.csv": "4 5", "d/*.csv": "6"}, {"later.csv": "7"}


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Let two tables read the old files, and only one of them the new files."""
    root = tmp_path_factory.mktemp("landed")
    put_files(root, OLD)
    read(root, "first")
    read(root, "second")
    put_files(root, NEW)
    read(root, "second")
    assert (archived(root), zone_files(root)) == (OLD, NEW)
    return root


def put_files(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        put(root, name, *map(int, text.split()))


def killed(root: Path, at: int) -> tuple[list[str], int | None]:
    """Kill the first table's reader; return its file system changes until then, and its exit code."""
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


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("next_run", ["a retry", "another run"])
def test_a_kill_before_a_file_system_change(landed, tmp_path, next_run):
    """For some changes from there on, or for each: kill the reader just before it, then run the next reader."""

    def fresh() -> Path:
        shutil.rmtree(tmp_path / "root", ignore_errors=True)
        return Path(shutil.copytree(landed, tmp_path / "root", symlinks=True))

    changes, code = killed(fresh(), -1)
    assert code == 0
    published, moved = [], []
    # Until the manifest is written the changes are those of a run without a landing zone.
    for at in kill_places(changes, 4, [change.endswith(".json") for change in changes].index(True)):
        root = fresh()
        done, code = killed(root, at)
        assert (code, len(done)) == (-signal.SIGKILL, at + 1)
        published.append(rows(root) == [3, 4, 5, 6])
        moved.append(len(archived(root)) - len(OLD))
        assert {**archived(root), **zone_files(root)} == {**OLD, **NEW}, done[-1]
        assert rows(root) in ([1, 2], [3, 4, 5, 6])
        put_files(root, LATER)
        read(root, "first", "mine" if next_run == "a retry" else "other")
        expected = NEW if next_run == "a retry" and published[-1] else {**NEW, **LATER}
        assert rows_ever(root) == sorted(int(n) for text in {**OLD, **expected}.values() for n in text.split())
        # The later file is not archived before the second table has read it.
        assert (archived(root), zone_files(root)) == ({**OLD, **NEW}, LATER), done[-1]
    assert published == sorted(published)
    assert moved == sorted(moved)
    assert set(moved) == {0, 1, 2}
    assert (published[0], published[-1]) == (False, True)
    assert [count for count, is_published in zip(moved, published, strict=True) if count and not is_published] == []
