"""The upkeep of Iceberg tables by Spark: what goes, what stays, and that versions stay what they were."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.folders import MANIFEST, ProjectFolder, source
from support.iceberg import declared
from support.joint_by_joint import QUICK
from support.spark import MASTER

from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.catalogs.iceberg.metadata.history import EXPIRED
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import only_rewrites
from rivet_dagster.catalogs.iceberg.metadata.summary import PublicationFacts, publication_of
from rivet_dagster.catalogs.iceberg.upkeep import expiring, table_upkeep
from rivet_dagster.cli.main import main
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile, SnapshotPosition
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.row_errors import ERROR_COLUMNS
from rivet_dagster.model.storage import CURRENT, OLDER, Provenance, Published, Record
from rivet_dagster.model.watermark import Override
from rivet_dagster.model.write_plan import Append, ReplaceAll

LATER = timedelta(days=8)
APPEND = Append()
KEEP_TWO = {"expire_snapshots": {"older_than": "7d", "retain_last": 2}}
EVERYTHING = {"rewrite_data_files": {"min-input-files": 2}, **KEEP_TWO}


class Lake:
    """A catalog on a folder, and a session that computes the rows."""

    def __init__(
        self, folder: Path, session_with: Callable[..., PySparkSession], options: dict[str, Any] | None = None
    ) -> None:
        self.folder = folder
        self.options = (options or declared("hadoop", folder / "lake")) | {"default-namespace": "shop"}
        self.session = session_with(lake=self.options)
        for name, value in QUICK.items():
            self.session.spark.conf.set(name, value)

    def catalog(self, **upkeep: Any) -> IcebergCatalog:
        return IcebergCatalog(CatalogSpec("lake", "iceberg", {**self.options, "upkeep": upkeep}), self.folder)

    def publish(self, number: int, plan: Any = APPEND, errors: bool = False) -> Published:
        catalog = self.catalog()
        special = {"line": "0", "found_at": "current_timestamp()"}
        columns = ", ".join(f"{special.get(name, repr(f'{name} {number}'))} AS {name}" for name in ERROR_COLUMNS)
        with catalog.begin("orders", self.session) as transaction:
            transaction.write(plan, self.session.query(f"SELECT {number} AS id, 'row {number}' AS text"))
            if errors:
                transaction.write_errors("orders__errors", self.session.query(f"SELECT {columns}"))
            landed = LandedFile(f"{number}.csv", number, number)
            inputs = {"raw": ConsumedFiles((landed,)), "rates": SnapshotPosition("lake", "shop.rates", number)}
            return transaction.commit(f"run{number}/orders", Provenance(inputs))

    def loaded(self, table: str = "orders") -> Any:
        return self.catalog().access.open(table).load()

    def ids(self, table: str = "orders") -> list[int]:
        return sorted(self.loaded(table).scan().to_arrow()["id"].to_pylist())

    def messages(self, published: Published) -> list[str]:
        relation = self.catalog().errors_of(published)
        assert relation is not None
        rows = self.loaded("orders__errors").scan(snapshot_id=relation.snapshot).to_arrow()
        return rows["message"].to_pylist()

    def read(self, published: Published) -> list[int]:
        relation = self.catalog().read(published)
        return sorted(self.loaded().scan(snapshot_id=relation.snapshot).to_arrow()["id"].to_pylist())

    def path(self, name: str, days: int) -> Path:
        """Return a file in the folder of the table that was written so many days ago."""
        path = self.folder / "lake/warehouse/shop/orders" / name
        path.write_text("nobody knows it")
        then = (datetime.now(UTC) - timedelta(days=days)).timestamp()
        os.utime(path, (then, then))
        return path


@pytest.fixture
def lake(tmp_path, iceberg_session) -> Lake:
    return Lake(tmp_path, iceberg_session)


@contextmanager
def later(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have upkeep take it for eight days later; Iceberg itself refuses that for orphan files."""
    with monkeypatch.context() as patch:
        patch.setattr(table_upkeep, "datetime", SimpleNamespace(now=lambda zone: datetime.now(zone) + LATER))
        yield


def without_size(published: Published) -> Published:
    return replace(published, statistics=replace(published.statistics, bytes=0))


def test_versions_stay_what_they_were_while_files_are_rewritten_and_snapshots_expire(lake, monkeypatch):
    before = [lake.publish(number, errors=True) for number in range(6)]
    current, previous = before[-1], before[-2]
    catalog = lake.catalog(remove_orphan_files=False, **EVERYTHING)
    catalog.override_watermark(current, Override("4"))
    names = [version.name for version in catalog.versions("orders")]
    data_version = catalog.data_version("orders", {})
    small = {task.file.file_path for task in lake.loaded().scan().plan_files()}
    assert len(small) == 6

    with later(monkeypatch):
        report = catalog.upkeep("orders", lake.session)
        of_errors = catalog.upkeep("orders__errors", lake.session)

    # what was done
    assert (report.table, report.files_rewritten, report.files_added, report.skipped) == ("orders", 6, 1, {})
    assert report.snapshots_expired > 0
    assert 0 < report.bytes_after < report.bytes_before
    assert report.files_deleted > 0
    assert of_errors.snapshots_expired > 0
    (file,) = lake.loaded().scan().plan_files()
    assert file.file.file_path not in small
    assert lake.ids() == [0, 1, 2, 3, 4, 5]
    assert catalog.statistics(current).values["text"].max == "row 5"

    # the facts of the current version, under its own name
    assert without_size(catalog.current("orders")) == without_size(current)
    assert catalog.current("orders").inputs["raw"].files[0].path == "5.csv"
    head = lake.loaded().current_snapshot()
    assert not only_rewrites(head)
    assert head.summary.additional_properties["rivet.run-id"] == "run5"
    assert catalog.data_version("orders", {}) == data_version
    assert catalog.watermark_override(current) == Override("4")
    assert lake.messages(current) == ["message 5"]
    assert lake.messages(catalog.current("orders")) == ["message 5"]
    relation = catalog.relation("orders__errors", {})
    errors = lake.loaded("orders__errors").scan(snapshot_id=relation.snapshot).to_arrow()
    assert errors["message"].to_pylist() == ["message 5"]

    # the two last versions are there, the others are known to those who published them
    listed = catalog.versions("orders")
    assert [(v.name, v.state) for v in listed] == [(names[0], CURRENT), (names[1], OLDER)]
    assert lake.read(current) == [0, 1, 2, 3, 4, 5]
    assert lake.read(previous) == [0, 1, 2, 3, 4]
    for number, published in enumerate(before):
        known = catalog.published_by("orders", f"run{number}/orders")
        assert (known.version, known.statistics.rows, known.identity) == (
            published.version,
            number + 1,
            f"run{number}/orders",
        )
        assert known.inputs["rates"] == SnapshotPosition("lake", "shop.rates", number)
    remembered = json.loads(lake.loaded().metadata.properties[EXPIRED])
    assert sorted(remembered) == sorted(published.version for published in before[:4])

    # another upkeep finds nothing to do, and forgets after thirty days
    snapshots = [snapshot.snapshot_id for snapshot in lake.loaded().snapshots()]
    again = catalog.upkeep("orders", lake.session)
    assert (again.snapshots_expired, again.files_rewritten, again.manifests_rewritten) == (0, 0, 0)
    assert [snapshot.snapshot_id for snapshot in lake.loaded().snapshots()] == snapshots
    monkeypatch.setattr(table_upkeep, "datetime", SimpleNamespace(now=lambda zone: datetime.now(zone) + 40 * LATER))
    lake.catalog(
        rewrite_data_files=False,
        rewrite_manifests=False,
        remove_orphan_files=False,
        expire_snapshots={"retain_last": 9},
    ).upkeep("orders", lake.session)
    assert EXPIRED not in lake.loaded().metadata.properties
    assert catalog.published_by("orders", "run0/orders") is None

    # the next run builds upon it, and the one before can be published again
    newer = lake.publish(6, errors=True)
    assert (newer.rows_before, newer.statistics.rows) == (6, 7)
    with catalog.restage("orders", current.version) as transaction:
        rolled_back = transaction.commit("rollback")
    assert lake.ids() == [0, 1, 2, 3, 4, 5]
    assert lake.messages(rolled_back) == ["message 5"]


def test_files_of_runs_and_of_withheld_versions_are_no_orphans(lake, monkeypatch):
    lake.publish(1, ReplaceAll())
    data = lake.loaded().metadata.location.removeprefix("file://") + "/data"
    catalog = lake.catalog(rewrite_data_files={"rewrite-all": True}, expire_snapshots=False)
    orphans = [lake.path("data/orphan.parquet", days=4), lake.path("metadata/orphan.avro", days=4)]
    young = lake.path("data/young.parquet", days=2)

    # a live run: a new column needs a staging table, whose files lie among those of the table
    running = catalog.begin("orders", lake.session)
    running.write(ReplaceAll(), lake.session.query("SELECT 2 AS id, 'x' AS text, 3 AS more"))
    staged = [path for path in Path(data).rglob("*.parquet") if path not in (*orphans, young)]
    report = catalog.upkeep("orders", lake.session)
    assert set(report.skipped) == {"rewrite_data_files", "rewrite_manifests", "remove_orphan_files"}
    assert "a run is writing to the table: shop.orders/rivet_" in report.skipped["remove_orphan_files"]
    assert orphans[0].exists()

    # withheld, its files stay however old they are
    running.withhold("run2/orders")
    for path in staged:
        os.utime(path, (1e9, 1e9))
    report = catalog.upkeep("orders", lake.session)
    assert report.skipped == {
        "remove_orphan_files": f"the version {running.version} is withheld, and its files are among those of the table"
    }
    assert (report.files_rewritten, report.files_added) == (1, 1)
    assert orphans[0].exists()
    with catalog.take_up("orders", running.version) as transaction:
        transaction.commit("by hand")
    assert lake.ids() == [2]

    # a branch keeps its files, and what a dead run has left is removed before
    staged_on_branch = catalog.begin("orders", lake.session)
    staged_on_branch.write(Append(), lake.session.query("SELECT 3 AS id, 'x' AS text, 4 AS more"))
    staged_on_branch.withhold("run3/orders")
    dead = catalog.begin("orders", lake.session)
    dead.write(Append(), lake.session.query("SELECT 4 AS id, 'x' AS text, 5 AS more"))
    dead.heartbeat.end()
    for path in Path(data).parent.rglob("*"):
        if path.is_file() and path != young:
            os.utime(path, (1e9, 1e9))
    only_orphans = lake.catalog(rewrite_data_files=False, expire_snapshots=False, rewrite_manifests=False)
    report = only_orphans.upkeep("orders", lake.session)
    assert report.skipped == {}
    assert report.leftovers == (f"shop.orders/{dead.branch}",)
    assert report.orphans_deleted >= 2
    assert [path.exists() for path in (*orphans, young)] == [False, False, True]
    assert lake.ids() == [2]
    with catalog.take_up("orders", staged_on_branch.version) as transaction:
        transaction.commit("by hand")
    assert lake.ids() == [2, 3]


@pytest.mark.nightly
def test_a_table_whose_metadata_a_server_keeps(tmp_path, iceberg_session, iceberg_options, monkeypatch):
    lake = Lake(tmp_path, iceberg_session, iceberg_options("rest"))
    *_, previous, current = [lake.publish(number) for number in range(3)]
    orphan = Path(lake.loaded().metadata.location.removeprefix("file://")) / "data/orphan.parquet"
    orphan.write_text("nobody knows it")
    os.utime(orphan, (1e9, 1e9))
    rewriting = lake.catalog(expire_snapshots=False, rewrite_data_files={"min-input-files": 2})
    report = rewriting.upkeep("orders", lake.session)
    assert (report.files_rewritten, report.files_added, report.orphans_deleted, report.skipped) == (3, 1, 1, {})
    assert not orphan.exists()
    expiring = lake.catalog(rewrite_data_files=False, rewrite_manifests=False, remove_orphan_files=False, **KEEP_TWO)
    with later(monkeypatch):
        report = expiring.upkeep("orders", lake.session)
    assert report.snapshots_expired > 0
    assert report.files_deleted > 0
    assert [(v.name, v.state) for v in expiring.versions("orders")] == [
        (current.version, CURRENT),
        (previous.version, OLDER),
    ]
    assert (lake.read(current), lake.read(previous)) == ([0, 1, 2], [0, 1])
    assert expiring.published_by("orders", "run0/orders").identity == "run0/orders"


@pytest.mark.nightly
def test_the_command_treats_the_tables_of_the_project_and_no_others(lake, application, capsys):
    raw = {"path": "data", "type": "filesystem", "format": "csv"}
    catalogs = {"raw": raw, "lake": {"type": "iceberg", **lake.options, "upkeep": EVERYTHING}}
    engine = {"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"], "master": MASTER}
    folder = ProjectFolder(
        lake.folder / "project",
        {
            "rivet.yaml": MANIFEST,
            "profiles.yaml": {"default": {"catalogs": catalogs, "engines": [engine]}},
            "sources/raw_numbers.yaml": source("numbers.csv", "id INT, text STRING"),
            "data/numbers.csv": "id,text\n1,one\n2,2\n",
            "joints/numbers.sql": "SELECT id, CAST(text AS INT) AS number FROM raw_numbers",
            "sinks/orders.yaml": {
                "type": "sink", "catalog": "lake", "table": "orders", "upstream": ["numbers"],
                "write_strategy": "append", "on_error": "quarantine",
            },
        },
    )  # fmt: skip
    group = folder.assembly.group("orders")
    assert folder.run(group.name).published is not None
    assert folder.run(group.name).published is not None
    session = lake.session
    session.execute("CREATE TABLE lake.shop.others (id BIGINT) USING iceberg")
    for number in range(2):
        session.execute(f"INSERT INTO lake.shop.others VALUES ({number})")
    others = lake.loaded("others").metadata

    assert main(["-p", str(folder.root), "upkeep", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["success"]
    tables = {(entry["table"], entry["joint"]): entry for entry in document["tables"]}
    assert set(tables) == {("orders", "orders"), ("orders__errors", "orders")}
    assert all(entry["published"] for entry in tables.values())
    assert lake.loaded("others").metadata == others


@pytest.mark.nightly
def test_what_environments_have_built_stays(lake, monkeypatch):
    """Their branches, the versions of the base that they build upon, and the tables that they alone have."""
    first = lake.publish(1)
    catalog = lake.catalog(rewrite_data_files={"min-input-files": 2}, expire_snapshots=False)
    expiring = lake.catalog(rewrite_data_files=False, rewrite_manifests=False, remove_orphan_files=False, **KEEP_TWO)
    works = {
        ("one", "orders"): (Append(), "SELECT 10 AS id, 'ten' AS text"),
        ("two", "orders"): (ReplaceAll(), "SELECT 20 AS id, 'twenty' AS text, true AS more"),
        ("two", "others"): (ReplaceAll(), "SELECT 30 AS id, 'thirty' AS text"),
    }
    for (name, table), (plan, sql) in works.items():
        catalog.use_environment(name, "default")
        with catalog.in_environment(name).begin(table, lake.session) as transaction:
            transaction.write(plan, lake.session.query(sql))
            transaction.commit(f"{name}/{table}")
    for number in range(2, 6):
        lake.publish(number)
    for path in (lake.folder / "lake/warehouse").rglob("*"):
        os.utime(path, (1e9, 1e9))

    report = catalog.upkeep("orders", lake.session)
    assert report.skipped == {}
    assert (report.files_rewritten, report.files_added) == (5, 1)
    with later(monkeypatch):
        assert expiring.upkeep("orders", lake.session).snapshots_expired > 0
    assert lake.ids() == [1, 2, 3, 4, 5]
    expected = {"one": {"orders": [1, 10]}, "two": {"orders": [20], "others": [30]}}
    for name, tables in expected.items():
        there = catalog.in_environment(name)
        for table in catalog.built(name):
            assert ids(lake, there.read(table.current)) == tables[table.table]
            if table.base is not None:
                assert (ids(lake, there.read(table.base)), table.base.version) == ([1], first.version)

    # in SQL of Spark: the name of a branch gives the columns of the table, the snapshot its own
    for version, columns, found in (
        ("'rivet_env_one'", ["id", "text"], [1, 10]),
        ("'rivet_envbase_one'", ["id", "text"], [1]),
        ("'rivet_env_two'", ["id", "text"], [20]),
        (catalog.in_environment("two").current("orders").version, ["id", "text", "more"], [20]),
    ):
        sql = f"SELECT * FROM lake.shop.orders VERSION AS OF {version}"
        read = lake.session.to_arrow(lake.session.query(sql))
        assert (read.column_names, sorted(read["id"].to_pylist())) == (columns, found)

    with catalog.begin("others", lake.session) as transaction:
        transaction.write(ReplaceAll(), lake.session.query("SELECT 7 AS id"))
        transaction.commit("base/others")
    why = "an environment has built a table of this name, whose files are among those of the table"
    assert catalog.upkeep("others", lake.session).skipped == {"remove_orphan_files": why}
    assert catalog.drop("two")
    for path in (lake.folder / "lake/warehouse").rglob("*"):
        os.utime(path, (1e9, 1e9))
    assert catalog.upkeep("others", lake.session).skipped == {}
    assert ids(lake, catalog.relation("others", {})) == [7]


def ids(lake: Lake, relation: Any) -> list[int]:
    return sorted(lake.session.to_arrow(lake.session.load(relation))["id"].to_pylist())


def test_what_is_remembered_of_expired_versions_stays_within_the_limit_of_a_property():
    """AWS Glue takes table properties of up to 512,000 bytes; 8,640 versions are 30 days of one each 5 minutes."""
    inputs = {"rates": SnapshotPosition("lake", "shop.rates", 1)}
    entries = {
        str(number): PublicationFacts(
            f"run{number}/orders", "", 1, 0, Record(1), inputs, {"orders": "c" * 64}
        ).properties()
        for number in range(8640)
    }
    kept = expiring._newest(entries)
    assert list(kept) == [str(number) for number in range(8639, 8639 - len(kept), -1)]
    assert len(expiring._text(kept)) <= expiring.LONGEST
    publications = [publication_of(facts) for facts in kept.values()]
    assert [known.identity for known in publications] == [f"run{number}/orders" for number in map(int, kept)]
    complete = sum(bool(known.inputs) for known in publications)
    assert (complete > 400, len(kept) > 1200, publications[complete - 1].inputs) == (True, True, inputs)
    assert not any(known.inputs for known in publications[complete:])
    assert expiring._newest(dict(list(entries.items())[:100])) == dict(list(entries.items())[:100])
