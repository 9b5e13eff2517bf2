"""Runs that sleep just before the commit that publishes, or are cancelled in it, while others sweep."""

import os
import signal
import threading
import time
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from support.iceberg_publications import publish, runtime, stage
from support.iceberg_runs import (
    APPEND,
    ERRORS,
    NAMESPACE,
    TABLE,
    Work,
    expire_heartbeats,
    heartbeats,
    lake,
    run,
    written,
)
from support.killing import PROCESSES, ended, start
from support.tables import refused
from support.torture import TORTURE

from rivet_dagster.catalogs.iceberg.commits import committing
from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog
from rivet_dagster.catalogs.iceberg.writes import staged_table
from rivet_dagster.errors import RivetError

OLD = Work([1, 2], 1, identity="old/orders")
APPENDED = Work([3], 2, plan=APPEND, identity="new/orders")
ADDED = Work([3], 2, adds=True, identity="new/orders")
FIRST = Work([3], 2, identity="new/orders")


def ids(place, name: str = TABLE) -> list[int]:
    """Return the column ``id`` of all rows, after reading all published versions."""
    if not place.plain.table_exists((NAMESPACE, name)):
        return []
    found = place.plain.load_table((NAMESPACE, name))
    for entry in found.metadata.snapshot_log:
        found.scan(snapshot_id=entry.snapshot_id).to_arrow()
    return sorted(found.scan().to_arrow()["id"].to_pylist())


def left(place) -> list[str]:
    """Return staging tables, branches and heartbeats."""
    names = place.plain.list_tables(NAMESPACE)
    refs = [ref for name in names for ref in place.plain.load_table(name).metadata.refs if ref != "main"]
    return [*(name[-1] for name in names if "__rivet_" in name[-1]), *refs, *map(str, heartbeats(place.root))]


def is_publication(updates: Any, name: str, table: Any) -> bool:
    """Return whether updates of a table make a snapshot the current one."""
    refs = [update.ref_name for update in updates if update.action == "set-snapshot-ref"]
    return table.name()[-1] == name and "main" in refs


@contextmanager
def just_before(monkeypatch, name: str, happens):
    """Have something happen just before the request that publishes a table is carried out, once."""
    commit, done = HadoopCatalog.commit_table, []

    def commit_table(catalog, table, requirements, updates):
        if is_publication(updates, name, table) and not done:
            done.append(name)
            happens()
        return commit(catalog, table, requirements, updates)

    monkeypatch.setattr(HadoopCatalog, "commit_table", commit_table)
    yield done
    assert done == [name]


def is_swept(place) -> None:
    """Have all runs look dead, and another process sweep what they have staged."""
    expire_heartbeats(place.root)
    lake(place.options, place.root).sweep()


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("errors", [None, ["bad"]])
@pytest.mark.parametrize("work", [APPENDED, ADDED])
def test_a_run_that_was_swept_while_it_slept_publishes_nothing(place, monkeypatch, work, errors):
    run(place.catalog, OLD, place.root)
    transaction = written(place.catalog, work.having(errors=errors), place.root)
    with just_before(monkeypatch, TABLE, lambda: is_swept(place)):
        assert refused(transaction.commit, work.identity).code == "RVT-406"
    assert ids(place) == [1, 2]
    transaction.abort()
    assert (ids(place), left(place)) == ([1, 2], [])
    assert not place.plain.table_exists((NAMESPACE, ERRORS))
    run(place.catalog, work, place.root)
    assert ids(place) == ([1, 2, 3] if work is APPENDED else [3])


def test_errors_that_were_swept_are_not_published(place, monkeypatch):
    run(place.catalog, OLD.having(errors=["old"]), place.root)
    transaction = written(place.catalog, ADDED.having(errors=["bad"]), place.root)
    with just_before(monkeypatch, ERRORS, lambda: is_swept(place)):
        assert refused(transaction.commit, ADDED.identity).code == "RVT-406"
    transaction.abort()
    errors = place.plain.load_table((NAMESPACE, ERRORS)).scan().to_arrow()["message"].to_pylist()
    assert (ids(place), errors, left(place)) == ([1, 2], ["old"], [])


@pytest.mark.parametrize("errors", [None, ["bad"]])
def test_a_first_version_whose_commit_may_be_under_way_stays_for_a_day(place, monkeypatch, errors):
    transaction = written(place.catalog, FIRST.having(errors=errors), place.root)
    with just_before(monkeypatch, TABLE, lambda: is_swept(place)):
        transaction.commit(FIRST.identity)
    assert (ids(place), left(place)) == ([3], [])


def test_a_first_version_that_was_swept_before_its_commit_begins_is_not_published(place, monkeypatch):
    mark, swept = staged_table.mark_publishing, []

    def marks(staging) -> None:
        is_swept(place)
        swept.append(staging)
        mark(staging)

    monkeypatch.setattr("rivet_dagster.catalogs.iceberg.writes.publishing.mark_publishing", marks)
    transaction = written(place.catalog, FIRST, place.root)
    assert refused(transaction.commit, FIRST.identity).code in ("RVT-403", "RVT-406")
    assert len(swept) == 1
    transaction.abort()
    assert (ids(place), left(place)) == ([], [])


def test_of_a_first_version_a_sweep_leaves_what_is_younger_than_a_request_may_be(place, monkeypatch):
    transaction = written(place.catalog, FIRST, place.root)

    def dies() -> None:
        raise SystemExit  # as if killed

    with just_before(monkeypatch, TABLE, dies), pytest.raises(SystemExit):
        transaction.commit(FIRST.identity)
    is_swept(place)
    (name,) = (name for name in left(place) if "__rivet_" in name)
    assert len(place.plain.load_table((NAMESPACE, name)).scan().to_arrow()) == 1
    assert place.catalog.sweep() == ()
    monkeypatch.setattr(staged_table, "OLDEST_REQUEST", staged_table.OLDEST_REQUEST * 0)
    assert place.catalog.sweep() == (f"{NAMESPACE}.{TABLE}/{transaction.branch}",)
    assert left(place) == []


@pytest.mark.parametrize("work", [APPENDED, ADDED])
def test_of_two_who_publish_and_drop_a_withheld_version_one_wins(place, monkeypatch, work):
    run(place.catalog, OLD, place.root)
    run(place.catalog, work.having(end="withhold"), place.root)
    is_swept(place)
    (version,) = [each.name for each in place.catalog.versions(TABLE) if each.state == "withheld"]

    def is_dropped() -> None:
        with lake(place.options, place.root).take_up(TABLE, version) as transaction:
            transaction.abort()

    by_hand = place.catalog.take_up(TABLE, version)
    with just_before(monkeypatch, TABLE, is_dropped):
        assert refused(by_hand.commit, "by hand").code == "RVT-406"
    by_hand.abort()
    assert (ids(place), left(place)) == ([1, 2], [])


@pytest.mark.parametrize("adds", [False, True])
def test_a_last_step_that_was_swept_while_it_slept_publishes_nothing(place, monkeypatch, adds):
    project = runtime(place.options, place.root, TABLE)
    publish(project, [stage(project, TABLE, 1, "old")])
    staged = [stage(project, TABLE, 2, "new", adds=adds)]
    with just_before(monkeypatch, TABLE, lambda: is_swept(place)):
        assert refused(publish, project, staged).code == "RVT-406"
    assert ids(place) == [1, 2]
    assert "more" not in place.plain.load_table((NAMESPACE, TABLE)).schema().column_names
    assert refused(publish, project, staged).code == "RVT-418"
    is_swept(place)
    assert left(place) == []


@pytest.mark.parametrize("work", [APPENDED, ADDED, FIRST])
def test_a_heartbeat_that_is_old_is_noticed_though_nobody_swept(place, work):
    if work is not FIRST:
        run(place.catalog, OLD, place.root)
    transaction = written(place.catalog, work, place.root)
    expire_heartbeats(place.root)
    assert refused(transaction.commit, work.identity).code == "RVT-406"
    transaction.abort()
    assert (ids(place), left(place)) == ([] if work is FIRST else [1, 2], [])


# Cancelled runs


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("patience", [0.1, 5.0])
@pytest.mark.parametrize("errors", [None, ["bad"]])
@pytest.mark.parametrize("work", [APPENDED, ADDED, FIRST])
def test_a_cancel_while_the_commit_is_under_way(place, monkeypatch, work, errors, patience):
    """The request goes on, and what it publishes is whole; what has not come to its end by then is left to a sweep."""
    monkeypatch.setattr(committing, "PATIENCE", patience)
    if work is not FIRST:
        run(place.catalog, OLD, place.root)
    before = ids(place)
    ended = threading.Event()

    def takes_long() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.6)
        ended.set()

    transaction = written(place.catalog, work.having(errors=errors), place.root)
    with just_before(monkeypatch, TABLE, takes_long), pytest.raises(KeyboardInterrupt), transaction:
        transaction.commit(work.identity)
    assert ended.wait(10)
    deadline = time.monotonic() + 10
    while ids(place) == before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert 3 in ids(place)
    assert place.catalog.published_by(TABLE, work.identity) is not None
    is_swept(place)
    assert (3 in ids(place), left(place)) == (True, [])
    if errors is not None:
        found = place.catalog.errors_of(place.catalog.current(TABLE))
        rows = place.plain.load_table((NAMESPACE, ERRORS)).scan(snapshot_id=found.snapshot).to_arrow()
        assert rows["message"].to_pylist() == ["bad"]


# Processes that are stopped


def stops_before_its_commit(test: Connection, options: dict[str, Any], root: Path, work: Work) -> None:
    """Run, stop just before the publication is linked, and send what has become of it."""
    commit = HadoopCatalog.commit_table

    def commit_table(catalog, table, requirements, updates):
        if is_publication(updates, TABLE, table):
            test.send("stops")
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)  # else another thread may be the first to stop
        return commit(catalog, table, requirements, updates)

    HadoopCatalog.commit_table = commit_table
    try:
        run(lake(options, root), work, root)
        test.send("published")
    except RivetError as error:
        test.send(error.code)


@pytest.mark.parametrize("work", [ADDED, APPENDED, FIRST] if TORTURE else [ADDED])
def test_a_process_that_is_stopped_for_longer_than_its_heartbeat(place, work):
    if work is not FIRST:
        run(place.catalog, OLD, place.root)
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(stops_before_its_commit, child, place.options, place.root, work)
    child.close()
    assert test.recv() == "stops"
    if TORTURE:
        time.sleep(65)
    else:
        expire_heartbeats(place.root)
    swept = lake(place.options, place.root).sweep()
    assert len(swept) == (0 if work is FIRST else 1)
    os.kill(process.pid, signal.SIGCONT)
    assert test.recv() == ("published" if work is FIRST else "RVT-406")
    assert ended(process) == 0
    assert (ids(place), left(place)) == ([3] if work is FIRST else [1, 2], [])
