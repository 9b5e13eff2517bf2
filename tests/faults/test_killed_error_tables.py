"""A table and its error table are always of one version, whenever the run that publishes them is killed."""

import os
import shutil
import signal
from pathlib import Path

import pytest
from support.error_tables import ERRORS, messages, publish
from support.killing import PROCESSES, ended, kill_places, publish_killed_before_a_change, start
from support.tables import catalog, ids, tree

OLD, NEW, NEXT = 1, 2, 3


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: a kill loses nothing that was written, only a power failure does."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def seen(root: Path) -> tuple[int | None, str | None]:
    """Return the number of the version that readers of the table see, and that of readers of the error table."""
    table, errors = root / "lake/orders", root / "lake" / ERRORS
    rows = ids(table) if table.exists() else [None]
    texts = messages(errors) if errors.exists() else [None]
    assert (len(rows), len(texts)) == (1, 1)
    return rows[0], texts[0]


def published(root: Path, number: int, has_errors: bool) -> None:
    """Publish a version with this number in both of its tables."""
    publish(catalog(root, "lake"), [number], [str(number)] if has_errors else None)


def expire_heartbeats(root: Path) -> None:
    for path in (root / "lake/.rivet/orders").glob("*"):
        if path.suffix == ".alive" or path.name.startswith("."):
            os.utime(path, (0, 0), follow_symlinks=False)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("old", "new"),
    [(None, True), (False, True), (True, True), (True, False)],
    ids=["first", "first errors", "again", "without errors"],
)
def test_a_kill_before_a_file_system_change(tmp_path, old, new):
    """For some changes after the tables are written, or for each: kill a run just before it.

    The ``old`` version (None without one) and the ``new`` one have an error table or not.
    """
    before = (None, None) if old is None else (OLD, str(OLD) if old else None)
    after = (NEW, str(NEW) if new else None)
    if old is not None:
        published(tmp_path / "old", 0, True)  # so that another version expires
        published(tmp_path / "old", OLD, old)
    else:
        (tmp_path / "old").mkdir()
    root = tmp_path / "root"
    changes, code = killed(tmp_path / "old", root, new, -1)
    assert (code, seen(root)) == (0, after)
    written = max(number for number, change in enumerate(changes) if change.endswith("_SUCCESS"))
    assert len(changes) - written > 10
    found = []
    for at in kill_places(changes, 4, written):
        done, code = killed(tmp_path / "old", root, new, at)
        assert (code, len(done)) == (-signal.SIGKILL, at + 1)
        found.append(seen(root))
        assert found[-1] in (before, after), done[-1]
        assert_next_run_cleans_up(root, old, new, found[-1] == after)
    assert (found[0], found[-1]) == (before, after)
    assert found == sorted(found, key=[before, after].index)  # there is one switch


def killed(old: Path, root: Path, has_errors: bool, at: int) -> tuple[list[str], int | None]:
    """Kill a run on a copy of ``old`` before its change number ``at``; return its changes and its exit code."""
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(old, root, symlinks=True)
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(publish_killed_before_a_change, child, root, [NEW], [str(NEW)] if has_errors else None, at)
    child.close()
    changes = []
    while True:
        try:
            changes.append(test.recv())
        except EOFError:
            return changes, ended(process)


def assert_next_run_cleans_up(root: Path, old: bool | None, new: bool, is_new: bool) -> None:
    """Assert that another run publishes and leaves only the files of two versions."""
    expire_heartbeats(root)
    published(root, NEXT, True)
    assert seen(root) == (NEXT, str(NEXT))
    earlier = new if is_new else old
    versions = [earlier, True] if earlier is not None else [True]
    names = [name.partition(".") for name in os.listdir(root / "lake/.rivet/orders") if name[0] == "0"]
    expected = sorted(name for has in versions for name in ("files.json", "json", "with_errors" if has else ""))
    assert sorted(name for _, _, name in names) == expected
    assert len({version for version, _, _ in names}) == len(versions)
    published(root, NEXT + 1, False)
    assert seen(root) == (NEXT + 1, None)
    assert sorted(path for path in tree(root / "lake") if "/" not in path) == [".rivet", "orders"]
