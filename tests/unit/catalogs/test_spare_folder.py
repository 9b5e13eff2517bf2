"""The spare folder of a table: what an expired version shares with the published one is where the next one begins."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.duckdb_engine import DuckDBEngine
from support.error_tables import publish as publish_with_errors
from support.tables import catalog, ids, publish, refused

from rivet_dagster.catalogs.filesystem.versions import spare
from rivet_dagster.execution.clean_up import sweep
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.write_plan import Append, ReplaceAll, Upsert, WritePlan

FILES = 20


class Orders:
    """The table ``orders`` of many files, whose versions before the last one have expired."""

    def __init__(self, root: Path) -> None:
        self.catalog = catalog(root, versions=2)
        self.link, self.home = root / "warehouse/orders", root / "warehouse/.rivet/orders"
        self.engine = DuckDBEngine(EngineSpec("duck", "duckdb"))
        with self.catalog.begin("orders") as transaction:
            for number in range(FILES):
                file = Path(transaction.target.paths[0]) / f"part-{number}.parquet"
                pq.write_table(pa.table({"id": pa.array([number], pa.int64())}), file)
            transaction.commit("files")
        self.expected = list(range(FILES))

    def write(self, plan: WritePlan, value: int) -> None:
        """Publish a batch of one row."""
        with self.engine.session() as session, self.catalog.begin("orders", session) as transaction:
            transaction.write(plan, session.query(f"SELECT CAST({value} AS BIGINT) AS id"))
            transaction.commit(str(value))
        self.expected = [value] if isinstance(plan, ReplaceAll) else sorted({*self.expected, value})

    def append(self, *values: int) -> None:
        """Publish batches that are appended."""
        for value in values:
            self.write(Append(), value)

    @property
    def spare(self) -> set[int]:
        """The inodes of the files of the spare folder."""
        folder = self.home / "spare"
        return {path.stat().st_ino for path in folder.iterdir()} if folder.exists() else set()

    @property
    def published(self) -> set[int]:
        """The inodes of the files of the published version."""
        return {path.stat().st_ino for path in self.link.iterdir()}

    def check(self) -> None:
        """Compare the rows with what has been written, and look for traces of versions that are not published."""
        assert sorted(ids(self.link)) == self.expected
        assert not [name for name in os.listdir(self.home) if name.endswith((".taken", ".removed", ".alive"))]


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(tmp_path)


def test_it_is_what_an_expired_version_shares_with_the_published_one(orders):
    orders.append(100)
    assert not orders.spare  # nothing has expired
    orders.append(101, 102)
    assert len(orders.spare) == FILES + 1  # the version of 100 has expired
    assert orders.spare < orders.published
    orders.check()


def test_the_next_version_links_what_it_lacks_alone(orders, monkeypatch):
    orders.append(100, 101, 102)
    linked: list[str] = []
    link = os.link
    monkeypatch.setattr(os, "link", lambda path, to: linked.append(Path(to).name) or link(path, to))
    orders.append(103)
    assert len(linked) == 2  # the files of 101 and 102
    orders.check()


def test_a_file_that_changes_leaves_it(orders):
    orders.append(100, 101, 102)
    for value in (3, 200, 7):  # 3 and 7 are there already, so that nothing changes
        orders.write(Upsert(keys=("id",)), value)
        assert orders.spare <= orders.published
        orders.check()
    orders.write(ReplaceAll(), 5)
    orders.check()
    orders.write(ReplaceAll(), 6)
    orders.check()
    assert not (orders.home / "spare").exists()


def test_a_file_of_the_same_name_is_not_taken_for_another(orders):
    orders.append(100, 101, 102)
    name = next(path.name for path in (orders.home / "spare").iterdir() if path.name.startswith("part-1."))
    stranger = orders.home / "spare" / name
    stranger.unlink()
    pq.write_table(pa.table({"id": pa.array([-1], pa.int64())}), stranger)
    orders.append(103)
    orders.check()


def test_a_new_file_does_not_take_the_place_of_a_shared_one(orders):
    orders.append(100, 101, 102)
    name = next(path.name for path in (orders.home / "spare").iterdir() if path.name.startswith("part-1."))
    with orders.engine.session() as session, orders.catalog.begin("orders", session) as transaction:
        pq.write_table(pa.table({"id": pa.array([7], pa.int64())}), Path(transaction.target.paths[0]) / name)
        refused(transaction.write, Append(), session.query("SELECT CAST(8 AS BIGINT) AS id"))
    orders.check()


def test_folders_in_a_version_that_was_taken_over_are_removed(orders):
    (orders.link / "_metadata").mkdir()
    (orders.link / "_metadata/schema").touch()
    (orders.link / "_SUCCESS").touch()
    orders.append(100, 101)
    assert not list(orders.home.rglob("_*"))
    assert len(orders.spare) == FILES
    orders.check()


def test_a_version_expires_though_no_spare_folder_can_be_made(orders, monkeypatch):
    def fail(*_):
        raise PermissionError("not here")

    monkeypatch.setattr(spare, "_remove_others", fail)
    orders.append(100, 101, 102)
    assert len([name for name in os.listdir(orders.home) if name.endswith(".json") and ".files" not in name]) == 2
    orders.check()


def test_of_two_versions_one_takes_it(orders):
    orders.append(100, 101, 102)
    with orders.engine.session() as session, orders.catalog.begin("orders", session) as one:
        one.write(Append(), session.query("SELECT CAST(7 AS BIGINT) AS id"))
        assert not orders.spare
        orders.append(103)
        assert refused(one.commit, "late").code == "RVT-405"
    orders.append(104)
    orders.check()


@pytest.mark.parametrize("call", ["unlink", "listdir", "rmdir", "rename"])
def test_a_run_that_dies_while_it_takes_it_leaves_nothing(orders, monkeypatch, call):
    orders.append(100, 101, 102)
    taken = orders.home / "spare"
    pq.write_table(pa.table({"id": [1]}), taken / "to_be_removed.parquet")
    real, listed, seen = getattr(os, call), os.listdir, []

    def die(path, *arguments):
        seen.append(path)
        if "orders" in str(path) and ".taken" in "".join(listed(orders.home)):
            raise KeyboardInterrupt
        return real(path, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(spare.os, call, die)
        patched.setattr("rivet_dagster.catalogs.filesystem.versions.lifecycle.remove", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            orders.append(7)
    assert seen
    for path in orders.home.glob("*.alive"):
        os.utime(path, (0, 0))  # its run has been dead for long
    sweep([orders.catalog])
    orders.check()
    orders.append(103)
    orders.check()


def test_a_table_whose_versions_have_error_tables(tmp_path):
    orders = Orders(tmp_path)
    for value in (100, 101, 102):
        with orders.engine.session() as session, orders.catalog.begin("orders", session) as transaction:
            transaction.write(Append(), session.query(f"SELECT CAST({value} AS BIGINT) AS id"))
            transaction.write_errors("orders__errors", None)
            transaction.commit(str(value))
    assert len(orders.spare) == FILES + 1
    assert orders.spare < orders.published
    orders.expected += [100, 101, 102]
    orders.append(103)
    orders.check()
    publish_with_errors(orders.catalog, [4], ["bad"])
    publish(orders.catalog, [9])
    orders.expected = [9]
    orders.check()
    assert not orders.spare
