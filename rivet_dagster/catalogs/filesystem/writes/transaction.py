"""The transaction of a table's new version in a folder, from its first file until it is published."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from rivet_dagster.catalogs.capabilities.staging import StagedTransaction
from rivet_dagster.catalogs.capabilities.targets import ErrorTransaction, VersionTransaction
from rivet_dagster.catalogs.capabilities.transaction import NO_CONTEXT, WriteContext
from rivet_dagster.catalogs.filesystem.files.data_files import Footers, keep_permissions, share, stamp_of, write_rows
from rivet_dagster.catalogs.filesystem.files.file_status import exists, translate_read_errors, translate_write_errors
from rivet_dagster.catalogs.filesystem.files.footer_cache import FileStamp
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.sources.file_tree import LocalTree
from rivet_dagster.catalogs.filesystem.sources.source_schema import with_schema
from rivet_dagster.catalogs.filesystem.sources.table_files import TableFiles
from rivet_dagster.catalogs.filesystem.versions import lifecycle, links, marked
from rivet_dagster.catalogs.filesystem.versions.links import errors_folder, make_errors_folder
from rivet_dagster.catalogs.filesystem.versions.marked import Mark, StagedFor
from rivet_dagster.catalogs.filesystem.versions.records import FileHeartbeat, forget_publishers, write_manifest
from rivet_dagster.catalogs.filesystem.versions.spare import keep_spare
from rivet_dagster.catalogs.filesystem.writes.staged_version import StagedVersion, refuse_repeated_write, required_files
from rivet_dagster.catalogs.parquet_rows import no_errors
from rivet_dagster.catalogs.rewriting.rewrite import WrittenRows, rewritten
from rivet_dagster.catalogs.versions.facts import has_error_columns, update_provenance
from rivet_dagster.catalogs.versions.manifest import UNKNOWN, Manifest
from rivet_dagster.engines.contract import Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.file_replacement import sync
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Base, Provenance, Published, StoredRows
from rivet_dagster.model.write_plan import WritePlan


class FilesystemTransaction(StagedTransaction, VersionTransaction, ErrorTransaction):
    """A run's transaction on a staged version.

    ``origin`` says how a version was made that was withheld or staged, or is a copy of another one; ``keep`` is the
    number of published versions to retain. ``described`` turns the manifest of the published version
    into the result of ``commit``, and ``described_staged`` that of a staged one into the result of ``stage``.
    """

    def __init__(
        self,
        staged: StagedVersion,
        keep: int,
        described: Callable[[Manifest], Published],
        origin: Provenance | None = None,
        described_staged: Callable[[Manifest], Published] | None = None,
    ) -> None:
        self.table = staged.table.name
        self.version = staged.name
        self._staged = staged
        self._errors = StagedErrorFiles(staged)
        self._keep = keep
        self._described = described
        self._described_staged = described_staged or described
        self._origin = origin or UNKNOWN
        self._rows = WrittenRows(staged.audit)

    @property
    def target(self) -> Files:
        """The relation that its files are written to."""
        return self._staged.target

    @property
    def base(self) -> Base | None:
        """The version that was published when this one was begun."""
        return self._staged.base

    def write(self, plan: WritePlan, frame: Frame, context: WriteContext = NO_CONTEXT) -> None:
        """Rewrite the table by copy on write: files that do not change are shared."""
        staged = self._staged
        if staged.table.has_parts:
            staged.table.check_batch([name for name, _ in staged.session.columns(frame)])
        self.query_plan = self._rows.write(rewritten(self._staged, plan, frame, context))

    def write_errors(self, table: str, frame: Frame | None) -> StoredRows:
        """Write files beside those of the rows; a table without rows is written in this process."""
        return self._errors.add(table, frame)

    def share_errors(self, table: str) -> StoredRows | None:
        """Link the files of the errors of the version that was published when this one was begun."""
        return self._errors.share(table)

    def put(self, rows: Any) -> bool:
        """Write a file in this process."""
        return self._staged.put(rows)

    @property
    def batch(self) -> StoredRows:
        """The batch."""
        return self._rows.result.batch

    @property
    def whole(self) -> StoredRows:
        """All of the version's files."""
        return self._rows.result.whole

    def beat(self) -> None:
        """Renew the modification time of the heartbeat file."""
        self._staged.beat()

    def check_base(self) -> None:
        """Compare the published version with the one that was published when this one was begun."""
        with translate_read_errors(self._staged.table.link):
            version = self._staged.table.published()
        if version not in (self._staged.upon, self.version):
            raise moved_table(self._staged, version)

    def _stage(self, identity: str, made: Provenance | None) -> Published:
        origin = replace(self._made(made), identity=identity)
        table = self._staged.table
        with translate_write_errors(table.home):
            marked.stage(table, self.version, Mark(origin, StagedFor(self._staged.upon, origin.record)))
            manifest = marked.staged_manifest(table, self.version)
        self._rows.close()
        return self._described_staged(manifest)

    def _commit(self, identity: str, made: Provenance | None) -> Published:
        origin = self._made(made)
        with translate_write_errors(self._staged.table.home):
            manifest = publish(self._staged, self._errors, identity, origin, self._keep)
        self._rows.close()
        return self._described(manifest)

    def _withhold(self, identity: str, made: Provenance | None) -> None:
        origin = self._made(made)
        with translate_write_errors(self._staged.table.home):
            marked.withhold(self._staged.table, self.version, replace(origin, identity=identity or origin.identity))
        self._rows.close()

    def _made(self, made: Provenance | None) -> Provenance:
        """Return what the version was made from and by, as far as it was told; else what is known of its origin."""
        known = update_provenance(self._origin, made)
        return replace(known, record=self._rows.record or known.record)

    def _abort(self) -> None:
        self._rows.close()
        self._staged.remove()


def publish(
    staged: StagedVersion,
    errors: StagedErrorFiles,
    identity: str,
    origin: Provenance,
    keep: int,
) -> Manifest:
    """Switch readers to ``staged`` and its ``errors``, and expire all but the newest ``keep`` versions.

    ``origin`` says from what the version was made, and by which run if another one publishes it. Publishing the
    published version again changes nothing. Raises what ``TableTransaction.commit`` does, and OSError.
    """
    table, name = staged.table, staged.name
    if table.published() == name and (done := lifecycle.manifest_of(table, name)):
        return done
    heartbeat = FileHeartbeat(table, name)
    with heartbeat.required():
        files = staged.files()
        statistics = staged.footers.statistics(files)
        if staged.audited is not None and staged.audited != frozenset(map(staged.footers.stamp, files)):
            raise RivetError("RVT-407", f"the files in {staged.shown} have changed since they were judged")
        files = lifecycle.tidy(staged.folder, staged.footers)
        errors.complete()
        lifecycle.sync_data(table, name, [path for path in files if path not in staged.footers.settled])
        staged.footers.write(files, table.files(name))
        since = heartbeat.now()
    with lifecycle.hold_lock(table):
        version = table.published()
        current = lifecycle.manifest_of(table, version) if version else None
        heartbeat.beat(since)
        if version != staged.upon:
            raise moved_table(staged, version)
        links.move_rows(table, name)
        manifest = Manifest.now(name, current, identity, statistics, origin)
        write_manifest(manifest, table.manifest(name))
        sync(table.home)
        if version is None:
            forget_publishers(table)
            for folder in (table.home, table.home.parent, table.folder):
                lifecycle.sync_entry(folder)
        if links.make_link(table, name):
            sync(table.folder)
        lifecycle.switch(table, name)
        # The version is published: the next run reports what is wrong with others.
        with suppress(OSError, RivetError):
            if version is not None:
                links.remove_replaced_link(table, name, version)
            heartbeat.end()  # last: that of a published version has the next sweep look for links that were left
        if exists(table.withheld(name)):
            table.withheld(name).unlink()
        expired: list[str] = []
        with suppress(OSError, RivetError):
            expired = lifecycle.expire(table, keep)
    with suppress(OSError):  # without a spare folder the next version links all files
        for version in expired:
            keep_spare(table, version, name)
    with suppress(OSError):  # the next publication tries it again
        lifecycle.delete(table, expired)
    return manifest


def moved_table(staged: StagedVersion, version: str | None) -> RivetError:
    """Return RVT-405 for a table that another run has published, at ``version`` now, since a version was begun."""
    name, upon = staged.table.name, staged.upon or "nothing"
    return RivetError("RVT-405", f"'{name}' was at {upon} when this run began and is at {version or 'nothing'} now")


MOST_SHARED = 200
"""The most files that an error table shares with the next one: more are written again, as fewer files."""


@dataclass
class StagedErrorFiles:
    """The files of the error table of ``version``; ``audited`` are their stamps when they were written."""

    version: StagedVersion
    audited: frozenset[FileStamp] | None = None
    _footers: Footers = field(default_factory=Footers)

    def add(self, name: str, frame: Frame | None) -> StoredRows:
        """Have the engine add rows to the error table ``name``; None makes sure that there is one.

        Return all of its rows so far. Raises RVT-402, RVT-404, RVT-406, RVT-407.
        """
        staged = self.version
        with translate_write_errors(staged.table.home), FileHeartbeat(staged.table, staged.name).required():
            folder = make_errors_folder(staged.table, staged.name, name)
            if frame is None and not parquet_files(folder):
                write_rows(no_errors(), folder)
            before = set(parquet_files(folder))
        if frame is not None:
            staged.session.write(frame, Files("parquet", (str(folder),)))
        with translate_write_errors(folder), FileHeartbeat(staged.table, staged.name).required():
            files = required_files(folder, staged.shown)
            refuse_repeated_write((path for path in files if path not in before), name)
            if staged.base_folder is not None and staged.upon is not None:
                # Errors quote rows: whoever must not read these must not read the errors of the first run, either.
                keep_permissions(errors_folder(staged.table, staged.upon) or staged.base_folder, folder, files)
            self.audited = frozenset(map(stamp_of, files))
            relation = Files("parquet", tuple(map(str, files)))
            relation = with_schema(relation, TableFiles(LocalTree(folder), "parquet", tuple(files), name))
            return StoredRows(relation, self._footers.statistics(files))

    def share(self, name: str) -> StoredRows | None:
        """Share the files of the base's error table, and return its rows; None if there are none, or too many files.

        Files of an earlier release, which lack a column, are not shared. Raises what ``add`` does.
        """
        staged = self.version
        with translate_write_errors(staged.table.home), FileHeartbeat(staged.table, staged.name).required():
            base = errors_folder(staged.table, staged.upon) if staged.upon is not None else None
            files = parquet_files(base) if base is not None else []
            if not 0 < len(files) <= MOST_SHARED:
                return None
            if not has_error_columns({name for name, _ in self._footers.statistics(files).columns}):
                return None
            folder = make_errors_folder(staged.table, staged.name, name)
            for path in files:
                share(path, folder / path.name)
        return self.add(name, None)

    def complete(self) -> None:
        """Leave only data files, as in the folder of the rows. Raises RVT-407 if they have changed; OSError."""
        folder = errors_folder(self.version.table, self.version.name)
        if folder is None:
            return
        files = required_files(folder, self.version.shown)
        if self.audited is not None and self.audited != frozenset(map(stamp_of, files)):
            raise RivetError("RVT-407", f"the errors of {self.version.shown} have changed since they were counted")
        lifecycle.tidy(folder, self._footers)
