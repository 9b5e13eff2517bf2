"""Attempts of a run on an Iceberg catalog: each has a name of its own, and writes each statement once."""

import threading
import time

import pytest
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.manifest import ManifestFile
from pyiceberg.table.snapshots import Snapshot
from support.iceberg_duckdb import IcebergDuckDB
from support.iceberg_runs import (
    APPEND,
    ERRORS,
    NAMESPACE,
    TABLE,
    UPSERT,
    Work,
    expire_heartbeats,
    heartbeats,
    run,
    written,
)
from support.tables import refused

from rivet_dagster.catalogs.versions import heartbeat as heartbeats_of_runs

OLD = Work([1], 1)
NEW = Work([2, 3], 2, plan=APPEND, identity="new/orders")
NAME = (NAMESPACE, TABLE)


def ids(place) -> list[int]:
    return sorted(place.plain.load_table(NAME).scan().to_arrow()["id"].to_pylist())


def test_the_late_write_of_a_cancelled_attempt_is_not_in_its_retry(place):
    run(place.catalog, OLD, place.root)
    canceled = written(place.catalog, NEW, place.root)
    canceled.abort()
    retry = written(place.catalog, NEW, place.root)
    assert canceled.branch.startswith("rivet_new_orders_")
    assert canceled.branch != retry.branch
    table = place.plain.load_table(NAME)
    with table.manage_snapshots() as snapshots:  # as Iceberg's Java does for a branch that has been removed
        snapshots.create_branch(table.metadata.current_snapshot_id, canceled.branch)
    table.append(NEW.rows, branch=canceled.branch)
    published = retry.commit(NEW.identity)
    assert (published.record.inserted, published.record.deleted, ids(place)) == (2, 0, [1, 2, 3])
    written(place.catalog, NEW.having(identity="other/orders"), place.root).abort()
    assert set(place.plain.load_table(NAME).metadata.refs) == {"main"}


WORKS = {
    "append": NEW,
    "replace": Work([2, 3], 2),
    "upsert": NEW.having(plan=UPSERT),
    "columns": Work([2, 3], 2, adds=True),
    "errors": Work([2, 3], 2, errors=["some"]),
}


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_a_write_that_the_engine_carries_out_twice_is_not_published(place, work, monkeypatch):
    """As Spark Connect's client does that loses the operation on its server."""
    run(place.catalog, OLD.having(errors=["old"]), place.root)
    once = IcebergDuckDB.write

    def twice(session, frame, target, *arguments, **options):
        once(session, frame, target, *arguments, **options)
        if work.errors is None or ERRORS in target.identifier:
            once(session, frame, target, *arguments, **options)

    monkeypatch.setattr(IcebergDuckDB, "write", twice)
    error = refused(run, place.catalog, work, place.root)
    assert (error.code, "twice" in error.diagnostics[0].remediation) == ("RVT-407", True)
    assert ids(place) == [1]


@pytest.mark.parametrize("work", WORKS.values(), ids=WORKS)
def test_a_write_of_which_nothing_is_there_is_not_published(place, work, monkeypatch):
    """As with settings by which Iceberg's rows are staged elsewhere, for other tools to publish."""
    run(place.catalog, OLD.having(errors=["old"]), place.root)
    write = IcebergDuckDB.write

    def nothing(session, frame, target, *arguments, **options):
        if work.errors is not None and ERRORS not in target.identifier:
            write(session, frame, target, *arguments, **options)

    monkeypatch.setattr(IcebergDuckDB, "write", nothing)
    error = refused(run, place.catalog, work, place.root)
    assert (error.code, "`spark.wap.*`" in error.diagnostics[0].remediation) == ("RVT-407", True)
    assert ids(place) == [1]


def test_staging_tables_have_no_write_audit_publish_of_their_table(place):
    audited = {"properties": {"write.wap.enabled": "true", "write.parquet.page-row-limit": "7"}}
    for work in (OLD.having(options=audited), Work([2], adds=True, options=audited), Work([2], adds=False)):
        transaction = written(place.catalog, work, place.root)
        (staged,) = [name for name in place.plain.list_tables(NAMESPACE) if "__rivet_" in name[-1]]
        properties = place.plain.load_table(staged).metadata.properties
        assert ("write.wap.enabled" in properties, properties["write.parquet.page-row-limit"]) == (False, "7")
        transaction.commit(work.identity)
        kept = place.plain.load_table(NAME).metadata.properties.get("write.wap.enabled")
        assert kept == ("true" if work.options else None)


def test_heartbeats_go_on_after_errors_of_storage(place, monkeypatch):
    run(place.catalog, OLD, place.root)
    monkeypatch.setattr(heartbeats_of_runs, "SECONDS", 0.02)
    transaction = written(place.catalog, NEW, place.root)
    (heartbeat,) = heartbeats(place.root)
    create, failures = PyArrowFile.create, iter([OSError("timeout"), ValueError("of a client")])

    def fails_twice(file, overwrite=False):
        if file.location.endswith(heartbeat.name) and (error := next(failures, None)) is not None:
            create(file, overwrite).close()  # as a full disk leaves it
            raise error
        return create(file, overwrite)

    monkeypatch.setattr(PyArrowFile, "create", fails_twice)
    with transaction:
        heartbeat.write_text("")
        assert place.catalog.sweep() == ()
        written(place.catalog, OLD.having(identity="other/orders"), place.root).abort()
        deadline = time.monotonic() + 60
        while heartbeat.read_text() == "":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        transaction.commit(NEW.identity)
    assert ids(place) == [1, 2, 3]


def test_the_heartbeats_end_of_a_run_that_was_swept(place, monkeypatch):
    monkeypatch.setattr(heartbeats_of_runs, "SECONDS", 0.02)
    run(place.catalog, OLD, place.root)
    with written(place.catalog, NEW, place.root) as transaction:
        (heartbeat,) = heartbeats(place.root)
        heartbeat.unlink()
        deadline = time.monotonic() + 60
        while [thread for thread in threading.enumerate() if thread.name == "rivet-alive-orders"]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert refused(transaction.beat).code == "RVT-406"
    assert heartbeats(place.root) == []


def test_a_retry_after_an_attempt_that_was_killed_with_errors_staged(place):
    run(place.catalog, OLD.having(errors=["old"]), place.root)
    work = NEW.having(errors=["some"])
    written(place.catalog, work, place.root)  # killed
    expire_heartbeats(place.root)
    assert run(place.catalog, work, place.root).record.inserted == 2
    assert ids(place) == [1, 2, 3]
    for name in (NAME, (NAMESPACE, ERRORS)):
        assert set(place.plain.load_table(name).metadata.refs) == {"main"}
    assert heartbeats(place.root) == []


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("work", WORKS)
def test_the_manifest_lists_that_a_run_reads_do_not_grow_with_the_snapshots_of_the_table(place, monkeypatch, work):
    read: list[str] = []
    manifests = Snapshot.manifests

    def manifests_of(snapshot: Snapshot, io: FileIO) -> list[ManifestFile]:
        read.append(snapshot.manifest_list)
        return manifests(snapshot, io)

    monkeypatch.setattr(Snapshot, "manifests", manifests_of)
    counts = []
    for number in range(12):
        before = len(read)
        run(place.catalog, WORKS[work].having(identity=f"{number}/orders"), place.root)
        written(place.catalog, Work([4], 2, adds=True, identity="aborted/orders"), place.root).abort()
        counts.append(len(read) - before)
    assert counts[3] == counts[11] > 0, counts
