"""Environments by branches of tables whose builds, merges and drops are killed before each commit."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.iceberg import declared
from support.iceberg_environments import (
    NAME,
    OLD,
    all_works,
    build_killed_before_a_step,
    data_files,
    drop_killed_before_a_step,
    merge_killed_before_a_step,
    of_environments,
    rows,
    run_there,
    seen,
    tables,
)
from support.iceberg_runs import APPEND, TABLE, Work, access_of, expire_heartbeats, lake, run
from support.killing import PROCESSES, ended, start
from support.tables import refused
from support.torture import some

from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.iceberg.writes import staged_table
from rivet_dagster.errors import RivetError

NEW = {"orders": [(3, 2, 2), (4, 2, 2)], "more": [(3, 2), (4, 2)]}
OLD_ROWS = {"orders": [(1, 1), (2, 1), (3, 1)], "more": None}
MESSAGES = {"orders": ["new"], "more": ["new"]}


@pytest.fixture(autouse=True)
def without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: a kill loses nothing that was written, only a power failure does."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


class Killed:
    """A catalog whose files are in one folder, and work on it that is killed before each commit in turn."""

    def __init__(self, root: Path, kind: str, before: Callable[[IcebergCatalog, Path], object]) -> None:
        self.root, self.folder, self.options = root, root / "lake", declared(kind, root / "lake")
        self.warehouse = self.folder / "warehouse"
        self._changes = ("commit of", "drop_table") if kind == "sqlite" else ("commit_table", "purge_table", "delete")
        before(lake(self.options, root), root)
        shutil.copytree(self.folder, root / "saved")

    def each(self, work: Callable[..., None], few: int = 4) -> Iterator[tuple[str, IcebergCatalog]]:
        """Yield steps before which the work has been killed, and the catalog as it was left."""
        steps, code = self._killed(work, -1)
        assert code == 0
        differ = [
            at
            for at, step in enumerate(steps)
            if step.startswith(self._changes) and not step.split()[0] == steps[at - 1].split()[0] == "delete"
        ]
        for at in some(differ, few):
            done, code = self._killed(work, at)
            assert (code, kinds(done)) == (-signal.SIGKILL, kinds(steps[: at + 1]))
            yield steps[at], lake(self.options, self.root)

    def seen(self) -> dict[str, Any]:
        return seen(self.options, self.root)

    def rows(self) -> dict[str, list[tuple] | None]:
        found = tables(self.options, self.root)
        return {name: rows(found[name]) if name in found else None for name in NEW}

    def _killed(self, work: Callable[..., None], at: int) -> tuple[list[str], int | None]:
        shutil.rmtree(self.folder)
        shutil.copytree(self.root / "saved", self.folder)
        test, child = PROCESSES.Pipe(duplex=False)
        process = start(work, child, self.options, self.root, at)
        child.close()
        steps = []
        while True:
            try:
                steps.append(test.recv())
            except EOFError:
                return steps, ended(process)


@pytest.mark.parametrize("kind", some(["hadoop", "sqlite"], 1))
def test_a_kill_of_a_merge_is_finished_by_the_same_command(tmp_path, kind):
    """Each table of the base is the old one or the new one; all are new in the end, and none is published twice."""
    place, found = Killed(tmp_path, kind, all_works), []
    for step, catalog in place.each(merge_killed_before_a_step):
        found.append(place.rows())
        assert all(found[-1][name] in (OLD_ROWS[name], NEW[name]) for name in NEW), step
        for name in NEW:
            expected = MESSAGES[name] if found[-1][name] == NEW[name] else ["old"]
            assert messages(catalog, name) in ([None] if found[-1][name] is None else [expected]), step
        if any(found[-1][name] == NEW[name] for name in NEW) and not catalog.is_merged(NAME):
            with pytest.raises(RivetError, match="RVT-415"):
                catalog.use_environment(NAME, "default")
        if catalog.is_merged(NAME):
            with pytest.raises(RivetError, match="RVT-415"):
                catalog.merge(NAME)
        else:
            catalog.merge(NAME)
        assert place.rows() == NEW, step
        assert {name: messages(catalog, name) for name in NEW} == MESSAGES, step
        assert [len(catalog.versions(name)) for name in NEW] == [2, 1], step
        assert catalog.environments() == (), step
        assert of_environments(place.options, place.root) == ["rivet_environments.state_pr_7_107cc1ad"], step
        expire_heartbeats(place.warehouse)
        catalog.sweep()
        assert catalog.building() == (), step
    assert [list(rows.values()).count(None) for rows in (found[0], found[-1])] == [1, 0]


def test_a_merge_that_was_killed_can_be_dropped(tmp_path, monkeypatch):
    """What it has published stays as it is, with all its files; what its last commit may publish stays for a day."""
    place, left = Killed(tmp_path, "hadoop", all_works), []
    for step, catalog in place.each(merge_killed_before_a_step):
        if catalog.is_merged(NAME):
            continue
        before = place.seen()
        expire_heartbeats(place.warehouse)
        assert catalog.drop(NAME), step
        assert place.seen() == before, step
        if of_environments(place.options, place.root):
            left.append(step)
            assert catalog.sweep_environments() == ()
            assert refused(catalog.use_environment, NAME, "default").code == "RVT-417"
            with monkeypatch.context() as patch:
                patch.setattr(staged_table, "OLDEST_REQUEST", timedelta())
                assert catalog.sweep_environments() == (NAME,)
        assert of_environments(place.options, place.root) == [], step
        assert catalog.environments() == ()
    assert all(step.startswith("commit_table shop.more") for step in left)
    assert left


@pytest.mark.nightly
@pytest.mark.parametrize("kind", some(["hadoop", "sqlite"], 1))
def test_a_kill_of_a_drop_is_finished_by_the_next_command_or_the_sweep(tmp_path, kind):
    """It is listed or not, the base is never touched, and in the end nothing of it is left."""
    place, listed, ways = Killed(tmp_path, kind, all_works), [], 0
    before, files = place.seen(), None
    for step, catalog in place.each(drop_killed_before_a_step, few=7):
        listed.append([environment.name for environment in catalog.environments()])
        assert place.seen() == before, step
        if of_environments(place.options, place.root) == []:  # only files of its record, which nothing names, are left
            assert not catalog.drop(NAME), step
        elif listed[-1]:
            assert catalog.drop(NAME), step
        elif (ways := ways + 1) % 3 == 1:
            assert catalog.sweep_environments() == (NAME,), step
        elif ways % 3 == 2:
            run_there(catalog, Work([5], 5, APPEND, identity="again/orders"), place.root)  # the name is free again
            assert [table.table for table in catalog.built(NAME)] == [TABLE], step
            assert catalog.drop(NAME), step
        else:
            assert catalog.drop(NAME), step
        assert of_environments(place.options, place.root) == [], step
        assert place.seen() == before, step
        files = files or data_files(place.warehouse)
        assert data_files(place.warehouse) == files, step
    assert (listed[0], listed[-1]) == ([NAME], [])
    assert ways > 1


def test_a_kill_while_a_table_is_first_written_there(tmp_path):
    """The base stays the same, nothing half is taken for a version, and a sweep removes what is left."""

    def before(catalog: IcebergCatalog, root: Path) -> None:
        run(catalog, OLD.having(errors=["old"]), root)

    place, found = Killed(tmp_path, "hadoop", before), []
    base = place.seen()
    for step, catalog in place.each(build_killed_before_a_step):
        assert place.seen() == base, step
        built = catalog.built(NAME)
        found.append([table.table for table in built])
        view = catalog.in_environment(NAME)
        assert messages(view, TABLE) == (["new"] if built else ["old"]), step
        expire_heartbeats(place.warehouse)
        catalog.sweep_environments()
        assert catalog.building() == (), step
        run_there(catalog, Work([5], 5, APPEND, adds=bool(built), identity="later/orders"), place.root)
        (table,) = catalog.built(NAME)
        assert (table.base.version, table.moved) == (catalog.current(TABLE).version, False), step
        expire_heartbeats(place.warehouse)
        assert catalog.sweep_environments(timedelta(seconds=-1)) == (NAME,), step
        assert of_environments(place.options, place.root) == [], step
        assert place.seen() == base, step
    assert found == sorted(found)
    assert found[0] != found[-1]


def kinds(steps: list[str]) -> list[str]:
    return [step.split()[0] for step in steps]


def messages(catalog, table: str) -> list[str] | None:
    current = catalog.current(table)
    relation = catalog.errors_of(current) if current is not None else None
    if relation is None:
        return None
    found = access_of(catalog).catalog.load_table(relation.identifier[1:])
    return found.scan(snapshot_id=relation.snapshot).to_arrow()["message"].to_pylist()
