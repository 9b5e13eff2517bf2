"""The data files of a version: their statistics, and the sharing of those that a write cannot change."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.filesystem.files.file_status import is_folder, names_in
from rivet_dagster.catalogs.filesystem.files.footer_cache import FileStamp, read_footers, storable, write_footers
from rivet_dagster.catalogs.filesystem.files.footers import (
    Footer,
    data_names,
    footer_of,
    is_data,
    parquet_files,
    sql_type,
)
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.catalogs.totals import Totals
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Statistics


def stamp_of(path: Path | os.DirEntry[str]) -> FileStamp:
    """Return the stamp of a file. Raises RVT-407 if it does not exist any more."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise RivetError("RVT-407", f"the file {os.fspath(path)}, which the engine wrote, has vanished") from error
    return (path.name, status.st_size, status.st_mtime_ns)


class Footers:
    """The footers of a table's files, each read at most once; ``cached`` are paths of files that hold some of them.

    Settled files are those of versions that are complete: durable, and changed by nobody. They are looked up once.
    """

    def __init__(self, *cached: Path) -> None:
        self._cached = list(cached)
        self._known: dict[FileStamp, Footer] = {}
        self._settled: dict[Path, FileStamp] = {}
        self._totals = Totals()
        self._totaled: frozenset[FileStamp] = frozenset()

    def settle(self, folder: Path) -> list[Path]:
        """Look up the files of a folder, which are settled, and return them in order. Raises RVT-407, OSError."""
        with os.scandir(folder) as entries:
            stamps = sorted(stamp_of(entry) for entry in entries if is_data(entry.name))
        settled = {folder / stamp[0]: stamp for stamp in stamps}
        self._settled |= settled
        return list(settled)

    @property
    def settled(self) -> Collection[Path]:
        """The paths of the settled files."""
        return self._settled.keys()

    def share(self, path: Path, folder: Path, is_there: bool) -> None:
        """Put a settled file into another folder, too, where it is settled unless it had to be copied.

        ``is_there`` says that the folder has a link to it already.
        """
        to = folder / path.name
        if is_there or share(path, to):
            self._settled[to] = self._settled[path]

    def stamp(self, path: Path) -> FileStamp:
        """Return the stamp of a file. Raises RVT-407."""
        return self._settled.get(path) or stamp_of(path)

    def of(self, path: Path) -> Footer:
        """Return the footer of a file. Raises RVT-407."""
        return self._of(path, self.stamp(path))

    def _of(self, path: Path, stamp: FileStamp) -> Footer:
        self._read_cached()
        if stamp not in self._known:
            self._known[stamp] = storable(footer_of(path))
        return self._known[stamp]

    def _read_cached(self) -> None:
        while self._cached:
            cached = read_footers(self._cached.pop())
            self._known |= cached.footers
            if cached.totals is not None:
                self._totals, self._totaled = cached.totals, frozenset(cached.footers)

    def statistics(self, files: Iterable[Path]) -> Statistics:
        """Return the statistics of ``files``, at least one, taken together. Raises RVT-407."""
        stamps = {self.stamp(path): path for path in files}
        footers = {stamp: self._of(path, stamp) for stamp, path in stamps.items()}
        return self._totals_of(footers).statistics(next(iter(footers.values())).statistics)

    def write(self, files: Iterable[Path], to: Path) -> None:
        """Write the footers of ``files`` to disk, in the form that ``cached`` files have. Raises OSError."""
        footers = {stamp: self._of(path, stamp) for path in files for stamp in (self.stamp(path),)}
        write_footers(footers, self._totals_of(footers), to)

    def _totals_of(self, footers: Mapping[FileStamp, Footer]) -> Totals:
        """Return the totals of files with these footers: those of other files, changed by the difference if it is less.

        The result is changed by the next call. Totals of few files do not take the place of those of many.
        """
        if len(self._totaled ^ footers.keys()) > len(footers):
            if len(footers) < len(self._totaled):
                return Totals.of(footer.statistics for footer in footers.values())
            self._totals, self._totaled = Totals(), frozenset()
        gone, new = self._totaled - footers.keys(), footers.keys() - self._totaled
        for stamp in gone:
            self._totals.remove(self._known[stamp].statistics)
        for stamp in new:
            self._totals.add(footers[stamp].statistics)
        self._totals.restore(footer.statistics for footer in footers.values())
        self._totaled = frozenset(footers)
        return self._totals


def flatten(folder: Path) -> None:
    """Move the files of the subfolders that a split write has made up into the version's folder.

    Readers would take the subfolders for partition columns of the table.
    """
    parts = [path for path in (folder / name for name in names_in(folder) if "=" in name) if is_folder(path)]
    for number, part in enumerate(parts):
        for path in parquet_files(part):
            # A task uses one file name in all subfolders that it writes to.
            os.rename(path, folder / f"{path.stem}-{number:05}{path.suffix}")
        shutil.rmtree(part)


def share(path: Path, to: Path) -> bool:
    """Put the file at another path, too: as a hard link if the file system has them, else as a copy.

    Return whether it is a link; a copy is not durable yet.
    """
    try:
        os.link(path, to)
    except FileExistsError:
        raise  # a copy would overwrite the existing file in all versions that share it
    except OSError:
        shutil.copy2(path, to)
        return False
    return True


def keep_permissions(base: Path, folder: Path, files: Iterable[Path]) -> None:
    """Give a version's folder, and ``files`` of it, the permissions, and where possible the owner, of its base's."""
    _like(folder, base)
    names = data_names(base)
    for path in files if names else ():
        _like(path, base / names[0])


def _like(path: Path, example: Path) -> None:
    shutil.copymode(example, path)
    status = example.stat()
    with suppress(PermissionError):  # only the superuser can change the owner
        os.chown(path, status.st_uid, status.st_gid)


def prune_files(files: list[Path], affected: Affected, footers: Footers) -> tuple[list[Path], list[Path], int]:
    """Return the files that a write cannot change, those that it may change in part, and the row count of all files."""
    unchanged, mixed, rows = [], [], 0
    for path in files:
        statistics = footers.of(path).statistics
        rows += statistics.rows
        if not affected.may_change(statistics):
            unchanged.append(path)
        elif not affected.removes(statistics):
            mixed.append(path)
    return unchanged, mixed, rows


def write_rows(rows: Any, folder: Path) -> bool:
    """Write the rows of a pyarrow.RecordBatchReader to one more file of a version, a few batches in memory at a time.

    Return False, without having read any row, if Spark would not read a column with its own type.
    """
    import pyarrow.parquet as pq

    if any(sql_type(field.type) is None for field in rows.schema):
        return False
    with pq.ParquetWriter(folder / f"part-{secrets.token_hex(4)}.snappy.parquet", rows.schema) as file:
        for batch in rows:
            file.write_batch(batch)
    return True
