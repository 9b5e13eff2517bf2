"""A run of a group on each kind of catalog, killed after each of its phases, leaves the old table or the new one.

Kills before each step within the phases are tests/iceberg/test_killed_runs.py and test_nessie_runs.py, kills at random
instants test_killed_at_random.py.
"""

import signal

import duckdb
import pytest
from support.iceberg import KINDS
from support.iceberg_groups import run_ids, run_ids_killed_around_a_phase
from support.iceberg_runs import NAMESPACE, TABLE, expire_heartbeats, heartbeats, lake
from support.killing import ended, start

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.execution.progress import CLEAN_UP, PHASES, PUBLISH, QUALITY, WRITE


def ids(options, root) -> list[int]:
    """Return the ids as two readers see them that know nothing of this package's marks."""
    scan = connect_catalog("lake", options, root).load_table((NAMESPACE, TABLE)).scan()
    found = sorted(scan.to_arrow()["id"].to_pylist())
    files = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
    assert sorted(duckdb.read_parquet(files).fetchall()) == [(number,) for number in found]
    return found


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_kill_after_each_phase(kind, iceberg_options, tmp_path):
    """The next runs succeed, while the killed one may be alive yet and after it, and nothing of it is left then."""
    options = iceberg_options(kind)
    assert run_ids(options, tmp_path, [0], "first/orders").published is not None
    now = [0]
    for number, phase in enumerate(PHASES, start=1):
        # A run whose gate fails has staged all that it would publish, and removes it.
        new = [number, -1] if phase == CLEAN_UP else [number, number + 100]
        killed = f"killed-{phase}/orders"
        process = start(run_ids_killed_around_a_phase, options, tmp_path, new, killed, phase, "after")
        assert ended(process) == -signal.SIGKILL
        now = new if phase == PUBLISH else now
        assert ids(options, tmp_path) == now, phase

        catalog = lake(options, tmp_path)
        building, names = catalog.building(), [version.name for version in catalog.versions(TABLE)]
        assert len(heartbeats(tmp_path)) == (phase in (WRITE, QUALITY)), phase
        assert catalog.sweep() == (), "it has only just died"
        assert (catalog.building(), ids(options, tmp_path)) == (building, now), phase

        expire_heartbeats(tmp_path)
        now = [number + 10]
        published = run_ids(options, tmp_path, now, f"next-{phase}/orders").published
        assert published is not None
        assert ids(options, tmp_path) == now, phase
        assert [version.name for version in catalog.versions(TABLE)] == [published.version, *names], phase
        assert (catalog.building(), heartbeats(tmp_path)) == ((), []), phase
    plain = connect_catalog("lake", options, tmp_path)
    assert list(plain.list_tables(NAMESPACE)) == [(NAMESPACE, TABLE)]
    table = plain.load_table((NAMESPACE, TABLE))
    assert set(table.metadata.refs) == {"main"}
    assert len([table.scan(snapshot_id=entry.snapshot_id).to_arrow() for entry in table.metadata.snapshot_log]) == 8
