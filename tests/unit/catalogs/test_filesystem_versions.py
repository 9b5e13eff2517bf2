"""Versions handled by commands: withheld, rolled back, listed, evicted."""

import errno
import fcntl
import json
import os
import shutil
import threading
import time
from datetime import timedelta
from pathlib import Path
from unittest.mock import Mock

import pytest
from support.tables import catalog, fill, ids, publish, recorded_syncs, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.files.data_files import share
from rivet_dagster.catalogs.filesystem.versions import lifecycle, records
from rivet_dagster.catalogs.filesystem.versions.records import FileHeartbeat
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.catalogs.versions import heartbeat
from rivet_dagster.model.storage import WITHHELD, Record


@pytest.fixture
def warehouse(tmp_path: Path) -> FilesystemCatalog:
    return catalog(tmp_path, versions=3)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "warehouse/orders"


def withheld(warehouse: FilesystemCatalog, values: list[int]) -> FilesystemTransaction:
    staged = fill(warehouse.begin("orders"), values)
    staged.withhold()
    return staged


def listed(warehouse: FilesystemCatalog) -> list[tuple[str, str, int | None, str]]:
    return [(one.name, one.state, one.rows, one.identity) for one in warehouse.versions("orders")]


def test_a_version_is_found_by_the_run_that_published_it(warehouse, table, monkeypatch):
    assert warehouse.published_by("orders", "one") is None
    first = publish(warehouse, [1, 2], run="one")
    second = publish(warehouse, [3], run="two")
    assert warehouse.published_by("orders", "one") == first
    assert warehouse.published_by("orders", "two") == second
    assert warehouse.published_by("orders", "three") is None
    for name in ("three", "four", "five", "six", "seven"):
        publish(warehouse, [4], run=name)
    for expired, name in ((first, "one"), (second, "two")):
        assert refused(warehouse.read, expired).code == "RVT-401"
        assert warehouse.published_by("orders", name) == expired
    assert warehouse.published_by("orders", "eight") is None
    remembered = table.parent / ".rivet/orders/publishers.jsonl"
    assert [json.loads(line)["identity"] for line in remembered.open()] == [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
    ]
    with remembered.open("a") as file:
        file.write('{"version": "0')  # of a killed process
    publish(warehouse, [5], run="eight")
    assert warehouse.published_by("orders", "five").rows_before == 1
    monkeypatch.setattr(records, "REMEMBERED", timedelta(0))
    publish(warehouse, [6], run="nine")
    assert warehouse.published_by("orders", "one") is None
    retained = ["six", "seven", "eight"]  # when it was written
    assert [json.loads(line)["identity"] for line in remembered.open()] == retained
    assert warehouse.published_by("orders", "seven").rows_before == 1


def test_the_record_of_publishers_is_read_again_when_it_has_changed(warehouse, table, monkeypatch):
    for number in range(4):
        publish(warehouse, [number], run=f"run{number}")
    read = []
    monkeypatch.setattr(
        records, "Recorded", lambda content, recorded=records.Recorded: read.append(1) or recorded(content)
    )
    remembered = table.parent / ".rivet/orders/publishers.jsonl"
    records._recorded_then.cache_clear()
    for _ in range(3):
        assert warehouse.published_by("orders", "run0") is not None
        assert warehouse.published_by("orders", "unknown") is None
    assert len(read) == 1
    line = remembered.read_text().splitlines()[0]
    with remembered.open("a") as file:  # as another process does
        file.write(line.replace("run0", "unknown") + "\n")
    assert warehouse.published_by("orders", "unknown") is not None
    status = remembered.stat()
    other = remembered.with_name("other")
    other.write_text(remembered.read_text().replace("unknown", "replace"))  # as long as it was
    os.replace(other, remembered)
    os.utime(remembered, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert warehouse.published_by("orders", "unknown") is None
    assert warehouse.published_by("orders", "replace") is not None
    remembered.unlink()
    assert warehouse.published_by("orders", "run0") is None


def test_the_run_of_a_version_of_an_earlier_release_is_found_too(tmp_path, table):
    """Its manifest has neither the previous version nor the row counts of the run."""
    warehouse = catalog(tmp_path, versions=1)
    path = table.parent / f".rivet/orders/{publish(warehouse, [1, 2], run='one').version}.json"
    known = {"version", "base", "identity", "rows", "rows_before", "bytes", "columns", "published_at"}
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key in known}))
    for name in ("two", "three"):
        publish(warehouse, [3], run=name)
    assert warehouse.published_by("orders", "one").record == Record(2)


def test_an_evicted_version_has_no_publisher(warehouse):
    for name in ("one", "two", "three", "four"):
        last = publish(warehouse, [1], run=name)
    warehouse.evict(last)
    publish(warehouse, [2], run="five")
    assert [warehouse.published_by("orders", name) for name in ("one", "four")] == [None, None]


def test_all_versions_are_listed_newest_first(warehouse):
    assert warehouse.versions("orders") == ()
    first = publish(warehouse, [1, 2], run="one")
    second = publish(warehouse, [3], run="two")
    building = fill(warehouse.begin("orders"), [4])
    withheld_version = withheld(warehouse, [5, 6, 7])
    assert listed(warehouse) == [
        (second.version, "current", 1, "two"),
        (first.version, "older", 2, "one"),
        (withheld_version.version, "withheld", 3, ""),
    ]
    building.abort()


def test_a_withheld_version_is_never_swept(warehouse, table):
    publish(warehouse, [1])
    staged = withheld(warehouse, [2])
    before = tree(table.parent)
    assert warehouse.sweep() == ()
    publish(warehouse, [3])
    assert {name for name in before if staged.version in name} <= set(tree(table.parent))
    assert ids(table) == [3]


def test_a_withheld_version_is_published_on_top_of_the_current_one(warehouse, table):
    publish(warehouse, [1])
    withheld_version = withheld(warehouse, [2, 3])
    newer = publish(warehouse, [4])
    staged = warehouse.take_up("orders", withheld_version.version)
    assert Path(staged.base.relation.paths[0]).name == newer.version
    published = staged.commit("by hand")
    assert (published.version, published.rows_before) == (withheld_version.version, 1)
    assert ids(table) == [2, 3]
    assert not any(one.state == "withheld" for one in warehouse.versions("orders"))
    assert warehouse.sweep() == ()


def test_a_retry_finds_its_version_published_by_hand(warehouse):
    """Also after a failed attempt to publish it, and when it has expired."""
    publish(warehouse, [1])
    staged = fill(warehouse.begin("orders"), [2])
    staged.withhold("monday/orders")
    in_vain = warehouse.take_up("orders", staged.version)
    publish(warehouse, [3])
    assert refused(in_vain.commit, "by hand").code == "RVT-405"
    in_vain.withhold()
    assert warehouse.published_by("orders", "monday/orders") is None
    published = warehouse.take_up("orders", staged.version).commit("by hand")
    assert published.identity == "by hand"
    for number in range(5):
        for name in ("monday/orders", "by hand"):
            found = warehouse.published_by("orders", name)
            assert (found.version, found.statistics, found.identity) == (staged.version, published.statistics, name)
        publish(warehouse, [number], run=str(number))


@pytest.mark.parametrize("text", ["", "{}", '{"zone": {"files": [{"path": "a.csv", "size": 1, "mtime_ns": 2}]}}'])
def test_withheld_versions_of_an_earlier_release_are_read(warehouse, table, text):
    withheld_version = withheld(warehouse, [1])
    (table.parent / f".rivet/orders/{withheld_version.version}.kept").write_text(text)
    staged = warehouse.take_up("orders", withheld_version.version)
    published = staged.commit("by hand")
    assert sorted(published.landed) == (["zone"] if "zone" in text else [])
    assert "made_by" not in (table.parent / f".rivet/orders/{withheld_version.version}.json").read_text()


def test_a_withheld_version_is_dropped(warehouse, table):
    publish(warehouse, [1])
    before = tree(table.parent)
    withheld_version = withheld(warehouse, [2])
    warehouse.take_up("orders", withheld_version.version).abort()
    assert tree(table.parent) == before


def test_a_rollback_publishes_an_older_version_as_a_new_one(warehouse, table):
    first = publish(warehouse, [1, 2], run="one")
    publish(warehouse, [3], run="two")
    published = warehouse.restage("orders", first.version).commit("rollback")
    assert ids(table) == [1, 2]
    assert published.version not in (first.version, "")
    assert (published.statistics.rows, published.rows_before) == (2, 1)
    assert [state for _, state, *_ in listed(warehouse)] == ["current", "older", "older"]
    (one,), (other,) = (sorted(Path(warehouse.read(v).paths[0]).iterdir()) for v in (first, published))
    assert os.path.samefile(one, other)
    publish(warehouse, [4])
    publish(warehouse, [5])
    publish(warehouse, [6])
    assert ids(table) == [6]
    assert [(state, rows) for _, state, rows, _ in listed(warehouse)] == [("current", 1), ("older", 1), ("older", 1)]
    assert refused(warehouse.restage, "orders", first.version).code == "RVT-408"


def test_a_rollback_fails_if_a_run_publishes_meanwhile(warehouse, table):
    first = publish(warehouse, [1])
    publish(warehouse, [2])
    staged = warehouse.restage("orders", first.version)
    publish(warehouse, [3])
    assert refused(staged.commit, "rollback").code == "RVT-405"
    assert ids(table) == [3]


def test_files_are_copied_if_hard_links_are_not_possible(warehouse, table, monkeypatch):
    first = publish(warehouse, [1, 2])
    publish(warehouse, [3])

    def no_links(*_: object) -> None:
        raise PermissionError("links are not permitted here")

    monkeypatch.setattr(os, "link", no_links)
    warehouse.restage("orders", first.version).commit("rollback")
    assert ids(table) == [1, 2]


def test_unknown_versions_are_errors(warehouse, table):
    current = publish(warehouse, [1])
    before = tree(table.parent)
    for call in (warehouse.restage, warehouse.take_up):
        for name in (current.version, "00000009-00000000", "../orders"):
            assert refused(call, "orders", name).code == "RVT-408"
    assert tree(table.parent) == before


def test_a_withheld_version_is_claimed_by_one_command_only(warehouse, table):
    publish(warehouse, [1])
    withheld_version = withheld(warehouse, [2])
    warehouse.take_up("orders", withheld_version.version)
    error = refused(warehouse.take_up, "orders", withheld_version.version)
    assert (error.code, "somebody else is publishing or dropping" in str(error)) == ("RVT-408", True)
    # Its process dies: the version is still withheld, and can be claimed again when the heartbeat has expired.
    (alive,) = table.parent.glob(".rivet/orders/*.alive")
    os.utime(alive, (0, 0))
    assert warehouse.sweep() == ()
    assert not alive.exists()
    assert [one.state for one in warehouse.versions("orders")] == ["current", "withheld"]
    published = warehouse.take_up("orders", withheld_version.version).commit("by hand")
    assert (published.version, ids(table)) == (withheld_version.version, [2])


def test_a_version_is_withheld_under_the_lock_and_synced(warehouse, table, monkeypatch):
    """A sweep sees it either alive or marked, and a power failure loses nothing of it."""
    staged = fill(warehouse.begin("orders"), [1])
    home = table.parent / ".rivet/orders"
    seen, synced = [], recorded_syncs(monkeypatch)
    monkeypatch.setattr(FileHeartbeat, "end", lambda *_: seen.append(is_locked(home)))
    staged.withhold()
    assert seen == [True]
    folder = Path(staged.target.paths[0])
    durable = (folder / "part-0.snappy.parquet", folder, home / f"{staged.version}.kept", home)
    assert synced == [os.stat(path).st_ino for path in durable]


def is_locked(home: Path) -> bool:
    with open(home / "lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_published_version_with_a_leftover_mark_is_not_withheld(warehouse, table):
    """Its process was killed between publishing and removing the mark."""
    publish(warehouse, [1])
    withheld_version = withheld(warehouse, [2])
    mark = table.parent / f".rivet/orders/{withheld_version.version}.kept"
    text = mark.read_text()
    warehouse.take_up("orders", withheld_version.version).commit("by hand")
    mark.write_text(text)
    assert [one.state for one in warehouse.versions("orders")] == ["current", "older"]
    assert refused(warehouse.take_up, "orders", withheld_version.version).code == "RVT-408"
    assert warehouse.sweep() == ()
    assert not mark.exists()
    assert ids(table) == [2]


@pytest.mark.parametrize("place", ["orders_of_monday", "old/2024/orders", "file.parquet"])
def test_a_version_with_a_link_of_the_user_is_not_removed(warehouse, table, place):
    """Regardless of later publishes, sweeps and evictions."""
    old = publish(warehouse, [1, 2])
    link, folder = table.parent / place, Path(warehouse.read(old).paths[0])
    link.parent.mkdir(parents=True, exist_ok=True)
    if place == "orders_of_monday":
        table.rename(link)
        assert warehouse.current("orders") is None
    else:
        link.symlink_to(folder / "part-0.snappy.parquet" if place == "file.parquet" else folder)
    for number in range(6):
        last = publish(warehouse, [number])
        assert ids(link) == [1, 2]
    assert warehouse.sweep() == ()
    assert [finding.status for finding in warehouse.examine(True)] == ["ok"]
    warehouse.evict(last)
    assert ids(link) == [1, 2]
    publish(warehouse, [7])
    link.unlink()
    assert warehouse.sweep() == (f"orders/{old.version}",)
    assert ids(table) == [7]


def test_a_run_that_fails_after_publishing_does_not_affect_a_renamed_link(warehouse, table):
    staged = fill(warehouse.begin("orders"), [1])
    staged.commit("run")
    table.rename(table.parent / "mine")
    staged.abort()
    assert ids(table.parent / "mine") == [1]


def test_a_version_name_cannot_refer_to_another_table(warehouse, table):
    publish(warehouse, [1])
    other = fill(warehouse.begin("other"), [2])
    other.withhold()
    before = tree(table.parent)
    for name in (f"../other/{other.version}", f"{other.version}\n", f"./{other.version}", "", ".", "lock"):
        for call in (warehouse.restage, warehouse.take_up):
            assert refused(call, "orders", name).code == "RVT-408"
    assert refused(warehouse.restage, "third", "00000001-00000000").code == "RVT-408"
    assert refused(warehouse.take_up, "third", "00000001-00000000").code == "RVT-408"
    assert tree(table.parent) == before


def test_heartbeats_are_written_while_files_are_copied(warehouse, table, monkeypatch):
    first = publish(warehouse, [1, 2])
    publish(warehouse, [3])
    beats = threading.Event()

    def no_links(*_: object) -> None:
        raise PermissionError("links are not permitted here")

    def slow(path: Path, target: Path) -> None:
        assert beats.wait(10)
        shutil.copyfile(path, target)

    monkeypatch.setattr(heartbeat, "SECONDS", 0.01)
    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(shutil, "copy2", slow)
    monkeypatch.setattr(FileHeartbeat, "beat", lambda *_: beats.set())
    staged = warehouse.restage("orders", first.version)
    monkeypatch.undo()
    staged.commit("rollback")
    assert ids(table) == [1, 2]


def test_a_version_that_expires_during_a_rollback_is_an_error(warehouse, table, monkeypatch):
    first = publish(warehouse, [1])
    publish(warehouse, [2])
    before = tree(table.parent)

    def expires(path: Path, _: Path) -> None:
        raise FileNotFoundError(errno.ENOENT, "No such file", str(path))

    monkeypatch.setattr(lifecycle, "share", expires)
    assert refused(warehouse.restage, "orders", first.version).code == "RVT-408"
    assert tree(table.parent) == before


def test_existing_files_are_never_overwritten_by_a_copy(tmp_path):
    """Other versions may share it."""
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "part").write_text(folder)
    with pytest.raises(FileExistsError):
        share(tmp_path / "one/part", tmp_path / "two")
    assert (tmp_path / "two/part").read_text() == "two"


def test_eviction_leaves_only_the_staged_version_of_another_run(warehouse, table):
    publish(warehouse, [1])
    last = publish(warehouse, [2])
    building = fill(warehouse.begin("orders"), [3])
    warehouse.evict(last)
    assert warehouse.current("orders") is None
    assert not table.exists()
    assert {name.partition(".")[0] for name in os.listdir(table.parent / ".rivet/orders")} == {"lock", building.version}
    assert refused(warehouse.read, last).code == "RVT-401"


def test_eviction_spares_a_newer_version(warehouse, table):
    last = publish(warehouse, [1])
    publish(warehouse, [2])
    warehouse.evict(last)
    assert ids(table) == [2]


def test_a_damaged_manifest_of_an_old_version_stops_no_run(tmp_path):
    """The commands that read it name it, and it expires like any other."""
    lake = catalog(tmp_path, versions=3)
    first, second = publish(lake, [1], run="one"), publish(lake, [2], run="two")
    manifest = tmp_path / f"warehouse/.rivet/orders/{first.version}.json"
    manifest.write_text('{"version": ')
    for number in range(3, 7):
        if manifest.exists():
            for command in (lambda: lake.versions("orders"), lambda: lake.examine_table("orders")):
                error = refused(command)
                assert error.code == "RVT-407"
                assert manifest.name in str(error)
        assert publish(lake, [number], run=f"run{number}").rows_before == 1
        assert manifest.exists() == (number < 4)
        assert lake.published_by("orders", f"run{number}").version == lake.current("orders").version
        assert lake.published_by("orders", "another") is None
    assert lake.published_by("orders", "two").version == second.version
    assert lake.sweep() == ()
    assert len(lake.versions("orders")) == 3


@pytest.mark.parametrize("recorded", [0, 2, 5])
def test_versions_of_an_earlier_release_are_recorded_with_the_next_publication(tmp_path, recorded):
    """Such a release recorded a version when it expired; a killed writer has left a part of a line."""
    lake = catalog(tmp_path, versions=6)
    versions = [publish(lake, [number], run=f"run{number}") for number in range(6)]
    record = tmp_path / "warehouse/.rivet/orders/publishers.jsonl"
    lines = record.read_text().splitlines(keepends=True)
    record.write_text("".join(lines[:recorded]) + (lines[recorded][:-20] if recorded < 5 else ""))
    assert [lake.published_by("orders", f"run{number}") for number in range(6)] == versions
    for number in range(6, 9):
        versions.append(publish(lake, [number], run=f"run{number}"))
    names = [json.loads(line)["version"] for line in record.open() if line.endswith("}\n")]
    assert names == [version.version for version in versions[:-1]]
    assert [version.name for version in lake.versions("orders")] == [v.version for v in versions[:2:-1]]
    assert [lake.published_by("orders", f"run{number}").version for number in range(9)] == [
        version.version for version in versions
    ]


def test_a_version_that_was_withheld_expires_in_the_order_of_publications(tmp_path):
    """Though its name sorts before those of versions that were published before it."""
    lake = catalog(tmp_path, versions=2)
    publish(lake, [1])
    withheld = fill(lake.begin("orders"), [2])
    withheld.withhold("run")
    third = publish(lake, [3])
    with lake.take_up("orders", withheld.version) as transaction:
        transaction.commit("by hand")
    assert [version.name for version in lake.versions("orders")] == [withheld.version, third.version]
    last = publish(lake, [4])
    assert [version.name for version in lake.versions("orders")] == [last.version, withheld.version]


def test_a_version_whose_manifest_a_person_removed_is_retained(tmp_path):
    """Its statistics lie beside it in a file whose name ends like that of a manifest."""
    lake = catalog(tmp_path, versions=2)
    first = publish(lake, [1])
    (tmp_path / f"warehouse/.rivet/orders/{first.version}.json").unlink()
    publish(lake, [2])
    assert ids(lake.read(first).paths[0]) == [1]
    assert lake.sweep() == ()
    assert ids(lake.read(first).paths[0]) == [1]


def test_a_withheld_version_stays_whose_publication_is_killed_before_readers_are_switched(tmp_path, monkeypatch):
    lake = catalog(tmp_path, versions=1)
    publish(lake, [1])
    kept = fill(lake.begin("orders"), [2])
    kept.withhold("run")
    with monkeypatch.context() as patched:
        patched.setattr(lifecycle, "switch", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            lake.take_up("orders", kept.version).commit("by hand")
    home = tmp_path / "warehouse/.rivet/orders"
    assert (home / f"{kept.version}.json").exists()
    for number in range(3):
        publish(lake, [number])  # its heartbeat may still count
        if number == 0:
            os.utime(home / f"{kept.version}.alive", (0, 0))
    assert [version.name for version in lake.versions("orders") if version.state == WITHHELD] == [kept.version]
    with lake.take_up("orders", kept.version) as transaction:
        transaction.commit("by hand")
    assert ids(tmp_path / "warehouse/orders") == [2]


def test_what_was_published_after_a_version_that_a_person_brings_back_expires(table, tmp_path):
    lake = catalog(tmp_path, versions=3)
    first, second, third = (publish(lake, [number]) for number in range(3))
    table.unlink()
    table.symlink_to(f".rivet/orders/{first.version}")
    assert lake.current("orders") == first
    last = publish(lake, [3])
    assert [version.name for version in lake.versions("orders")] == [last.version, first.version]
    home = tmp_path / "warehouse/.rivet/orders"
    assert not (home / third.version).exists()
    publish(lake, [4])
    assert not (home / f"{first.version}.json").exists()
    publish(lake, [5])
    assert not (home / f"{second.version}.json").exists()


def test_the_record_of_a_version_stays_as_long_as_the_version(tmp_path, monkeypatch):
    """And that of an expired one for the time that runs are retried in."""
    lake = catalog(tmp_path, versions=3)
    monkeypatch.setattr(records, "REMEMBERED", timedelta(0))
    for number in range(6):
        publish(lake, [number], run=f"run{number}")
        time.sleep(0.002)
    found = [lake.published_by("orders", f"run{number}") for number in range(6)]
    assert [published is not None for published in found] == [False, False, True, True, True, True]
