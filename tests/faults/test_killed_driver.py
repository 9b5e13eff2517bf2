"""A Spark driver that is killed in the middle of a MERGE into an Iceberg table leaves the old rows."""

import os
import signal
from pathlib import Path

import duckdb
import pytest
from support.folders import sink
from support.iceberg import PACKAGES, session_with
from support.iceberg_folders import NAMESPACE, OPTIONS, IcebergFolder, profiles
from support.iceberg_runs import TABLE, UPSERT, Work, expire_heartbeats, heartbeats, lake, run
from support.maven import jars
from support.torture import at_length

from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.model.profile import CatalogSpec

from .conftest import wait_until

CLI = ("-m", "rivet_dagster.cli.process", "-p")
ROWS = 1_000_000
"""So many that writing them anew takes a second."""

MERGE = {"mode": "merge", "key_columns": ["id"]}
OLD, NEW = Work(range(ROWS), 1), f"SELECT id, 2L AS net FROM range({ROWS - 5}, {ROWS + 5})"
AGAIN = Work(range(ROWS - 5, ROWS + 5), 2, UPSERT, identity="again/out")
UPKEEP = {"rewrite_data_files": False, "rewrite_manifests": False, "remove_orphan_files": {"older_than": "1d"}}


@pytest.fixture
def published(tmp_path) -> IcebergFolder:
    """Write a project whose table has the old rows, of which its run updates some."""
    folder = IcebergFolder(
        tmp_path / "project",
        {"joints/changes.sql": NEW, "sinks/out.yaml": sink(TABLE, "changes", write_strategy=MERGE)},
    )
    run(lake(OPTIONS, folder.root), OLD, folder.root)
    return folder


def counts(folder: IcebergFolder) -> dict[int, int]:
    """Return the number of rows by their column ``net``, as two readers see it."""
    scan = folder.plain(TABLE).scan()
    by_pyiceberg = {row["values"]: row["counts"] for row in scan.to_arrow()["net"].value_counts().to_pylist()}
    files = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
    by_duckdb = duckdb.read_parquet(files).aggregate("net, count(*)").fetchall()
    assert dict(by_duckdb) == by_pyiceberg
    return by_pyiceberg


def files_of(folder: IcebergFolder) -> set[Path]:
    """Return the data files in the folder of the table, published or not, and the checksums of Hadoop."""
    return {path for path in (folder.root / "lake" / NAMESPACE / TABLE / "data").rglob("*") if path.is_file()}


@at_length
def test_a_kill_in_the_middle_of_a_merge_leaves_the_old_rows_and_the_next_run_cleans_up(published, start, application):
    paths = jars(*PACKAGES)
    before, main = files_of(published), published.plain(TABLE).metadata.current_snapshot_id
    of_driver = profiles()
    of_driver["default"]["engines"] = [of_driver["default"]["engines"][0] | {"jars": [str(path) for path in paths]}]
    published.write({"profiles.yaml": of_driver})
    process = start(*CLI, published.root, "run")
    wait_until(lambda: files_of(published) - before, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)

    # It was within the MERGE: the batch is stored, and rows are written that no snapshot has.
    refs, _, snapshots, tables, beats = published.state(TABLE)
    branch = next(name for name in refs if name != "main")
    assert {ref.snapshot_id for ref in refs.values()} == {main}
    assert sorted(tables) == [(NAMESPACE, TABLE), (NAMESPACE, f"{TABLE}__{branch}_batch")]
    assert (snapshots, beats) == ([main], [f"{branch}.heartbeat"])
    orphans = files_of(published) - before
    assert orphans
    assert counts(published) == {1: ROWS}

    assert lake(OPTIONS, published.root).sweep() == ()  # it has only just died
    expire_heartbeats(published.root)
    again = run(lake(OPTIONS, published.root), AGAIN, published.root)
    assert (again.record.inserted, again.record.updated) == (5, 5)
    assert counts(published) == {1: ROWS - 5, 2: 10}
    refs, _, snapshots, tables, beats = published.state(TABLE)
    assert (list(refs), len(snapshots), tables, beats) == (["main"], 2, [(NAMESPACE, TABLE)], [])
    assert heartbeats(published.root) == []

    # The rows that it was writing have no mark of their run: upkeep removes them once they are old.
    assert orphans <= files_of(published)
    for path in orphans:
        os.utime(path, (1e9, 1e9))
    options = {**OPTIONS, "default-namespace": NAMESPACE, "upkeep": UPKEEP}
    with session_with({"lake": options}, published.root) as session:
        report = IcebergCatalog(CatalogSpec("lake", "iceberg", options), published.root).upkeep(TABLE, session)
    assert report.orphans_deleted == len([path for path in orphans if path.suffix == ".parquet"])
    assert not orphans & files_of(published)
    assert counts(published) == {1: ROWS - 5, 2: 10}
