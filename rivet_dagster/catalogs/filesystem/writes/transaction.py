"""The transaction of a table's new version in a folder, from its first file until it is published."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import Any

from rivet_dagster.catalogs.capabilities.error_tables import ErrorTransaction
from rivet_dagster.catalogs.capabilities.staging import StagedTransaction
from rivet_dagster.catalogs.capabilities.transaction import NO_CONTEXT, WriteContext
from rivet_dagster.catalogs.capabilities.versions import VersionTransaction
from rivet_dagster.catalogs.filesystem.files.data_files import stamp_of
from rivet_dagster.catalogs.filesystem.files.file_status import exists, looking
from rivet_dagster.catalogs.filesystem.files.local_writing import sync, writing
from rivet_dagster.catalogs.filesystem.versions import error_tables, heartbeat, lifecycle, publishers, staged, withheld
from rivet_dagster.catalogs.filesystem.versions.manifest import UNKNOWN, Manifest
from rivet_dagster.catalogs.filesystem.versions.withheld_mark import Mark, StagedFor
from rivet_dagster.catalogs.filesystem.writes.staged_errors import StagedErrorFiles
from rivet_dagster.catalogs.filesystem.writes.staged_version import StagedVersion
from rivet_dagster.catalogs.rewriting.rewrite import Rewritten, rewritten
from rivet_dagster.engines.contract import Frame
from rivet_dagster.errors import RivetError
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
        self._scratch = ExitStack()
        self._rewritten: Rewritten | None = None

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
        self._rewritten = self._scratch.enter_context(rewritten(self._staged, plan, frame, context))
        self.query_plan = self._rewritten.query_plan

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
        return self._result.batch

    @property
    def whole(self) -> StoredRows:
        """All of the version's files."""
        return self._result.whole

    def beat(self) -> None:
        """Renew the modification time of the heartbeat file."""
        self._staged.beat()

    @property
    def _result(self) -> Rewritten:
        if self._rewritten is None:
            whole = self._staged.audit()
            self._rewritten = Rewritten(whole, whole)
        return self._rewritten

    def check_base(self) -> None:
        """Compare the published version with the one that was published when this one was begun."""
        with looking(self._staged.table.link):
            version = self._staged.table.published()
        if version not in (self._staged.upon, self.version):
            raise moved(self._staged, version)

    def _stage(self, identity: str, made: Provenance | None) -> Published:
        origin = replace(self._made(made), identity=identity)
        table = self._staged.table
        with writing(table.home):
            staged.stage(table, self.version, Mark(origin, StagedFor(self._staged.upon, origin.record)))
            manifest = staged.staged_manifest(table, self.version)
        self._scratch.close()
        return self._described_staged(manifest)

    def _commit(self, identity: str, made: Provenance | None) -> Published:
        origin = self._made(made)
        with writing(self._staged.table.home):
            manifest = publish(self._staged, self._errors, identity, origin, self._keep)
        self._scratch.close()
        return self._described(manifest)

    def _withhold(self, identity: str, made: Provenance | None) -> None:
        origin = self._made(made)
        with writing(self._staged.table.home):
            withheld.withhold(self._staged.table, self.version, replace(origin, identity=identity or origin.identity))
        self._scratch.close()

    def _made(self, made: Provenance | None) -> Provenance:
        """Return what the version was made from and by, as far as it was told; else what is known of its origin."""
        known, rewritten = self._origin, self._rewritten
        return replace(
            known,
            record=rewritten.record if rewritten is not None and rewritten.record is not None else known.record,
            inputs=known.inputs if made is None else made.inputs,
            code_versions=known.code_versions if made is None else made.code_versions,
        )

    def _abort(self) -> None:
        self._scratch.close()
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
    with heartbeat.required(table, name):
        files = staged.files()
        statistics = staged.footers.statistics(files)
        if staged.audited is not None and staged.audited != frozenset(map(stamp_of, files)):
            raise RivetError("RVT-407", f"the files in {staged.shown} have changed since they were judged")
        files = lifecycle.tidy(staged.folder, staged.footers)
        errors.complete()
        lifecycle.sync_data(table, name)
        staged.footers.write(files, table.files(name))
        since = heartbeat.now(table)
    with lifecycle.locked(table):
        version = table.published()
        current = lifecycle.manifest_of(table, version) if version else None
        heartbeat.beat(table, name, since)
        if version != staged.upon:
            raise moved(staged, version)
        error_tables.move_rows(table, name)
        manifest = Manifest.now(name, current, identity, statistics, origin)
        manifest.write(table.manifest(name))
        sync(table.home)
        if version is None:
            publishers.forget(table)
            for folder in (table.home, table.home.parent, table.folder):
                lifecycle.sync_entry(folder)
        if error_tables.make_link(table, name):
            sync(table.folder)
        lifecycle.switch(table, name)
        heartbeat.end(table, name)
        if exists(table.withheld(name)):
            table.withheld(name).unlink()
        with suppress(OSError, RivetError):  # the version is published; the next run reports what is wrong with others
            error_tables.remove_stale_links(table)
            lifecycle.expire(table, keep)
    return manifest


def moved(staged: StagedVersion, version: str | None) -> RivetError:
    """Return RVT-405 for a table that another run has published, at ``version`` now, since a version was begun."""
    name, upon = staged.table.name, staged.upon or "nothing"
    return RivetError("RVT-405", f"'{name}' was at {upon} when this run began and is at {version or 'nothing'} now")
