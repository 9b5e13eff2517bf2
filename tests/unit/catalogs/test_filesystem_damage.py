"""Damaged files and failed writes between the engine's write and publishing: nothing is published."""

import errno
import os
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.standin import TABLE, StandIn, StandInRuntime, run, write_as_spark_does
from support.tables import catalog, refused, tree

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.catalogs.filesystem.versions import lifecycle, records
from rivet_dagster.catalogs.filesystem.writes import transaction
from rivet_dagster.catalogs.filesystem.writes.staged_version import StagedVersion
from rivet_dagster.errors import RivetError

OLD, NEW = [1, 2, 3, 4], [5, 6, 7, 8]


def truncate(files: list[Path]) -> None:
    os.truncate(files[1], files[1].stat().st_size - 5)


def empty(files: list[Path]) -> None:
    os.truncate(files[0], 0)


def overwrite_with_noise(files: list[Path]) -> None:
    files[2].write_bytes(random.Random(1).randbytes(files[2].stat().st_size))


def overwrite_rows_alone(files: list[Path]) -> None:
    with open(files[0], "r+b") as file:
        file.seek(10)
        file.write(b"\xff" * 10)


def delete_one(files: list[Path]) -> None:
    files[0].unlink()


def delete_all(files: list[Path]) -> None:
    for file in files:
        file.unlink()


def add_one(files: list[Path]) -> None:
    write_as_spark_does([99], files[0].parent)


def data_files(folder: str | Path) -> list[Path]:
    return sorted(Path(folder).glob("part-*"))


@pytest.fixture
def published(tmp_path: Path) -> list[str]:
    """Publish a table with the old rows; return all its files."""
    run(tmp_path, OLD)
    return tree(tmp_path)


def assert_untouched(root: Path, published: list[str]) -> None:
    """Assert that the table has the old rows, there are no other files, and the next run publishes."""
    assert sorted(pq.read_table(root / "lake" / TABLE)["id"].to_pylist()) == OLD
    assert tree(root) == published
    run(root, NEW)
    assert sorted(pq.read_table(root / "lake" / TABLE)["id"].to_pylist()) == NEW


@pytest.mark.parametrize("violations", [0, 1])
@pytest.mark.parametrize("damage", [truncate, empty, overwrite_with_noise, delete_all])
def test_files_damaged_before_the_audit(tmp_path, published, damage, violations):
    class Damaging(StandIn):
        def write(self, frame, target, progress=None, split_by=()):
            super().write(frame, target)
            damage(data_files(target.paths[0]))

    error = refused(run, tmp_path, NEW, violations, Damaging)
    assert error.code == ("RVT-402" if damage is delete_all else "RVT-407")
    assert error.diagnostics[0].joint == TABLE
    assert "/.rivet/out/00000002-" in str(error)
    assert "\n" not in error.diagnostics[0].message
    assert_untouched(tmp_path, published)


@pytest.mark.parametrize(
    "damage", [truncate, empty, overwrite_with_noise, overwrite_rows_alone, delete_one, delete_all, add_one]
)
def test_files_changed_after_the_audit(tmp_path, published, damage):
    class Damaging(StandIn):
        def load(self, relation, projection=None):
            found.extend(relation.paths)
            return relation

        def rows(self, text, parameters=None, timeout=None):
            answer = super().rows(text)
            damage(data_files(found.pop()))  # the check has passed
            return answer

    found: list[str] = []
    error = refused(run, tmp_path, NEW, 0, Damaging)
    assert error.code == ("RVT-402" if damage is delete_all else "RVT-407")
    assert_untouched(tmp_path, published)


def test_a_file_that_vanishes_during_the_audit(tmp_path, published, monkeypatch):
    def vanish(staged: StagedVersion) -> list[Path]:
        files = data_files(staged.folder)
        files[0].unlink()
        return files

    monkeypatch.setattr(StagedVersion, "files", vanish)
    error = refused(run, tmp_path, NEW)
    assert error.code == "RVT-407"
    assert "part-00000-" in str(error)
    monkeypatch.undo()
    assert_untouched(tmp_path, published)


SPACE, RIGHTS, LOOK = "Free space", "the right to write there", "Look after that file system"
REFUSALS = [
    (errno.ENOSPC, SPACE),
    (errno.EDQUOT, SPACE),
    (errno.EROFS, RIGHTS),
    (errno.EACCES, RIGHTS),
    (errno.EIO, LOOK),
]
PLACES = {
    "the lock": (lifecycle.fcntl, "flock"),
    "the clock": (records, "now"),
    "the sign of life": (records.FileHeartbeat, "begin"),
    "the folder": (lifecycle, "_try_a_link"),
    "tidying": (lifecycle, "tidy"),
    "the files": (lifecycle, "sync"),
    "the manifest": (transaction, "write_manifest"),
    "the link": (os, "replace"),
}


@pytest.mark.parametrize(("number", "remedy"), REFUSALS, ids=[errno.errorcode[number] for number, _ in REFUSALS])
@pytest.mark.parametrize("place", PLACES)
def test_a_write_rejected_by_the_system(tmp_path, published, monkeypatch, place, number, remedy):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    lake = tmp_path / "lake"
    monkeypatch.setattr(*PLACES[place], refuse)
    error = refused(run, tmp_path, NEW)
    assert error.code == "RVT-404"
    assert f"cannot write to {lake}/.rivet/out: {os.strerror(number)}" in str(error)
    assert remedy in str(error)
    monkeypatch.undo()
    assert_untouched(tmp_path, published)


def test_a_failed_discard_hides_no_error_and_is_swept_later(tmp_path, published, monkeypatch):
    class Failing(StandIn):
        def write(self, frame, target, progress=None, split_by=()):
            super().write(frame, target)
            monkeypatch.setattr(lifecycle, "remove", refuse)
            raise RivetError("RVT-503", "the query failed")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    assert refused(run, tmp_path, NEW, 0, Failing).code == "RVT-503"
    monkeypatch.undo()
    (alive,) = (tmp_path / "lake/.rivet/out").glob("*.alive")
    os.utime(alive, (0, 0))
    assert lake_of(tmp_path).sweep() == (f"out/{alive.stem}",)
    assert_untouched(tmp_path, published)


def test_a_version_without_an_audit_is_published_as_it_is(tmp_path):
    warehouse = catalog(tmp_path)
    staged = warehouse.begin("orders")
    write_as_spark_does(NEW, Path(staged.target.paths[0]))
    assert staged.commit("run").statistics.rows == len(NEW)


def lake_of(root: Path) -> FilesystemCatalog:
    return StandInRuntime(root, StandIn([])).catalog("lake")
