"""A run killed between any two file system changes leaves the old or the new table, and the next run cleans up."""

import itertools
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from support.killing import (
    PROCESSES,
    announced_run,
    ended,
    kill_places,
    run_killed_after_a_step,
    run_killed_around_a_phase,
    run_killed_before_a_change,
    run_killed_within_the_manifest,
    start,
)
from support.standin import TABLE, run
from support.torture import examples

from rivet_dagster.execution.progress import BRANCH, CLEAN_UP, CONFIG, PUBLISH, QUALITY, WRITE

OLDEST, OLD, NEW, NEXT, LAST = ([*range(n, n + 7)] for n in range(0, 50, 10))
GATE = {"passes": 0, "fails": 1}


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: a kill loses nothing that was written, only a power failure does."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Publish as many versions of the table as are retained."""
    root = tmp_path_factory.mktemp("published")
    run(root, OLDEST)
    run(root, OLD)
    return root


def copy_of(published: Path, place: Path) -> Path:
    """Copy the catalog to a new folder."""
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(published, place, symlinks=True)
    return place


def ids(root: Path) -> list[int] | None:
    """Return the rows as two readers see them, or None without a table."""
    table = root / "lake" / TABLE
    if not os.path.lexists(table):
        return None
    found = sorted(pq.read_table(table)["id"].to_pylist())
    assert duckdb.sql(f"SELECT id FROM '{table}/*.parquet' ORDER BY id").fetchall() == [(n,) for n in found]
    return found


def bytes_of(root: Path) -> dict[str, bytes]:
    """Return all files of the published version."""
    table = (root / "lake" / TABLE).resolve()
    return {str(path.relative_to(root)): path.read_bytes() for path in table.rglob("*")}


def expire_heartbeats(root: Path) -> None:
    """Age all heartbeats, so that their runs count as dead."""
    for path in (root / "lake/.rivet" / TABLE).glob("*"):
        if path.suffix == ".alive" or path.name.startswith("."):
            os.utime(path, (0, 0), follow_symlinks=False)


def assert_next_run_cleans_up(root: Path) -> None:
    """Assert that a run after the dead one's heartbeat has expired publishes and removes its staged files."""
    table = root / "lake" / TABLE
    before = [os.path.basename(os.readlink(table))] if table.is_symlink() else []
    identities = publishers(root)
    expire_heartbeats(root)
    published = run(root, NEXT).published
    assert publishers(root) == {*identities, published.identity}
    assert ids(root) == NEXT
    expected_files = {
        name
        for version in (*before, published.version)
        for name in (version, f"{version}.files.json", f"{version}.json")
    }
    assert set(os.listdir(root / "lake/.rivet" / TABLE)) - {"publishers.jsonl"} == {*expected_files, "lock"}
    assert sorted(os.listdir(root / "lake/.rivet")) == [".gitignore", TABLE]
    assert sorted(os.listdir(root / "lake")) == [".rivet", TABLE]
    assert os.listdir(root) == ["lake"]


def publishers(root: Path) -> set[str]:
    """Return the publishers of the table's versions, including expired ones."""
    found, table = set(), root / "lake" / TABLE
    version = os.path.basename(os.readlink(table)) if table.is_symlink() else None
    while version is not None and (manifest := table.parent / f".rivet/{TABLE}/{version}.json").exists():
        fields = json.loads(manifest.read_text())
        found.add(fields["identity"])
        version = fields["base"]
    expired = table.parent / f".rivet/{TABLE}/publishers.jsonl"
    return found | {json.loads(line)["identity"] for line in (expired.open() if expired.exists() else ())}


def assert_next_runs_succeed(root: Path) -> None:
    """Assert that the next run succeeds, at once and after the heartbeat has expired."""
    assert run(root, LAST).published is not None
    assert ids(root) == LAST
    assert_next_run_cleans_up(root)


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("phase", [BRANCH, CONFIG, WRITE, QUALITY, PUBLISH, CLEAN_UP])
def test_a_kill_between_phases_leaves_the_old_table_or_after_publishing_the_new_one(published, tmp_path, phase, moment):
    root = copy_of(published, tmp_path / "root")
    before = bytes_of(root)
    violations = GATE["fails" if phase == CLEAN_UP else "passes"]
    assert ended(start(run_killed_around_a_phase, root, NEW, violations, phase, moment)) == -signal.SIGKILL
    if (phase, moment) == (PUBLISH, "after"):
        assert ids(root) == NEW
    else:
        assert ids(root) == OLD
        assert bytes_of(root) == before
    assert_next_runs_succeed(root)


STEPS = {
    "a version is begun": ("versions.lifecycle", "begin", OLD),
    "the dead are swept": ("version_folders", "sweep", OLD),
    "the engine's own files are gone": ("versions.lifecycle", "tidy", OLD),
    "the link is made": ("os", "symlink", OLD),
    "the link is switched": ("os", "replace", NEW),
    "the switch is on disk": ("versions.lifecycle", "switch", NEW),
    "the oldest version is removed": ("versions.lifecycle", "_remove_beside", NEW),
    "all that is too old is removed": ("versions.lifecycle", "expire", NEW),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_after_a_step_of_publishing(published, tmp_path, step):
    root = copy_of(published, tmp_path / "root")
    module, function, rows = STEPS[step]
    home = module if module == "os" else f"rivet_dagster.catalogs.filesystem.{module}"
    assert ended(start(run_killed_after_a_step, root, NEW, home, function)) == -signal.SIGKILL
    assert ids(root) == rows
    again = run(root, LAST)
    assert (again.rows.inserted, again.rows.deleted) == (len(LAST), len(rows))
    assert_next_runs_succeed(root)


def test_a_kill_within_the_manifest_leaves_the_old_table(published, tmp_path):
    root = copy_of(published, tmp_path / "root")
    before = bytes_of(root)
    assert ended(start(run_killed_within_the_manifest, root, NEW)) == -signal.SIGKILL
    assert [path for path in root.rglob("*.json") if not path.read_text().endswith("}\n")]
    assert bytes_of(root) == before
    assert_next_runs_succeed(root)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("first", "gate", "begin"),
    [(False, "passes", "out"), (True, "passes", "out"), (False, "fails", "_SUCCESS")],
    ids=["again", "first", "gated"],
)
def test_a_kill_before_a_file_system_change(published, tmp_path, first, gate, begin):
    """For some changes, or for each, from the first whose path ends with ``begin``: kill a run just before it."""

    def killed(at: int) -> tuple[list[str], int | None]:
        copy_of(published, root)
        if first:
            shutil.rmtree(root / "lake")
        test, child = PROCESSES.Pipe(duplex=False)
        process = start(run_killed_before_a_change, child, root, NEW, GATE[gate], at)
        child.close()
        return [*received(test)], ended(process)

    root = tmp_path / "root"
    changes, code = killed(-1)
    assert code == 0
    before, files = (None, {}) if first else (OLD, bytes_of(published))
    seen = []
    first_change = [change.endswith(begin) for change in changes].index(True)
    assert len(changes) - first_change > 10
    for at in kill_places(changes, 5, first_change):
        done, code = killed(at)
        assert (code, len(done)) == (-signal.SIGKILL, at + 1)
        seen.append(ids(root))
        assert seen[-1] == NEW or (seen[-1], bytes_of(root)) == (before, files), done[-1]
        assert_next_run_cleans_up(root)
    assert seen[0] == before
    assert seen == sorted(seen, key=[before, NEW].index)  # there is one switch from the old to the new rows
    assert (seen[-1] == NEW) == (gate == "passes")


def received(connection: Connection) -> Iterator[str]:
    """Receive messages until the other end is closed."""
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


def test_repeated_kills_at_random_instants(published, tmp_path):
    """Each run begins on the files of the killed ones before it; only kills before the end of a run count."""
    chance = random.Random(20)
    root = copy_of(published, tmp_path / "root")
    _, length = run_and_kill(root, [0], 0, None)
    table, inside = [0], 0
    for number in itertools.count(100):
        if inside > examples(6, 20) and number >= 100 + examples(12, 40):
            break
        assert number < 1000
        rows = [*range(number, number + 7)]
        violations = GATE[chance.choice(["passes", "passes", "fails"])]
        before = bytes_of(root)
        code, took = run_and_kill(root, rows, violations, chance.uniform(0, length))
        inside += code == -signal.SIGKILL
        if code == 0 and not violations:
            length = min(length, took)  # the machine was busier before
        found = ids(root)
        assert found == table or (found == rows and not violations)
        assert found == rows or bytes_of(root) == before
        table = found
        if chance.random() < 0.3:
            expire_heartbeats(root)
    assert_next_run_cleans_up(root)


def run_and_kill(root: Path, rows: list[int], violations: int, delay: float | None) -> tuple[int | None, float]:
    """Kill a run after ``delay`` seconds; return its exit code and how long it took."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(announced_run, child, root, rows, violations)
    child.close()
    assert test.recv() == "began"
    began = time.perf_counter()
    if delay is None:
        assert test.recv() == "ended"
    else:
        test.poll(delay)
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, signal.SIGKILL)
    return ended(process), time.perf_counter() - began
