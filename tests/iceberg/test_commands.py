"""``rivet-dagster versions`` and ``sweep`` on Iceberg tables, without an engine."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from support.folders import ProjectFolder

from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.iceberg.commits.snapshots import new_snapshot_id
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
from rivet_dagster.catalogs.iceberg.metadata.summary import PublicationFacts
from rivet_dagster.catalogs.iceberg.writes.publishing import Release
from rivet_dagster.catalogs.iceberg.writes.staged_branch import begin_branch
from rivet_dagster.catalogs.iceberg.writes.staged_table import StagingTable, locate_version
from rivet_dagster.catalogs.iceberg.writes.withheld import Judged, withhold
from rivet_dagster.cli.main import main
from rivet_dagster.model.inputs import SnapshotPosition
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.storage import Record

LAKE = {"catalog": "hadoop", "warehouse": "warehouse", "default-namespace": "shop"}
COLUMNS = '{"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": true, "metadata": {}}]}'


class Shop:
    """A project whose sink is ``shop.orders``, and the writes of its runs by PyIceberg."""

    def __init__(self, root: Path) -> None:
        profile = {
            "catalogs": {"lake": {"type": "iceberg", **LAKE}},
            "engines": [{"name": "spark", "type": "pyspark", "catalogs": ["lake"]}],
        }
        sink = {"type": "sink", "catalog": "lake", "table": "orders", "upstream": ["numbers"]}
        files = {"profiles.yaml": {"default": profile}, "joints/numbers.sql": "SELECT 1 AS id", "sinks/out.yaml": sink}
        self.root = ProjectFolder(root, files).root
        self.catalog = IcebergCatalog(CatalogSpec("lake", "iceberg", LAKE), root)
        self.orders = self.catalog.access.open("orders")

    def publish(self, *ids: int, run: str) -> str:
        """Have a run replace all rows, and return its version."""
        location = locate_version(self.orders)
        upon = location.existing.metadata.current_snapshot_id if location.existing is not None else None
        heartbeat = ObjectHeartbeat(location.io, location.root, f"rivet_{run}_out")
        heartbeat.begin()
        staged = self.staging_table(heartbeat.key, heartbeat, *ids)
        before = len(self.ids()) if upon is not None else 0
        inputs = {"raw": SnapshotPosition("x", "y", 7)}
        publication = PublicationFacts(f"{run}/out", "", len(ids), before, Record(len(ids), 0, before), inputs)
        if upon is not None:
            staged.fence = begin_branch(self.orders, heartbeat.key, upon)
        release = Release(self.orders, upon, new_snapshot_id(), publication.properties())
        release.of_table(staged, staged.table.load().metadata.current_snapshot_id)
        staged.remove()
        heartbeat.end()
        return str(release.snapshot_id)

    def staging_table(self, key: str, heartbeat: ObjectHeartbeat, *ids: int) -> StagingTable:
        """Have a run stage rows in a table of their own."""
        staged = StagingTable(self.orders.staged(key), locate_version(self.orders), heartbeat, None)
        staged.make(COLUMNS)
        staged.table.load().append(rows(*ids))
        return staged

    def stage(self, key: str, *ids: int) -> str:
        """Have a run stage rows on the branch ``key``, and return its head."""
        begin_branch(self.orders, key, self.orders.load().metadata.current_snapshot_id, emptied=True)
        self.orders.load().append(rows(*ids), branch=key)
        return str(self.orders.load().metadata.refs[key].snapshot_id)

    def heartbeat(self, key: str, ago: timedelta) -> ObjectHeartbeat:
        table = self.orders.load()
        heartbeat = ObjectHeartbeat(table.io, table.metadata.location, key)
        heartbeat.begin()
        then = (datetime.now(UTC) - ago).isoformat()
        Path(heartbeat.path.removeprefix("file://")).write_text(then)
        return heartbeat

    def ids(self) -> list[int]:
        return sorted(self.orders.load().scan().to_arrow()["id"].to_pylist())


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


@pytest.fixture
def shop(tmp_path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def call(shop, capsys) -> Callable[..., tuple[int, str, str]]:
    def command(*arguments: str) -> tuple[int, str, str]:
        code = main(["-p", str(shop.root), *arguments])
        return code, *capsys.readouterr()

    return command


def withheld(shop: Shop, key: str, *ids: int) -> str:
    shop.stage(key, *ids)
    publication = PublicationFacts(f"{key}/out", "", len(ids), 2, Record(len(ids)))
    head = shop.orders.load().metadata.refs[key].snapshot_id
    withhold(shop.orders, key, f"77{len(ids)}", publication, None, Judged(head))
    return f"77{len(ids)}"


def test_list_shows_snapshots_with_their_times_states_and_inputs(shop, call):
    assert call("versions", "list", "out") == (0, "out: nothing is published\n", "")
    first = shop.publish(1, 2, run="run1")
    second = shop.publish(*range(1234), run="run2")
    kept_back = withheld(shop, "rivet_run3_out", 3)
    code, out, _ = call("versions", "list", "out")
    lines = [line.split() for line in out.splitlines()]
    assert code == 0
    assert [(line[0], line[1], line[-1]) for line in lines if line[0] != "from"] == [
        (second, "current", "run2/out"),
        (first, "older", "run1/out"),
        (kept_back, "withheld", "rivet_run3_out/out"),
    ]
    assert "1,234 rows" in out
    assert out.count("from raw  snapshot 7") == 2
    snapshots = {str(snapshot.snapshot_id): snapshot for snapshot in shop.orders.load().snapshots()}
    for version, _, _, _, moment, _ in (line for line in lines if line[0] in snapshots):
        assert round(datetime.fromisoformat(moment).timestamp() * 1000) == snapshots[version].timestamp_ms


def test_rollback_publishes_the_previous_snapshot_or_the_one_that_is_named(shop, call):
    first, second = shop.publish(1, 2, run="run1"), shop.publish(3, run="run2")
    files = {task.file.file_path for task in shop.orders.load().scan(snapshot_id=int(first)).plan_files()}
    code, out, _ = call("versions", "rollback", "out")
    assert (code, shop.ids()) == (0, [1, 2])
    current = shop.catalog.current("orders")
    assert out == f"out: readers see {current.version} now, 2 rows (rollback to {first})\n"
    assert {task.file.file_path for task in shop.orders.load().scan().plan_files()} == files
    assert (current.identity, current.rows_before, current.statistics.rows) == (f"rollback to {first}", 1, 2)
    assert call("versions", "rollback", "out", second)[0] == 0
    assert shop.ids() == [3]


@pytest.mark.parametrize("version", ["123", "orders", ""])
def test_a_version_that_is_not_there_is_an_error(shop, call, version):
    shop.publish(1, run="run1")
    code, out, err = call("versions", "publish", "out", version or "0")
    assert (code, out) == (1, "")
    assert "has no withheld version" in err
    code, _, err = call("versions", "rollback", "out", *filter(None, [version]))
    assert (code, err.split()[0], shop.ids()) == (1, "RVT-408", [1])


def test_withheld_versions_are_published_or_dropped(shop, call):
    shop.publish(1, 2, run="run1")
    wanted, unwanted = withheld(shop, "rivet_run2_out", 3), withheld(shop, "rivet_run3_out", 4, 5)
    assert call("versions", "drop", "out", unwanted) == (0, f"out: {unwanted} is gone\n", "")
    code, out, _ = call("versions", "publish", "out", wanted)
    assert (code, shop.ids()) == (0, [3])
    assert "1 row (by hand, of 771)" in out
    assert set(shop.orders.load().metadata.refs) == {"main"}
    assert [version.state for version in shop.catalog.versions("orders")] == ["current", "older"]
    assert shop.catalog.published_by("orders", "rivet_run2_out/out").version == shop.catalog.current("orders").version


def test_a_sweep_removes_what_dead_runs_staged_and_nothing_else(shop, call):
    shop.publish(1, 2, run="run1")
    for key in ("rivet_dead_out", "rivet_alive_out", "rivet_silent_out", "mine"):
        shop.stage(key, 3)
    withheld(shop, "rivet_kept_out", 4)
    shop.heartbeat("rivet_dead_out", timedelta(seconds=90))
    alive = shop.heartbeat("rivet_alive_out", timedelta(seconds=5))
    dead = shop.heartbeat("rivet_gone_out", timedelta(hours=1))
    gone = shop.staging_table("rivet_gone_out", dead, 9)
    shop.staging_table("rivet_alive_out", alive, 9)
    (file,) = [task.file.file_path for task in gone.table.load().scan().plan_files()]
    code, out, err = call("sweep")
    assert (code, err) == (0, "")
    assert sorted(out.splitlines()) == [
        "3 leftovers of dead runs removed",
        "removed lake: shop.orders/rivet_dead_out",
        "removed lake: shop.orders/rivet_gone_out",
        "removed lake: shop.orders/rivet_silent_out",
    ]
    assert set(shop.orders.load().metadata.refs) == {"main", "rivet_alive_out", "rivet_kept_out", "mine"}
    tables = {name[-1] for name in shop.orders.catalog.list_tables("shop")}
    assert tables == {"orders", "orders__rivet_alive_out"}
    assert not Path(file.removeprefix("file://")).exists()
    assert shop.ids() == [1, 2]
    assert call("sweep")[1] == "0 leftovers of dead runs removed\n"
