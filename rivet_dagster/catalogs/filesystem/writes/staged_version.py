"""A staged version: the version that it builds upon, and the files that have been written to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.filesystem.files.data_files import (
    Footers,
    flatten,
    keep_permissions,
    prune_files,
    stamp_of,
    write_rows,
)
from rivet_dagster.catalogs.filesystem.files.file_status import translate_read_errors, translate_write_errors
from rivet_dagster.catalogs.filesystem.files.footer_cache import FileStamp
from rivet_dagster.catalogs.filesystem.files.footers import data_names, parquet_files
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.records import FileHeartbeat
from rivet_dagster.catalogs.filesystem.versions.spare import take_spare
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.catalogs.rewriting.version import Remaining, RewritableVersion
from rivet_dagster.catalogs.versions.heartbeat import send_heartbeats
from rivet_dagster.engines.contract import EngineSession, Frame, Progress
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Base, StoredRows
from rivet_dagster.sql.write_strategies.alignment import in_partitions, nothing_of

_WRITTEN = "rivet_written"


@dataclass
class StagedVersion(RewritableVersion):
    """A folder of files beside the folders of the published versions.

    ``upon`` is the version that was published when this one was begun (None: the table did not exist); ``audited`` are
    the stamps of its files when they were judged.
    """

    table: TableLayout
    name: str
    upon: str | None
    options: Mapping[str, str]
    engine_session: EngineSession | None
    footers: Footers
    shown: str
    audited: frozenset[FileStamp] | None = None

    @property
    def session(self) -> EngineSession:
        """The session that computes its rows."""
        assert self.engine_session is not None, "begun without a session, a version only takes rows of this process"
        return self.engine_session

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return self.table.data(self.name)

    @property
    def target(self) -> Files:
        """The relation that an engine appends rows to."""
        return Files("parquet", (str(self.folder),), self.options)

    @property
    def base(self) -> Base | None:
        """The folder of the base, with the columns of its first file."""
        with translate_read_errors(self.table.home), FileHeartbeat(self.table, self.name).required():
            return self._base

    def add(self, frame: Frame, context: WriteContext, split_by: str | None = None) -> None:
        """Have the engine write files; those of a split write are in subfolders until ``flatten`` moves them."""
        before = self._added_files()
        with self.session.views():
            frame, split_by = self.table.lay_out(self.session, frame, split_by)
        written = self._write(frame, before, context.progress, split_by)
        if split_by is None:
            self._join(written, [*before, *written])
        elif not written and not before:
            self.session.register(_WRITTEN, frame)
            columns = [name for name, _ in self.session.columns(frame)]
            self._write(self.session.query(nothing_of(_WRITTEN, columns)), before)

    def _write(
        self,
        frame: Frame,
        before: list[Path],
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
    ) -> list[Path]:
        """Have the engine write files, and return those that were not there ``before``. Raises RVT-407."""
        self.session.write(frame, self.target, progress, split_by)
        known = set(before)
        written = [path for path in self._added_files() if path not in known]
        refuse_repeated_write(written, self.shown)
        return written

    def _join(self, written: list[Path], there: list[Path]) -> None:
        """Have the engine write the rows of the files once more if these are many and small."""
        count = joined_count([stamp_of(path)[1] for path in written])
        if count is None:
            return
        with self.session.views():
            self.session.register(_WRITTEN, self.session.load(self._relation(written, written)))
            self._write(self.session.query(in_partitions(_WRITTEN, count)), there)
        with translate_write_errors(self.folder):
            for path in written:
                path.unlink()

    def put(self, rows: object) -> bool:
        """Write one more file, if Spark reads all columns with their own types, and files need no parts."""
        if self.table.has_parts:
            return False
        with translate_write_errors(self.folder), FileHeartbeat(self.table, self.name).required():
            return write_rows(rows, self.folder)

    def added(self) -> StoredRows:
        """Return the current files by name, since others may be added to the folder."""
        files = self._added_files()
        if not files:
            return self.audit()
        with translate_write_errors(self.folder), FileHeartbeat(self.table, self.name).required():
            return StoredRows(self._relation(files, files), self.footers.statistics(files))

    def narrow_base(self, affected: Affected) -> Base:
        """Leave out the base's files whose statistics prove that they hold no affected row, but for at least one."""
        base, folder = super().narrow_base(affected), self.base_folder
        assert folder is not None
        with translate_read_errors(self.table.home), FileHeartbeat(self.table, self.name).required():
            files = self._base_files
            unchanged, mixed, _ = prune_files(files, affected, self.footers)
            return Base(self._relation(mixed or files[:1], files), base.columns) if unchanged else base

    def share(self, affected: Affected) -> Remaining:
        """Share the base's files whose statistics prove that they hold no affected row."""
        with translate_write_errors(self.folder), FileHeartbeat(self.table, self.name).required():
            base = self.base_folder
            if base is None:
                return Remaining(0, None)
            files, folder = self._base_files, self.folder
            unchanged, mixed, rows = prune_files(files, affected, self.footers)
            if affected.joins_small and mixed:
                unchanged, small = self._without_small(unchanged)
                mixed += small
            there = take_spare(self.table, self.name, base, {path.name for path in unchanged})
            for path in unchanged:
                self.footers.share(path, folder, is_there=path.name in there)
            shared = sum(self.footers.stamp(path)[1] for path in unchanged)
            if not mixed:
                return Remaining(rows, None, shared)
            return Remaining(rows, self._relation(mixed, mixed), shared, self.footers.statistics(mixed))

    def _without_small(self, files: list[Path]) -> tuple[list[Path], list[Path]]:
        """Return ``files`` without the small ones, and these, if there are many."""
        small = [path for path in files if self.footers.stamp(path)[1] < SMALL]
        if len(small) <= MANY:
            return files, []
        return [path for path in files if path not in set(small)], small

    def audit(self) -> StoredRows:
        """Return the whole folder, after it was given the permissions of the base."""
        with translate_write_errors(self.folder), FileHeartbeat(self.table, self.name).required():
            base = self.base_folder
            flatten(self.folder)
            files = self.files()
            self.audited = frozenset(map(self.footers.stamp, files))
            if base is not None:
                keep_permissions(base, self.folder, (path for path in files if path not in self.footers.settled))
            return StoredRows(self._relation([self.folder], files), self.footers.statistics(files))

    def files(self) -> list[Path]:
        """Return its files. Raises RVT-402 if there are none."""
        return required_files(self.folder, self.shown)

    @contextmanager
    def scratch(self) -> Iterator[StagedVersion]:
        """Begin another version of the same table, which is never published and is removed at the end of the block."""
        with translate_write_errors(self.table.home):
            name = lifecycle.begin(self.table)
        scratch = StagedVersion(self.table, name, None, {}, self.session, Footers(), self.shown)
        try:
            with send_heartbeats(scratch.beat, self.table.name):
                yield scratch
        finally:
            scratch.remove()

    def beat(self) -> None:
        """Renew the modification time of the heartbeat file."""
        lifecycle.beat(self.table, self.name)

    def remove(self) -> None:
        """Remove it unless it has been published; do nothing if it does not exist any more.

        Files that cannot be removed now are swept by a later run.
        """
        with suppress(OSError), lifecycle.hold_lock(self.table):
            if not lifecycle.may_be_read(self.table, self.name):
                lifecycle.remove(self.table, self.name)

    def _added_files(self) -> list[Path]:
        with translate_write_errors(self.folder), FileHeartbeat(self.table, self.name).required():
            flatten(self.folder)
            return parquet_files(self.folder)

    @property
    def base_folder(self) -> Path | None:
        """The folder of the base; None without a base, or if a person removed its files.

        Raises RVT-405 if so many others have published since that the base has expired.
        """
        if self.upon is None:
            return None
        folder = self.table.data(self.upon)
        if data_names(folder):
            return folder
        if self.table.published() == self.upon:
            return None
        message = f"the version {self.upon} of '{self.table.name}', which this run began upon, has been removed"
        raise RivetError("RVT-405", message)

    @cached_property
    def _base_files(self) -> list[Path]:
        """The files of the base, which are looked up once."""
        folder = self.base_folder
        return [] if folder is None else self.footers.settle(folder)

    @cached_property
    def _base(self) -> Base | None:
        folder = self.base_folder
        if folder is None:
            return None
        files = [folder / name for name in data_names(folder)[:1]]
        return Base(self._relation([folder], files), self.footers.of(files[0]).statistics.columns)

    def _relation(self, paths: list[Path], files: list[Path]) -> Files:
        """Return a version's folder, or some of its files, with the schema, so that the engine need not infer it."""
        schema = self.footers.of(files[0]).schema
        return Files("parquet", tuple(str(path) for path in paths), {"schema": schema} if schema else {})


def required_files(folder: Path, shown: str) -> list[Path]:
    """Return the data files in a folder, which messages call ``shown``. Raises RVT-402 if there are none; OSError."""
    files = parquet_files(folder)
    if not files:
        raise RivetError(
            "RVT-402",
            f"the engine has written no file to {shown}",
            remediation="Engine and catalog must see one file system: mount the folder where the engine runs.",
        )
    return files


MANY = 16
"""A write may leave as many files of any size: fewer are not worth a second look."""
SMALL, FULL = 8 * 2**20, 128 * 2**20
"""Bytes of a file that is small, and of one as readers like them: a task of Spark reads as much."""


def joined_count(sizes: Sequence[int]) -> int | None:
    """Return how many files are to be made of files of these ``sizes``, in bytes; None if they are to stay.

    >>> joined_count([2000] * 40), joined_count([5 * 2**20] * 200)
    (1, 8)
    >>> joined_count([2000] * 16), joined_count([8 * 2**20] * 200)
    (None, None)
    """
    total = sum(sizes)
    if len(sizes) <= MANY or total >= SMALL * len(sizes):
        return None
    return -(-total // FULL) or 1


_OF_SPARK = re.compile(r"part-\d+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


def refuse_repeated_write(written: Iterable[Path], shown: str) -> None:
    """Raise RVT-407 if the files of what was one write come from several: Spark has carried it out more than once.

    Spark Connect's client has a write carried out again if the server does not know it any more, as after a sleep of
    the machine. Files of others than Spark do not tell.

    >>> from uuid import uuid4
    >>> refuse_repeated_write([Path(f"part-0000{n}-3f0c5f60-95ab-4d0b-8a42-9f5b1c2d7e61.parquet") for n in (0, 1)], "t")
    >>> refuse_repeated_write([Path(f"part-00000-{uuid4()}-c000.snappy.parquet") for _ in (0, 1)], "orders")
    Traceback (most recent call last):
    ...
    rivet_dagster.errors.RivetError: RVT-407 the engine has written the rows of orders 2 times...
    """
    names = (_OF_SPARK.match(path.name) for path in written)
    writes = {match[1] for match in names if match is not None}
    if len(writes) > 1:
        message = f"the engine has written the rows of {shown} {len(writes)} times"
        raise RivetError("RVT-407", message, remediation="Run it again: Spark's server had forgotten the first write.")
