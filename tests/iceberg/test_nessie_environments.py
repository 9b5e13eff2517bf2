"""Environments of a whole project on Nessie, without Spark, looked at by PyIceberg's own reader of metadata files."""

import json
import signal
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType
from support.folders import ProjectFolder, sink
from support.iceberg import declared
from support.iceberg_environments import (
    NAME,
    NEW,
    OLD,
    WORKS,
    all_works,
    nessie_merge_killed_before_a_change,
    rows,
    run_there,
    tables,
)
from support.iceberg_runs import lake, run
from support.killing import PROCESSES, ended, start
from support.plugins import install
from support.tables import refused
from support.torture import some

from rivet_dagster.catalogs.iceberg.nessie.server import NessieServer
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.cli.main import main


class Shop:
    """A project with two sinks on Nessie, and a reader of the server's branches."""

    def __init__(self, folder, options, nessie, capfd) -> None:
        self.nessie, self.ref, self._capfd = nessie, options["ref"], capfd
        catalogs = {
            "raw": {"type": "filesystem", "path": "data"},
            "lake": {"type": "iceberg", "default-namespace": "shop", **options},
        }
        engine = {"name": "duck", "type": "duck", "catalogs": list(catalogs), "options": {"lakes": {"lake": options}}}
        self.folder = ProjectFolder(
            folder,
            {
                "profiles.yaml": {"default": {"catalogs": catalogs, "engines": [engine]}},
                "sources/orders.yaml": {"type": "source", "catalog": "raw", "table": "orders.parquet"},
                "joints/amounts.sql": "SELECT id, amount FROM orders",
                "sinks/amounts_table.yaml": sink(
                    "amounts", "amounts", write_strategy={"mode": "merge", "key_columns": ["id"]}
                ),
                "joints/ids.sql": "SELECT id FROM orders",
                "sinks/ids_table.yaml": sink("ids", "ids", write_strategy="append"),
            },
        )
        self.give({1: 10, 2: 15})

    def give(self, amounts: dict[int, int]) -> None:
        """Replace the rows of the source."""
        rows = pa.table({"id": pa.array(amounts, pa.int64()), "amount": pa.array(amounts.values(), pa.int64())})
        (self.folder.root / "data").mkdir(exist_ok=True)
        pq.write_table(rows, self.folder.root / "data/orders.parquet")

    def cli(self, *arguments: str) -> tuple[int, str, str]:
        self._capfd.readouterr()
        code = main(["-p", str(self.folder.root), *arguments])
        out, err = self._capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    def run(self, *arguments: str) -> None:
        code, out, err = self.cli("run", *arguments, "--format", "json")
        assert (code, json.loads(out)["success"]) == (0, True), (out, err)

    def contents(self, branch: str | None = None) -> dict[str, str]:
        """Return the metadata files of a branch by table, as the server itself names them."""
        entries = self.nessie.call("GET", f"trees/{branch or self.ref}/entries", params={"content": "true"})["entries"]
        tables = [entry["content"] | {"name": entry["name"]["elements"][-1]} for entry in entries]
        return {each["name"]: each["metadataLocation"] for each in tables if each["type"] == "ICEBERG_TABLE"}

    def rows(self, table: str, branch: str | None = None) -> list[tuple]:
        """Return the rows of a table as any reader of a branch sees them."""
        found = StaticTable.from_metadata(self.contents(branch)[table]).scan().to_arrow()
        return sorted(tuple(row.values()) for row in found.to_pylist())

    def commits(self) -> int:
        return len(self.nessie.call("GET", f"trees/{self.ref}/history")["logEntries"])


@pytest.fixture
def shop(tmp_path, nessie, iceberg_options, capfd, monkeypatch) -> Shop:
    for name in ("DAGSTER_HOME", "RIVET_PROFILE", "RIVET_ENVIRONMENT"):
        monkeypatch.delenv(name, raising=False)
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.iceberg_duckdb:IcebergDuckDBEngine"})
    return Shop(tmp_path / "project", iceberg_options("nessie"), nessie, capfd)


def test_a_run_in_an_environment_a_merge_and_a_drop(shop, nessie):
    shop.run()
    assert (shop.rows("amounts"), shop.rows("ids")) == ([(1, 10), (2, 15)], [(1,), (2,)])
    assert shop.commits() == 2
    shop.give({2: 20, 3: 30})
    before, there = shop.contents(), f"rivet_env.{shop.ref}.pr-7"
    shop.run("--environment", "pr-7", "ids_table")
    shop.run("--environment", "pr-7", "amounts_table")
    assert shop.contents() == before
    assert shop.rows("amounts", there) == [(1, 10), (2, 20), (3, 30)]
    assert shop.rows("ids", there) == [(1,), (2,), (2,), (3,)]
    history = nessie.call("GET", f"trees/{there}/history")["logEntries"]
    told = [entry["commitMeta"]["message"] for entry in history]
    assert [message for message in told if message.startswith(("Publish", "Update", "Create"))][:2] == [
        f"Publish lake.shop.amounts@{there}",
        f"Publish lake.shop.ids@{there}",
    ]
    assert len([message for message in told if message.startswith("Publish")]) == 4  # with those of the base before
    listed = json.loads(shop.cli("environment", "list", "--format", "json")[1])["environments"]
    assert [(one["name"], one["tables"]) for one in listed] == [("pr-7", ["lake.amounts", "lake.ids"])]

    commits = shop.commits()
    assert shop.cli("environment", "merge", "pr-7")[0] == 0
    assert shop.commits() == commits + 1
    assert shop.rows("amounts") == [(1, 10), (2, 20), (3, 30)]
    assert shop.rows("ids") == [(1,), (2,), (2,), (3,)]
    assert there not in shop.nessie.branches()
    assert shop.cli("run", "--environment", "pr-7")[0] == 1

    shop.run("--environment", "pr-8", "ids_table")
    shop.run("ids_table")
    code, _, err = shop.cli("environment", "merge", "pr-8")
    assert (code, "RVT-405" in err, "lake.ids" in err) == (1, True, True), err
    assert shop.cli("environment", "drop", "pr-8")[0] == 0
    assert {name for name in shop.nessie.branches() if f".{shop.ref}." in name} == {f"rivet_merged.{shop.ref}.pr-7"}


@pytest.mark.nightly
def test_an_interrupted_merge_is_finished_by_the_next_one(shop, monkeypatch):
    shop.run()
    shop.run("--environment", "pr-7", "ids_table")
    original = NessieServer.make

    def dies(server, name, source, type_="BRANCH"):
        if type_ == "TAG":
            raise KeyboardInterrupt
        return original(server, name, source, type_)

    with monkeypatch.context() as patch:
        patch.setattr(NessieServer, "make", dies)
        assert shop.cli("environment", "merge", "pr-7")[0] != 0
    rows, commits = shop.rows("ids"), shop.commits()
    assert rows == [(1,), (1,), (2,), (2,)]
    assert shop.cli("run", "--environment", "pr-7")[0] == 1
    assert shop.cli("environment", "merge", "pr-7")[0] == 0
    assert (shop.rows("ids"), shop.commits()) == (rows, commits)
    assert f"rivet_env.{shop.ref}.pr-7" not in shop.nessie.branches()


def test_a_merge_is_refused_if_the_base_moves_after_it_was_judged(shop, monkeypatch):
    shop.run()
    shop.run("--environment", "pr-7", "ids_table")
    original = NessieServer.commit

    def overtaken(server, branch, message, *arguments):
        if message.startswith("Merge "):
            shop.run("ids_table")
        return original(server, branch, message, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(NessieServer, "commit", overtaken)
        code, _, err = shop.cli("environment", "merge", "pr-7")
    assert (code, "RVT-405" in err) == (1, True), err
    assert shop.rows("ids") == [(1,), (1,), (2,), (2,)]
    assert shop.cli("environment", "drop", "pr-7")[0] == 0
    assert not [name for name in shop.nessie.branches() if f".{shop.ref}." in name]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("end", ["drop", "an interrupted drop"])
def test_what_runs_left_in_an_environment_goes_with_it(nessie, tmp_path, end):
    options = declared("nessie", tmp_path / "lake", nessie=nessie)
    catalog = lake(options, tmp_path)
    run(catalog, OLD, tmp_path)
    before = nessie.branches()
    run_there(catalog, WORKS["merge"].having(end="withhold"), tmp_path)
    (branch,) = [name for name in nessie.branches() - before if "." not in name]
    assert catalog.sweep() == catalog.sweep_environments() == ()
    if end == "drop":
        assert catalog.drop(NAME)
    else:
        NessieServer(options["uri"]).remove(f"rivet_env.{options['ref']}.{NAME}")
        assert catalog.sweep_environments() == (f"shop.orders/{branch}",)
    assert nessie.branches() == before


CHANGES = {
    "tag": lambda table: table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "q1_audited").commit(),
    "property": lambda table: table.transaction().set_properties(owner="finance").commit_transaction(),
    "branch": lambda table: (
        table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "theirs").commit()
    ),
    "rows of a branch": lambda table: table.append(NINE, branch="theirs"),
    "column": lambda table: table.update_schema().add_column("gdpr_class", StringType()).commit(),
    "partitions": lambda table: table.update_spec().add_identity("id").commit(),
    "order": lambda table: table.update_sort_order().asc("id", IdentityTransform()).commit(),
}
NINE = pa.table({"id": pa.array([9], pa.int64()), "net": pa.array([9], pa.int64())})


def orders(options, root, ref=None):
    """Return the table of a branch as another tool opens it."""
    return connect_catalog("other", {**options, "ref": ref or options["ref"]}, root).load_table(("shop", "orders"))


def test_what_is_evicted_twice_leaves_a_table_without_rows_of_the_base(nessie, tmp_path):
    """As after an eviction that was interrupted before it was recorded."""
    options = declared("nessie", tmp_path / "lake", nessie=nessie)
    catalog = lake(options, tmp_path)
    plain = connect_catalog("other", options, tmp_path)
    plain.create_namespace("shop")
    plain.create_table(("shop", "orders"), pa.schema({"id": pa.int64(), "net": pa.int64()}))
    there = run_there(catalog, NEW, tmp_path)
    for _ in range(2):
        catalog.in_environment(NAME).evict(there)
        assert catalog.in_environment(NAME).current("orders") is None
    assert (catalog.built(NAME), orders(options, tmp_path).current_snapshot()) == ((), None)


def test_a_merge_keeps_what_was_made_on_the_base_since(nessie, tmp_path):
    """Tags, branches with their rows, properties, columns, layouts and withheld versions; by one commit."""
    options = declared("nessie", tmp_path / "lake", nessie=nessie)
    catalog = lake(options, tmp_path)
    run(catalog, replace(OLD, errors=["old"]), tmp_path)
    run_there(catalog, WORKS["merge"], tmp_path)
    run_there(catalog, WORKS["merge"].having(ids=[5], identity="newer/orders", errors=["new"]), tmp_path)
    for change in CHANGES.values():
        change(orders(options, tmp_path))
    run(catalog, OLD.having(ids=[7], end="withhold", identity="slow/orders"), tmp_path)
    before, commits = orders(options, tmp_path), commits_of(nessie, options)
    catalog.merge(NAME)
    assert commits_of(nessie, options) == commits + 1
    after = orders(options, tmp_path)
    assert {name: ref for name, ref in after.metadata.refs.items() if name != "main"} == {
        name: ref for name, ref in before.metadata.refs.items() if name != "main"
    }
    assert set(after.metadata.refs) == {"main", "q1_audited", "theirs"}
    last = "rivet.last-publication"
    assert {**before.properties, last: after.properties[last]} == after.properties
    assert json.loads(after.properties[last])["snapshot"] == after.metadata.current_snapshot_id
    assert (after.schema(), after.spec()) == (before.schema(), before.spec())
    assert after.sort_order() == before.sort_order()
    assert [field.name for field in after.schema().fields] == ["id", "net", "gdpr_class"]
    found = after.scan().to_arrow()
    assert sorted(zip(*(found[name].to_pylist() for name in ("id", "net", "gdpr_class")), strict=True)) == [
        *((id_, 1, None) for id_ in (1, 2)),
        *((id_, 2, None) for id_ in (3, 4, 5)),
    ]
    theirs = after.scan(snapshot_id=after.metadata.refs["theirs"].snapshot_id).to_arrow()["id"].to_pylist()
    assert sorted(theirs) == [1, 2, 3, 9]
    assert after.scan(row_filter="id = 4").to_arrow()["id"].to_pylist() == [4]
    numbers = [snapshot.sequence_number for snapshot in after.metadata.snapshots]
    assert after.metadata.last_sequence_number == max(numbers)
    moments = [entry.timestamp_ms for entry in after.metadata.snapshot_log]
    assert moments == sorted(moments)
    assert after.metadata.snapshot_log[-1].snapshot_id == after.metadata.current_snapshot_id
    assert {snapshot.snapshot_id for snapshot in before.metadata.snapshots} <= {
        snapshot.snapshot_id for snapshot in after.metadata.snapshots
    }
    (withheld,) = [version.name for version in catalog.versions("orders") if version.state == "withheld"]
    with catalog.take_up("orders", withheld) as transaction:
        transaction.commit("by hand")
    assert orders(options, tmp_path).scan().to_arrow()["id"].to_pylist() == [7]


CONFLICTS = {
    "the property owner": (
        CHANGES["property"],
        lambda table: table.transaction().set_properties(owner="sales").commit_transaction(),
    ),
    "the columns": (
        CHANGES["column"],
        lambda table: table.update_schema().add_column("more", StringType()).commit(),
    ),
    "the branch or tag q1_audited": (CHANGES["tag"], CHANGES["tag"]),
    "the partitions": (
        CHANGES["partitions"],
        lambda table: table.update_spec().add_identity("net").commit(),
    ),
}


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("what", CONFLICTS)
def test_a_merge_names_what_both_sides_have_changed(nessie, tmp_path, what):
    """And what to do; nothing is published, and the environment stays open."""
    options = declared("nessie", tmp_path / "lake", nessie=nessie)
    catalog = lake(options, tmp_path)
    run(catalog, OLD, tmp_path)
    run_there(catalog, WORKS["merge"], tmp_path)
    of_base, there = CONFLICTS[what]
    there(orders(options, tmp_path, f"rivet_env.{options['ref']}.{NAME}"))
    of_base(orders(options, tmp_path))
    before = orders(options, tmp_path).metadata, commits_of(nessie, options)
    error = refused(catalog.merge, NAME)
    assert error.code == "RVT-405"
    assert f"of shop.orders {what}" in error.diagnostics[0].message
    assert "drop the environment, and run it again" in error.diagnostics[0].remediation
    assert (orders(options, tmp_path).metadata, commits_of(nessie, options)) == before
    assert [environment.name for environment in catalog.environments()] == [NAME]


@pytest.mark.nightly
def test_a_kill_before_each_change_of_a_merge(nessie, tmp_path):
    """Readers of the base see all tables or none, and the same command finishes it."""

    def built(folder: str) -> dict:
        options = declared("nessie", tmp_path / folder, nessie=nessie)
        all_works(lake(options, tmp_path), tmp_path)
        return options

    options = built("whole")
    before, killed = rows_of(options, tmp_path), []
    changes, code = killed_merge(options, tmp_path, -1)
    assert (code, rows_of(options, tmp_path)) == (0, MERGED)
    assert tables(options, tmp_path).keys() == {"orders", "orders__errors", "more", "more__errors"}
    assert {change.split()[0] for change in changes} == {"POST", "DELETE"}
    for at in some(range(len(changes)), 2):
        options = built(str(at))
        commits = commits_of(nessie, options)
        steps, code = killed_merge(options, tmp_path, at)
        assert (code, len(steps)) == (-signal.SIGKILL, at + 1)
        catalog, found = lake(options, tmp_path), rows_of(options, tmp_path)
        killed.append(found)
        assert found in (before, MERGED), steps[-1]
        if catalog.is_merged(NAME):
            assert [environment.name for environment in catalog.environments()] == []
        else:
            published = catalog.merge(NAME)
            assert len(published) == len(MERGED), steps[-1]
        assert rows_of(options, tmp_path) == MERGED, steps[-1]
        assert commits_of(nessie, options) == commits + 1, steps[-1]
        assert {name for name in nessie.branches() if f".{options['ref']}." in name} == {
            f"rivet_merged.{options['ref']}.{NAME}"
        }
    assert [found == MERGED for found in killed] == sorted(found == MERGED for found in killed)
    assert (killed[0], killed[-1]) == (before, MERGED)


MERGED = {"orders": [(3, 2, 2), (4, 2, 2)], "more": [(3, 2), (4, 2)]}


def rows_of(options, root) -> dict[str, list[tuple]]:
    return {name: rows(table) for name, table in tables(options, root).items() if not name.endswith("__errors")}


def commits_of(nessie, options) -> int:
    return len(nessie.call("GET", f"trees/{options['ref']}/history")["logEntries"])


def killed_merge(options, root, at: int) -> tuple[list[str], int | None]:
    """Kill a merge before its change number ``at`` of the server; return its changes and its exit code."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(nessie_merge_killed_before_a_change, child, options, root, at)
    child.close()
    steps = []
    while True:
        try:
            steps.append(test.recv())
        except EOFError:
            return steps, ended(process)
