"""Files of a landing zone that runs read and archive, on an engine that needs no start."""

import os
import tempfile
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.landing import READERS, archived, catalog, plan, put, read, rows, rows_ever, zone_files
from support.tables import refused
from support.torture import examples

from rivet_dagster.catalogs.filesystem.sources.landing import FilesystemLandingZone
from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.writing import publish as transaction

KEEP = plan(archive=False)


@pytest.fixture(autouse=True)
def quickly(monkeypatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(transaction, "PAUSES", (0.0, 0.0, 0.0))


def test_each_reader_reads_each_file_once(tmp_path):
    put(tmp_path, "a.csv", 1, 2)
    put(tmp_path, "b.csv", 3)
    read(tmp_path, "first", assembly=KEEP)
    put(tmp_path, "c.csv", 4)
    read(tmp_path, "first", assembly=KEEP)
    read(tmp_path, "second", assembly=KEEP)
    assert rows(tmp_path, "first") == [4]
    assert rows(tmp_path, "second") == [1, 2, 3, 4]
    assert rows_ever(tmp_path, "first") == [1, 2, 3, 4]


def test_a_changed_file_is_read_again(tmp_path):
    put(tmp_path, "a.csv", 1)
    put(tmp_path, "b.csv", 2)
    read(tmp_path, assembly=KEEP)
    put(tmp_path, "a.csv", 5)
    read(tmp_path, assembly=KEEP)
    assert rows(tmp_path) == [5]


def test_without_new_files_the_batch_is_empty_with_the_same_columns(tmp_path):
    put(tmp_path, "a.csv", 1)
    read(tmp_path)
    assert zone_files(tmp_path) == {"a.csv": "1"}  # the second table has not read it
    assert read(tmp_path).rows.total == 0
    assert read(tmp_path, assembly=plan(on_empty="skip")).skipped_empty
    error = refused(read, tmp_path, assembly=plan(on_empty="fail"))
    assert error.code == "RVT-508"


def test_before_the_first_file_the_columns_are_unknown(tmp_path):
    (tmp_path / "lake/zone").mkdir(parents=True)
    error = refused(read, tmp_path)
    assert (error.code, error.diagnostics[0].joint) == ("RVT-403", "zone")
    assert catalog(tmp_path).current("first") is None


def test_a_missing_zone_fails_the_run_and_consumed_files_stay_recorded(tmp_path):
    put(tmp_path, "a.csv", 1)
    read(tmp_path, assembly=KEEP)
    (tmp_path / "lake/zone").rename(tmp_path / "away")
    assert refused(read, tmp_path, assembly=KEEP).code == "RVT-403"
    (tmp_path / "away").rename(tmp_path / "lake/zone")
    read(tmp_path, assembly=KEEP)
    assert rows(tmp_path) == []


def test_a_file_that_arrives_during_the_run_waits_for_the_next_run(tmp_path):
    put(tmp_path, "a.csv", 1)
    read(tmp_path, "second")
    result = read(tmp_path, "first", before_write=lambda: put(tmp_path, "b.csv", 2))
    assert rows(tmp_path) == [1]
    assert [file.path for file in result.published.landed["zone"].files] == ["zone/a.csv"]
    assert (archived(tmp_path), zone_files(tmp_path)) == ({"a.csv": "1"}, {"b.csv": "2"})
    read(tmp_path)
    assert rows(tmp_path) == [2]


def test_a_file_that_changes_during_the_run_is_read_again_and_not_archived(tmp_path):
    put(tmp_path, "a.csv", 1)
    read(tmp_path, "second")
    read(tmp_path, "first", before_write=lambda: put(tmp_path, "a.csv", 1, 2))
    assert (archived(tmp_path), zone_files(tmp_path)) == ({}, {"a.csv": "1 2"})
    read(tmp_path, "first")
    assert rows(tmp_path) == [1, 2]
    assert archived(tmp_path) == {}  # the second table has read only its first state
    read(tmp_path, "second")
    assert archived(tmp_path) == {"a.csv": "1 2"}


def test_files_are_archived_under_the_version_of_the_last_reader(tmp_path):
    put(tmp_path, "a b.csv", 1)
    put(tmp_path, "[x]*/c.csv", 2)
    read(tmp_path, "first")
    assert archived(tmp_path) == {}
    version = read(tmp_path, "second").published.version
    zone = tmp_path / "lake/zone"
    assert (zone / "_archive" / version / "a b.csv").read_text() == "1"
    assert (zone / "[x]*/_archive" / version / "c.csv").read_text() == "2"
    assert zone_files(tmp_path) == {}
    assert read(tmp_path, "first").rows.total == 0


def test_files_are_not_archived_without_the_option(tmp_path):
    put(tmp_path, "a.csv", 1)
    for table in READERS:
        read(tmp_path, table, assembly=KEEP)
    assert zone_files(tmp_path) == {"a.csv": "1"}


def test_the_record_of_consumed_files_has_only_existing_files(tmp_path):
    for n in range(5):
        put(tmp_path, f"{n}.csv", n)
        for table in READERS:
            published = read(tmp_path, table).published
    assert len(published.landed["zone"].known) == 1


def test_a_run_that_fails_to_publish_consumes_nothing(tmp_path):
    put(tmp_path, "a.csv", 1)
    read(tmp_path, "second")
    with patch.object(FilesystemTransaction, "commit", side_effect=RivetError("RVT-404", "full")):
        assert refused(read, tmp_path, "first").code == "RVT-404"
    assert zone_files(tmp_path) == {"a.csv": "1"}
    read(tmp_path, "first")
    assert rows(tmp_path) == [1]


def test_a_retry_of_a_published_run_reads_nothing_again_and_archives(tmp_path):
    put(tmp_path, "a.csv", 1)
    read(tmp_path, "second")
    with (
        patch.object(FilesystemLandingZone, "archive", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        read(tmp_path, "first", "mine")
    assert (rows(tmp_path), zone_files(tmp_path)) == ([1], {"a.csv": "1"})
    again = read(tmp_path, "first", "mine")
    assert [file.path for file in again.published.landed["zone"].files] == ["zone/a.csv"]
    assert (rows_ever(tmp_path), archived(tmp_path)) == ([1], {"a.csv": "1"})


def test_a_skipped_empty_batch_archives_files_read_before(tmp_path):
    skip = plan(on_empty="skip")
    put(tmp_path, "a.csv", 1)
    read(tmp_path, "second", assembly=skip)
    with patch.object(FilesystemLandingZone, "archive", side_effect=RivetError("RVT-410", "no")):
        assert read(tmp_path, "first", assembly=skip).not_archived.code == "RVT-410"
    assert read(tmp_path, "first", assembly=skip).skipped_empty
    assert archived(tmp_path) == {"a.csv": "1"}


def test_an_empty_file_of_a_skipped_batch_is_read_again(tmp_path):
    skip = plan(on_empty="skip")
    put(tmp_path, "a.csv")
    for table in READERS:
        assert read(tmp_path, table, assembly=skip).skipped_empty
    put(tmp_path, "b.csv", 1)
    for table in READERS:
        assert len(read(tmp_path, table, assembly=skip).published.landed["zone"].files) == 2
    assert archived(tmp_path) == {"a.csv": "", "b.csv": "1"}


def test_rows_of_files_that_cannot_be_archived_are_published(tmp_path):
    put(tmp_path, "a.csv", 1)
    (tmp_path / "lake/zone/_archive").write_text("in the way")
    read(tmp_path, "second")
    result = read(tmp_path, "first")
    (found,) = result.not_archived.diagnostics
    assert (found.code, found.joint, rows(tmp_path)) == ("RVT-410", "zone", [1])
    (tmp_path / "lake/zone/_archive").unlink()
    assert read(tmp_path, "first").not_archived is None
    assert archived(tmp_path) == {"a.csv": "1"}


def test_an_overtaken_run_lists_the_files_again(tmp_path):
    put(tmp_path, "a.csv", 1)
    commit = FilesystemTransaction.commit
    left = [1]

    def overtaken(*arguments):
        if left[0]:
            left[0] -= 1
            put(tmp_path, "b.csv", 2)
            with patch.object(FilesystemTransaction, "commit", commit):
                read(tmp_path)
            put(tmp_path, "c.csv", 3)
        return commit(*arguments)

    with patch.object(FilesystemTransaction, "commit", overtaken):
        result = read(tmp_path)
    assert [file.path for file in result.published.landed["zone"].files] == ["zone/c.csv"]
    assert (rows(tmp_path), rows_ever(tmp_path)) == ([3], [1, 2, 3])


def test_after_a_rollback_the_files_of_the_newer_versions_are_read_again(tmp_path):
    put(tmp_path, "a.csv", 1)
    first = read(tmp_path, assembly=KEEP).published
    put(tmp_path, "b.csv", 2)
    read(tmp_path, assembly=KEEP)
    lake = catalog(tmp_path)
    lake.restage("first", first.version).commit("rollback")
    read(tmp_path, assembly=KEEP)
    assert rows(tmp_path) == [2]


class Zone(RuleBasedStateMachine):
    """Files are added, changed and removed, tables read them; a model has the consumed and the archived files."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name)
        (self.root / "lake/zone").mkdir(parents=True)
        self.number = 0
        self.there: dict[str, tuple[int, ...]] = {}
        self.began: set[str] = set()
        self.archive: list[tuple[int, ...]] = []
        self.has_read: dict[str, dict[str, tuple[int, ...]]] = {name: {} for name in READERS}
        self.ever: dict[str, list[int]] = {name: [] for name in READERS}

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(name=st.sampled_from(["a.csv", "b c.csv", "d/e.csv", "d/*.csv"]), rows=st.integers(0, 3))
    def add_or_change(self, name: str, rows: int) -> None:
        numbers = tuple(range(self.number, self.number + rows))
        self.number += max(rows, 1)
        put(self.root, name, *numbers)
        # All files differ, even without rows, by their times.
        self.there[name] = (*numbers, -self.number)

    @precondition(lambda self: self.there)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.there)))
        (self.root / "lake/zone" / name).unlink()
        del self.there[name]

    @rule(table=st.sampled_from(READERS), archives=st.booleans(), fails=st.sampled_from(["", "", "commit", "archive"]))
    def read_table(self, table: str, archives: bool, fails: str) -> None:
        error = RivetError("RVT-404", "full")
        broken = {"commit": FilesystemTransaction, "archive": FilesystemLandingZone}.get(fails)
        assembly = plan(archives)
        if not self.there and table not in self.began:
            assert refused(read, self.root, table).code == "RVT-403"  # the columns are unknown
            return
        if broken is None:
            read(self.root, table, assembly=assembly)
        else:
            with patch.object(broken, fails, side_effect=error):
                try:
                    result = read(self.root, table, assembly=assembly)
                except RivetError:
                    return
            assert (result.not_archived is not None) == archives
        self.began.add(table)
        known = self.has_read[table]
        for name, content in self.there.items():
            if known.get(name) != content:
                self.ever[table] += [number for number in content if number >= 0]
        self.has_read[table] = dict(self.there)
        if archives and not fails:
            for name, content in list(self.there.items()):
                if all(known.get(name) == content for known in self.has_read.values()):
                    self.archive.append(content)
                    del self.there[name]

    @invariant()
    def matches_the_model(self) -> None:
        def text(content: tuple[int, ...]) -> str:
            return " ".join(str(number) for number in content if number >= 0)

        assert zone_files(self.root) == {name: text(content) for name, content in self.there.items()}
        files = (path for path in (self.root / "lake/zone").rglob("_archive/*/*"))
        assert sorted(path.read_text() for path in files) == sorted(map(text, self.archive))
        for table in READERS:
            assert rows_ever(self.root, table) == sorted(self.ever[table])


TestZone = Zone.TestCase
TestZone.settings = settings(max_examples=examples(6, 30), stateful_step_count=20)
