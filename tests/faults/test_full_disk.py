"""Full or read-only disks: the run reports it, the table is unchanged, and the next run succeeds with free space."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.folders import sink
from support.standin import TABLE, StandIn, run
from support.tables import refused, tree

from rivet_dagster.catalogs.filesystem.versions.records import write_manifest
from rivet_dagster.catalogs.filesystem.writes import transaction
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.errors import RivetError

from .conftest import wait_until

OLD, NEW, NEXT = [1, 2, 3], [4, 5, 6], [7, 8, 9]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount an empty disk of two megabytes and a hundred files."""
    place = tmp_path / "disk"
    place.mkdir()
    try:
        mount("-t", "tmpfs", "-o", "size=2m,nr_inodes=100", "tmpfs", place)
    except subprocess.CalledProcessError:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def mount(*arguments: object) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True, capture_output=True)


@pytest.fixture
def root(disk: Path) -> Path:
    """Write a project on that disk and a table with the old rows."""
    run(disk, OLD)
    return disk


def fill_blocks(disk: Path, but: int) -> None:
    """Fill the disk except for ``but`` blocks."""
    free = os.statvfs(disk)
    (disk / "ballast").write_bytes(b"\0" * ((free.f_bfree - but) * free.f_frsize))
    assert os.statvfs(disk).f_bfree == but


def fill_inodes(disk: Path, but: int) -> None:
    """Fill the disk except for ``but`` inodes."""
    (disk / "ballast").mkdir()
    for number in range(os.statvfs(disk).f_ffree - but):
        (disk / f"ballast/{number}").touch()
    assert os.statvfs(disk).f_ffree == but


def empty(disk: Path) -> None:
    subprocess.run(["rm", "-r", disk / "ballast"], check=True)


def ids(root: Path) -> list[int]:
    return sorted(pq.read_table(root / "lake" / TABLE)["id"].to_pylist())


@pytest.mark.parametrize(
    ("fill", "enough", "codes"), [(fill_blocks, 5, {"RVT-503"}), (fill_inodes, 9, {"RVT-404", "RVT-503"})]
)
def test_a_full_disk_at_any_write_leaves_the_old_table(root, fill, enough, codes):
    """With no free space, with space for one more block or file, and so on until the run fits."""
    errors = []
    for but in range(30):
        before = tree(root / "lake")
        fill(root, but)
        try:
            run(root, NEW)
        except RivetError as error:
            errors.append(error)
        else:
            break
        assert ids(root) == OLD
        assert tree(root / "lake") == before
        empty(root)
    assert but >= enough
    assert ids(root) == NEW
    assert all("No space left on device" in str(error) for error in errors)
    assert {error.code for error in errors} == codes
    assert all("Free space" in str(error) for error in errors if error.code == "RVT-404")


def test_a_full_disk_at_the_manifest_leaves_the_old_table(root, monkeypatch):
    def write_on_a_full_disk(manifest: Manifest, path: Path) -> None:
        fill_blocks(root, 0)
        write_manifest(manifest, path)

    before = tree(root / "lake")
    monkeypatch.setattr(transaction, "write_manifest", write_on_a_full_disk)
    error = refused(run, root, NEW)
    assert error.code == "RVT-404"
    assert f"cannot write to {root}/lake/.rivet/out: No space left on device" in str(error)
    assert (ids(root), tree(root / "lake")) == (OLD, before)
    monkeypatch.undo()
    empty(root)
    run(root, NEXT)
    assert ids(root) == NEXT


def test_files_of_a_dead_run_on_a_full_disk_are_swept_before_writing(root):
    home = root / "lake/.rivet/out"
    dead = home / "00000002-0badcafe"
    (home / f"{dead.name}.alive").touch()
    os.utime(home / f"{dead.name}.alive", (0, 0))
    dead.mkdir()
    fill_inodes(root, 1)  # so that the sweep takes it for dead
    os.rename(root / "ballast", dead / "_temporary")
    run(root, NEW)
    assert ids(root) == NEW
    assert not dead.exists()


def test_a_read_only_disk_leaves_the_old_table(root):
    before = tree(root)
    mount("-o", "remount,ro", root)
    error = refused(run, root, NEW)
    assert error.code == "RVT-404"
    assert f"cannot write to {root}/lake/.rivet/out: Read-only file system" in str(error)
    assert "the right to write there" in str(error)
    assert (ids(root), tree(root)) == (OLD, before)
    mount("-o", "remount,rw", root)
    run(root, NEXT)
    assert ids(root) == NEXT


def test_a_disk_that_becomes_read_only_before_publishing_leaves_the_old_table(root):
    class ReadOnly(StandIn):
        def rows(self, *arguments):
            mount("-o", "remount,ro", root)
            return super().rows(*arguments)

    error = refused(run, root, NEW, 0, ReadOnly)
    assert (error.code, error.diagnostics[0].joint) == ("RVT-404", TABLE)
    assert ids(root) == OLD
    mount("-o", "remount,rw", root)
    (alive,) = (root / "lake/.rivet/out").glob("*.alive")
    os.utime(alive, (0, 0))
    run(root, NEXT)
    assert ids(root) == NEXT
    assert not [path for path in tree(root) if alive.stem in path]


@pytest.mark.nightly
def test_a_full_disk_while_spark_writes_is_reported(disk: Path, project: Callable, application: PySparkEngine):
    numbers = project({"joints/numbers.sql": "SELECT id FROM range(3)", "sinks/out.yaml": sink("out", "numbers")})
    (numbers.root / "lake").symlink_to(disk)
    numbers.run("out")
    before, files = numbers.bytes_of("out"), tree(disk)
    numbers.write({"joints/numbers.sql": "SELECT id, sha2(CAST(id AS STRING), 256) AS text FROM range(200000)"})
    error = refused(numbers.run, "out")
    assert error.code == "RVT-503"
    assert "No space left on device" in error.diagnostics[0].message
    assert "Free space" in error.diagnostics[0].remediation
    assert (numbers.bytes_of("out"), tree(disk)) == (before, files)

    def is_free() -> bool:
        # Spark's JVM holds removed files that it could not close until garbage collection.
        application.session().spark._jvm.System.gc()
        return os.statvfs(disk).f_bfree > 100

    wait_until(is_free)
    numbers.write({"joints/numbers.sql": "SELECT id FROM range(10, 15)"}).run("out")
    assert [row["id"] for row in numbers.rows("out")] == [*range(10, 15)]
