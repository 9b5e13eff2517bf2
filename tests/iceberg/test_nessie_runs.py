"""Runs on branches of a Nessie server: one commit for what is published, none for what is not, and what is left."""

import signal
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType
from support.iceberg_runs import (
    APPEND,
    NAMESPACE,
    TABLE,
    UPSERT,
    Work,
    expire_heartbeats,
    heartbeats,
    lake,
    run,
    run_killed_before_a_step,
    written,
)
from support.killing import PROCESSES, ended, start
from support.tables import refused
from support.torture import some

from rivet_dagster.catalogs.iceberg.commits import committing
from rivet_dagster.catalogs.iceberg.nessie.run_catalog import RunCatalog
from rivet_dagster.catalogs.iceberg.nessie.server import NessieError, NessieServer
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog

OLD = Work([1, 2], 1, identity="old/orders")
WORKS = {
    "first": Work([1], 1),
    "replace": Work([3], 2),
    "append": Work([3], 2, APPEND),
    "merge": Work([2, 3], 2, UPSERT),
    "columns": Work([3], 2, adds=True),
    "errors": Work([2, 3], 2, UPSERT, errors=["new"]),
}


class Lake:
    """A catalog on a branch of its own, and what the server and any reader of metadata files say of it."""

    def __init__(self, nessie, options, root) -> None:
        self.nessie, self.options, self.root = nessie, options, root
        self.ref = options["ref"]
        self.catalog = lake(options, root)

    def log(self) -> list[str]:
        """Return the messages of all commits of the branch, the newest first."""
        entries = self.nessie.call("GET", f"trees/{self.ref}/history", params={"max-records": "1000"})["logEntries"]
        return [entry["commitMeta"]["message"] for entry in entries]

    def branches(self) -> list[str]:
        """Return the branches of runs that would publish here."""
        found = []
        for name in sorted(self.nessie.branches()):
            if name.startswith("rivet_") and "." not in name:
                entries = self.nessie.call("GET", f"trees/{name}/entries", params={"content": "true"})["entries"]
                bases = [
                    each["content"]["properties"]["base"]
                    for each in entries
                    if each["type"] == "NAMESPACE" and each["name"]["elements"] == ["rivet_run"]
                ]
                found += [name] if bases == [self.ref] else []
            elif name.startswith(f"rivet_begin.{self.ref}."):
                found.append(name)
        return found

    def metadata(self, table: str = TABLE):
        asked = {"requestedKeys": [{"elements": [NAMESPACE, table]}]}
        (found,) = self.nessie.call("POST", f"trees/{self.ref}/contents", json=asked)["contents"]
        return StaticTable.from_metadata(found["content"]["metadataLocation"])

    def rows(self, table: str = TABLE) -> list[tuple]:
        return sorted((row["id"], row["net"]) for row in self.metadata(table).scan().to_arrow().to_pylist())

    def run(self, work: Work):
        return run(self.catalog, work, self.root)

    def plain(self):
        """Return the table as another tool opens it."""
        return connect_catalog("other", self.options, self.root).load_table((NAMESPACE, TABLE))


@pytest.fixture
def shop(nessie, iceberg_options, tmp_path) -> Lake:
    return Lake(nessie, iceberg_options("nessie"), tmp_path)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("name", WORKS)
def test_what_is_published_is_one_commit_and_what_is_not_none(shop, name):
    work = WORKS[name]
    if name != "first":
        shop.run(OLD.having(errors=["old"]))
    before = shop.log()
    transaction = written(shop.catalog, work, shop.root)
    (branch,) = shop.branches()
    assert branch.startswith("rivet_run_orders_")
    assert shop.catalog.building() == (f"{NAMESPACE}.{TABLE}/{branch}",)
    assert shop.catalog.sweep() == ()
    transaction.abort()
    with pytest.raises(KeyboardInterrupt), written(shop.catalog, work, shop.root):
        raise KeyboardInterrupt
    assert (shop.log(), shop.branches(), shop.catalog.building()) == (before, [], ())
    published = shop.run(work)
    assert shop.log() == [f"Publish lake.{NAMESPACE}.{TABLE}", *before]
    assert (shop.branches(), heartbeats(shop.root)) == ([], [])
    found = shop.metadata().metadata
    assert found.current_snapshot_id == int(published.version)
    assert set(found.refs) == {"main"}
    assert {name for name in found.properties if name.startswith("rivet.")} <= {"rivet.last-publication"}
    ancestors = {snapshot.snapshot_id for snapshot in found.snapshots} | {None}
    assert {snapshot.parent_snapshot_id for snapshot in found.snapshots} <= ancestors
    numbers = [snapshot.sequence_number for snapshot in found.snapshots]
    assert numbers == sorted(set(numbers))


def test_a_rollback_is_one_commit(shop):
    shop.run(OLD.having(errors=["old"]))
    shop.run(WORKS["errors"])
    before = shop.log()
    with shop.catalog.restage(TABLE, shop.catalog.versions(TABLE)[-1].name) as transaction:
        published = transaction.commit("rollback")
    assert len(shop.log()) == len(before) + 1
    assert shop.rows() == [(1, 1), (2, 1)]
    errors = shop.catalog.errors_of(published)
    assert shop.metadata(f"{TABLE}__errors").scan(snapshot_id=errors.snapshot).to_arrow()["message"].to_pylist() == [
        "old"
    ]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("name", some(["merge", "columns", "errors"], 2))
def test_a_version_that_is_withheld_stays_on_its_branch(shop, name):
    """No sweep removes it, and it is published upon what others have published since, by one commit, or dropped."""
    shop.run(OLD.having(errors=["old"]))
    before = shop.log()
    shop.run(WORKS[name].having(end="withhold"))
    shop.run(WORKS[name].having(end="withhold", identity="again/orders"))
    expire_heartbeats(shop.root)
    assert shop.catalog.sweep() == ()
    assert (shop.log(), len(shop.branches()), shop.catalog.building()) == (before, 2, ())
    shop.run(Work([7], 7, APPEND, identity="fast/orders"))
    dropped, kept = [version.name for version in shop.catalog.versions(TABLE) if version.state == "withheld"]
    shop.catalog.take_up(TABLE, dropped).abort()
    (branch,) = shop.branches()
    with shop.catalog.take_up(TABLE, branch) as transaction:
        assert transaction.version == kept
        transaction.commit("by hand")
    assert len(shop.log()) == len(before) + 2
    assert shop.rows() == ([(3, 2)] if name == "columns" else [(1, 1), (2, 2), (3, 2)])
    assert (shop.branches(), [v.state for v in shop.catalog.versions(TABLE)]) == ([], ["current", "older", "older"])
    shop.run(Work([2, 9], 9, UPSERT, identity="next/orders", adds=name == "columns"))
    assert (2, 9) in shop.rows()


FOREIGN: dict[str, Callable] = {
    "tag": lambda table: table.manage_snapshots().create_tag(table.metadata.current_snapshot_id, "audited").commit(),
    "property": lambda table: table.transaction().set_properties(owner="finance").commit_transaction(),
    "branch": lambda table: table.append(_row(9), branch="theirs"),
    "snapshot": lambda table: table.append(_row(9)),
    "column": lambda table: table.update_schema().add_column("gdpr_class", StringType()).commit(),
    "partitions": lambda table: table.update_spec().add_identity("id").commit(),
    "order": lambda table: table.update_sort_order().asc("id", IdentityTransform()).commit(),
}


def test_a_withheld_version_that_was_published_is_swept(shop, monkeypatch):
    """If the process died before it had removed the branch."""
    shop.run(OLD)
    shop.run(WORKS["merge"].having(end="withhold"))
    (withheld,) = shop.branches()
    with monkeypatch.context() as patch:
        patch.setattr(RunCatalog, "remove", lambda run: None)
        with shop.catalog.take_up(TABLE, withheld) as transaction:
            transaction.commit("by hand")
    assert (len(shop.catalog.sweep()), shop.branches()) == (1, [])


def _row(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "net": pa.array([number], pa.int64())})


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("name", some(["merge", "columns"], 1))
@pytest.mark.parametrize("change", FOREIGN)
def test_another_tool_changes_the_table_meanwhile(shop, name, change):
    """Its rows, columns and layout are a conflict; what else it changes stays, and is none."""
    shop.run(OLD)
    with written(shop.catalog, WORKS[name], shop.root) as transaction:
        table = shop.plain()
        if change == "branch":
            table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "theirs").commit()
            table = shop.plain()
        FOREIGN[change](table)
        before = shop.metadata().metadata
        if change in ("snapshot", "column", "partitions"):
            assert refused(transaction.commit, "run/orders").code == "RVT-405"
            assert shop.metadata().metadata == before
            return
        transaction.commit("run/orders")
    found = shop.metadata().metadata
    assert {key: ref for key, ref in found.refs.items() if key != "main"} == {
        key: ref for key, ref in before.refs.items() if key != "main"
    }
    assert found.default_sort_order_id == before.default_sort_order_id
    last = "rivet.last-publication"
    assert {**before.properties, last: found.properties[last]} == found.properties
    assert shop.rows() == ([(3, 2)] if name == "columns" else [(1, 1), (2, 2), (3, 2)])
    shop.run(Work([2, 8], 8, UPSERT, identity="next/orders", adds=name == "columns"))
    assert (2, 8) in shop.rows()


def test_two_runs_at_once(shop):
    """On different tables both publish; on the same one the second is told to compute anew."""
    works = [Work([number], number, identity=f"run-{number}/t{number}", table=f"t{number}") for number in range(4)]
    transactions = [written(shop.catalog, work, shop.root) for work in works]
    threads = [
        threading.Thread(target=each.commit, args=(work.identity,))
        for each, work in zip(transactions, works, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [shop.rows(work.table) for work in works] == [[(number, number)] for number in range(4)]
    assert len(shop.log()) == 4
    one, two = (written(shop.catalog, Work([5], number, APPEND, table="t0"), shop.root) for number in (5, 6))
    one.commit("one/t0")
    assert refused(two.commit, "two/t0").code == "RVT-405"
    two.abort()
    assert (shop.rows("t0"), len(shop.log()), shop.branches()) == ([(0, 0), (5, 5)], 5, [])


def test_a_commit_of_which_nothing_is_known_deletes_nothing(shop, monkeypatch):
    """The server may carry it out yet."""
    shop.run(OLD)
    commit, late = NessieServer.commit, []

    def gateway_gives_up(server, branch, message, operations):
        if message.startswith("Publish "):
            late.append(lambda: commit(server, branch, message, operations))
            raise NessieError("Nessie answers 504: Gateway Timeout")
        return commit(server, branch, message, operations)

    with monkeypatch.context() as patch:
        patch.setattr(NessieServer, "commit", gateway_gives_up)
        patch.setattr(committing, "_LOOKS", (0.0,))
        assert refused(shop.run, WORKS["columns"]).code == "RVT-419"
    expire_heartbeats(shop.root)
    assert len(shop.catalog.sweep()) == 1
    late[0]()
    assert shop.rows() == [(3, 2)]
    assert shop.branches() == []


def test_a_run_that_was_swept_publishes_nothing(shop):
    shop.run(OLD)
    before = shop.log()
    for name in ("merge", "columns"):
        transaction = written(shop.catalog, WORKS[name], shop.root)
        expire_heartbeats(shop.root)
        assert len(shop.catalog.sweep()) == 1
        assert refused(transaction.commit, "run/orders").code == "RVT-406"
        transaction.abort()
    assert (shop.log(), shop.branches(), heartbeats(shop.root)) == (before, [], [])


@pytest.mark.nightly
@pytest.mark.parametrize("name", some(["errors", "first"], 1))
def test_a_kill_before_each_step(nessie, tmp_path, name):
    """The branch has no commit, or the one of the publication; a sweep removes the run's."""
    from support.iceberg import declared

    def begun(folder: str) -> Lake:
        place = Lake(nessie, declared("nessie", tmp_path / folder, nessie=nessie), tmp_path / folder)
        if name != "first":
            place.run(OLD.having(errors=["old"]))
        return place

    steps, code = killed(begun("whole"), WORKS[name], -1)
    assert code == 0
    matters = [at for at, step in enumerate(steps) if not step.startswith(("os.", "new_output")) or "heartbeat" in step]
    commit = next(at for at, step in enumerate(steps) if "/history/commit" in step and "trees/test" in step)
    outcomes = []
    for at in sorted({commit, commit + 1, *some(matters, 2)}):
        place = begun(str(at))
        before = place.log()
        assert killed(place, WORKS[name], at)[1] == -signal.SIGKILL
        now = place.log()
        outcomes.append(len(now) - len(before))
        assert now[len(now) - len(before) :] == before
        place.catalog.sweep()
        expire_heartbeats(place.root)
        place.catalog.sweep()
        assert (place.branches(), place.catalog.building(), heartbeats(place.root)) == ([], (), []), steps[at]
        assert place.log() == now
        place.run(WORKS[name].having(identity="again/orders"))
        assert place.rows()[-1] == (max(WORKS[name].ids), WORKS[name].net)
    assert outcomes == sorted(outcomes)
    assert {*outcomes} == {0, 1}


def killed(place: Lake, work: Work, at: int) -> tuple[list[str], int | None]:
    """Kill a run before its step number ``at``; return its steps and its exit code."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(run_killed_before_a_step, child, place.options, place.root, work, at)
    child.close()
    steps = []
    while True:
        try:
            steps.append(test.recv())
        except EOFError:
            return steps, ended(process)
