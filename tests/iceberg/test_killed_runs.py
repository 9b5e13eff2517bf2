"""A run on Iceberg killed before any of its steps leaves the old or the new table, and what it staged is removed."""

import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import patch

import duckdb
import pytest
from support.iceberg import declared
from support.iceberg_runs import (
    ERRORS,
    NAMESPACE,
    TABLE,
    UPSERT,
    Work,
    expire_heartbeats,
    heartbeats,
    lake,
    run,
    run_killed_before_a_step,
)
from support.killing import PROCESSES, ended, start
from support.torture import some

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.catalogs.iceberg.writes import staged_table
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import WITHHELD

OLD = Work([1, 2, 3], 1)
OLD_ERRORS = replace(OLD, errors=["old"])
NEW = Work([3, 4], 2, identity="new/orders")
CASES = {
    "first with errors": ([], replace(NEW, errors=["new"])),
    "again": ([OLD], NEW),
    "merge": ([OLD], replace(NEW, plan=UPSERT)),
    "columns": ([OLD], replace(NEW, adds=True)),
    "first errors": ([OLD], replace(NEW, errors=["new"])),
    "errors again": ([OLD_ERRORS], replace(NEW, errors=["new"])),
    "gated": ([OLD_ERRORS], replace(NEW, adds=True, errors=["new"], end="abort")),
    "withheld": ([OLD_ERRORS], replace(NEW, errors=["new"], end="withhold")),
    "rollback": ([OLD_ERRORS, Work([5], 5, errors=["later"], identity="later/orders")], "rollback"),
}
Seen = tuple[list[tuple[int, ...]] | None, list[str] | None]


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: a kill loses nothing that was written, only a power failure does."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Lake:
    """A catalog whose files are in one folder, and how it was before a run."""

    def __init__(self, root: Path, kind: str) -> None:
        self.root, self.folder, self.options = root, root / "lake", declared(kind, root / "lake")
        self.warehouse = self.folder / "warehouse"
        self.catalog = lake(self.options, root)

    def save(self) -> None:
        """Remember the files."""
        self.warehouse.mkdir(exist_ok=True)
        shutil.copytree(self.folder, self.root / "saved")

    def restore(self) -> None:
        """Have the files that were there; they name each other by absolute paths."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.root / "saved", self.folder)
        self.catalog = lake(self.options, self.root)

    def seen(self) -> Seen:
        """Return the rows by two readers, and the errors of exactly these rows; None for a table that is not there."""
        plain = connect_catalog("lake", self.options, self.root)
        if not plain.table_exists((NAMESPACE, TABLE)):
            return None, None
        scan = plain.load_table((NAMESPACE, TABLE)).scan()
        rows = sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())
        files = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
        assert sorted(duckdb.read_parquet(files, union_by_name=True).fetchall()) == rows
        try:
            snapshot = self.catalog.relation(ERRORS, {}).snapshot
        except RivetError:  # these rows have no errors
            return rows, None
        errors = plain.load_table((NAMESPACE, ERRORS)).scan(snapshot_id=snapshot).to_arrow()
        return rows, sorted(errors["message"].to_pylist())

    def staged(self) -> list[str]:
        """Return the branches, staging tables and heartbeats of runs."""
        plain = connect_catalog("lake", self.options, self.root)
        names = list(plain.list_tables(NAMESPACE)) if plain.namespace_exists(NAMESPACE) else []
        branches = [ref for name in names for ref in plain.load_table(name).metadata.refs if ref != "main"]
        tables = [name[-1] for name in names if name[-1] not in (TABLE, ERRORS)]
        return sorted([*branches, *tables, *map(str, heartbeats(self.warehouse))])

    def assert_is_plain(self) -> None:
        """Assert that nothing of a run is left, and that all versions and their errors can be read."""
        assert self.staged() == []
        plain = connect_catalog("lake", self.options, self.root)
        tables = plain.list_tables(NAMESPACE)
        for folder in (self.warehouse / NAMESPACE).iterdir():
            if (NAMESPACE, folder.name) not in tables:  # of a first write that was killed before it was committed
                assert folder.name in (TABLE, ERRORS)
                assert {path.suffix for path in folder.rglob("*")} <= {"", ".parquet", ".avro"}
        for name in tables:
            table = plain.load_table(name)
            for entry in table.metadata.snapshot_log:
                table.scan(snapshot_id=entry.snapshot_id).to_arrow()
            known = ("rivet.", "write.parquet.compression-codec", "write.metadata.delete-after-commit.enabled")
            assert all(key.startswith(known) for key in table.metadata.properties)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(("kind", "case"), [*(("hadoop", case) for case in CASES), ("sqlite", "errors again")])
def test_a_kill_before_each_step(tmp_path, kind, case):
    """Kill a run just before steps that change the catalog or the storage; before each of them in ``make torture``."""
    before, work = CASES[case]
    place = Lake(tmp_path, kind)
    for earlier in before:
        run(place.catalog, earlier, tmp_path)
    old = place.seen()
    place.save()
    steps, code = killed(place, work, -1)
    assert code == 0
    new = place.seen()
    assert (new != old) == (case not in ("gated", "withheld"))
    found = []
    differ = [
        at
        for at, step in enumerate(steps)
        if (matters(step, steps[at - 1]) if kind == "hadoop" else changes_the_database(step))
    ]
    for at in some(differ, 2):
        step = steps[at]
        place.restore()
        done, code = killed(place, work, at)
        assert (code, len(done)) == (-signal.SIGKILL, at + 1)
        found.append(place.seen())
        assert found[-1] in (old, new), step
        staged = place.staged()
        assert place.catalog.sweep() == ()  # it has only just died
        assert place.staged() == staged
        expire_heartbeats(place.warehouse)
        if len(found) % 2 and found[-1][0] is not None:
            assert_a_sweep_removes_it(place, found[-1])
        else:
            assert_the_next_run_removes_it(place)
    assert len(found) > 1
    assert found[0] == old
    assert found == sorted(found, key=[old, new].index)  # there is one switch


def matters(step: str, last: str) -> bool:
    """Return whether a kill before this step may differ from one before the next: it is not within a commit."""
    change, _, name = step.partition(" ")
    if change.startswith("os."):  # of a folder that is dropped: when it is renamed, and when one file is gone
        return ".dropped-" in name or (last.startswith("os.rename") and ".dropped-" in last)
    return not name.endswith(".avro")


def changes_the_database(step: str) -> bool:
    """Return whether the step is a change of a catalog in a database, between which files are as in any catalog."""
    return step.startswith(("commit ", "drop_table "))


def killed(place: Lake, work: Work | str, at: int) -> tuple[list[str], int | None]:
    """Kill a run before its step number ``at``; return its steps and its exit code."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(run_killed_before_a_step, child, place.options, place.root, work, at)
    child.close()
    return [*received(test)], ended(process)


def received(connection: Connection) -> Iterator[str]:
    """Receive messages until the other end is closed."""
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


def assert_a_sweep_removes_it(place: Lake, seen: Seen) -> None:
    """Assert that a sweep removes what is left, but neither published nor withheld versions."""
    versions = place.catalog.versions(TABLE)
    place.catalog.sweep()
    sweep_after_a_day(place)
    assert place.catalog.building() == ()
    assert (place.seen(), place.catalog.versions(TABLE)) == (seen, versions)
    drop_withheld(place)
    place.assert_is_plain()


def assert_the_next_run_removes_it(place: Lake) -> None:
    """Assert that the next run publishes and removes what is left, but neither published nor withheld versions."""
    versions = place.catalog.versions(TABLE)
    later = Work([7], 7, errors=["next"], adds=True, identity="next/orders")
    published = run(place.catalog, later, place.root)
    assert published is not None
    assert place.seen() == ([(7, 7, 7)], ["next"])
    names = [version.name for version in place.catalog.versions(TABLE)]
    assert sorted(names) == sorted([published.version, *(version.name for version in versions)])
    sweep_after_a_day(place)
    drop_withheld(place)
    place.assert_is_plain()


def sweep_after_a_day(place: Lake) -> None:
    """Remove the staging tables of first versions whose commit may have been sent, which a sweep leaves for a day."""
    plain = connect_catalog("lake", place.options, place.root)
    for name in plain.list_tables(NAMESPACE):
        properties = plain.load_table(name).metadata.properties
        if "__rivet_" in name[-1] and not marks(properties):
            assert staged_table.PUBLISHING in properties
    with patch.object(staged_table, "OLDEST_REQUEST", timedelta()):
        place.catalog.sweep()


def marks(properties: dict[str, str]) -> list[str]:
    """Return the properties that say that a version is withheld."""
    return [name for name in properties if name.startswith("rivet.withheld.")]


def drop_withheld(place: Lake) -> None:
    """Remove the withheld versions, as a person does."""
    for version in place.catalog.versions(TABLE):
        if version.state == WITHHELD:
            place.catalog.take_up(TABLE, version.name).abort()
