"""Tables whose versions are folders of Parquet files beside each other, whatever tells readers which one is current.

Their watermarks: the maximum of a column of a version, and the override that a person set in its place. An override is
stored in a file beside the version for which it was set, so that it ends with the next version.
"""

from __future__ import annotations

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.filesystem.files.data_files import Footers
from rivet_dagster.catalogs.filesystem.files.file_status import (
    damage,
    is_folder,
    translate_read_errors,
    translate_write_errors,
)
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.sources.source_schema import parquet_in
from rivet_dagster.catalogs.filesystem.sources.table_files import as_texts, chosen_format
from rivet_dagster.catalogs.filesystem.versions import lifecycle, marked
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.sweep import sweep
from rivet_dagster.catalogs.parquet_rows import greatest
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.catalogs.versions.refusals import moved_watermark
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import NotWritable, RivetError
from rivet_dagster.file_replacement import replace_file
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Provenance, Published, Statistics, Version
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction


class VersionFolders(ABC):
    """publishes each version of a table as a folder of its own.

    ``layout`` says where the folders are, and how readers are switched from one to the next. ``keep`` is the number of
    published versions of a table that are retained.
    """

    name: str
    keep: int

    @abstractmethod
    def uri(self, table: str) -> str:
        """Return the URI at which a person finds the table."""

    @abstractmethod
    def layout(self, table: str) -> TableLayout:
        """Return the layout of a table. Raises RVT-402, RVT-403, RVT-404."""

    def shown(self, path: Path) -> str:
        """Return a path for a message."""
        return str(path)

    def committed(self, layout: TableLayout, manifest: Manifest) -> Published:
        """Return the version that has just been published."""
        return self.described(layout, manifest)

    def current(self, table: str) -> Published | None:
        """Return the published version; None also if its data is gone, or if something else has the table's name.

        Raises RVT-403 if it cannot be looked up.
        """
        layout = self.layout(table)
        try:
            manifest = lifecycle.current(layout)
        except NotWritable:
            return None
        return self.described(layout, manifest) if manifest is not None else None

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that still exists, or one that has expired, for at least 30 days after its publication."""
        if self.current(table) is None:
            return None
        layout = self.layout(table)
        with translate_read_errors(layout.link):
            manifest = lifecycle.published_by(layout, identity)
        return self.described(layout, manifest) if manifest else None

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return all versions in the table's folder but those that are being built and not staged yet."""
        layout = self.layout(table)
        with translate_read_errors(layout.link):
            return marked.all_versions(layout)

    def read(self, published: Published) -> Files:
        """Return the version's own folder: a query planned on it finishes even when another version is published."""
        folder = lifecycle.folder(self.layout(published.table), published.version)
        return parquet_in(folder, published.table)

    def statistics(self, published: Published) -> Statistics:
        """Return the statistics in the footers of its files."""
        layout = self.layout(published.table)
        folder = lifecycle.folder(layout, published.version)
        with translate_read_errors(folder):
            footers = Footers(layout.files(published.version))
            return footers.statistics(footers.settle(folder))

    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum by the files' footers; if they do not hold it, the column is read in this process."""
        statistics = self.statistics(published)
        folder = lifecycle.folder(self.layout(published.table), published.version)
        with translate_read_errors(folder):
            return statistics.max_of(column, lambda: read_max(folder, statistics, column))

    def watermark_override(self, published: Published) -> Override | None:
        """Return the content of a file beside the version."""
        layout = self.layout(published.table)
        with translate_read_errors(layout.home):
            return read_override(layout, published.version)

    def override_watermark(self, published: Published, override: Override) -> None:
        """Write a file beside the version, which is removed together with it."""
        layout = self.layout(published.table)
        with translate_write_errors(layout.home):
            write_override(layout, published.version, override)

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> FilesystemTransaction:
        """Make an empty folder beside the published ones; ``options`` are the engine's Parquet writer options."""
        if chosen_format(options) not in (None, "parquet"):
            raise RivetError("RVT-204", "a table that is published here is always Parquet: `format` cannot be another")
        writer_options = as_texts(options)
        layout = self.layout(table)
        base = layout.published()
        with translate_write_errors(layout.home):
            sweep(layout)  # first: leftovers of dead runs may be what fills the disk
            version = lifecycle.begin(layout)
        return self._transaction(layout, version, base, session, writer_options)

    def take_up(self, table: str, version: str) -> FilesystemTransaction:
        """Reopen a withheld version, based on what is published now."""
        layout = self.layout(table)
        with translate_write_errors(layout.home):
            origin = marked.take_up_withheld(layout, version)
        return self._transaction(layout, version, layout.published(), origin=origin)

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version, by the marks beside the versions."""
        layout = self.layout(table)
        with translate_read_errors(layout.home):
            version = marked.staged_by(layout, identity) if is_folder(layout.home) else None
            return self.described(layout, marked.staged_manifest(layout, version)) if version is not None else None

    def keep_alive(self, table: str, version: str, seconds: float = 0.0) -> bool:
        """Set the modification time of the heartbeat file."""
        return marked.keep_alive(self.layout(table), version, seconds)

    def take_up_staged(
        self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS
    ) -> FilesystemTransaction:
        """Reopen a staged version, based on what was published when it was begun."""
        layout = self.layout(table)
        with translate_write_errors(layout.home):
            mark = marked.take_up_staged(layout, version)
        upon = mark.staged.upon if mark.staged is not None else None
        return self._transaction(layout, version, upon, origin=mark.origin)

    def withhold_staged(self, table: str, version: str) -> None:
        """Change the mark of a staged version."""
        layout = self.layout(table)
        with translate_write_errors(layout.home):
            marked.withhold_staged(layout, version)

    def restage(self, table: str, version: str) -> FilesystemTransaction:
        """Begin a new version that shares the older one's files on disk."""
        layout = self.layout(table)
        base = layout.published()
        with translate_write_errors(layout.home):
            new, origin = marked.restage(layout, version)
        return self._transaction(layout, new, base, origin=origin, beside=(layout.files(version),))

    def begin_copy(self, layout: TableLayout, origin: Provenance, beside: Path) -> FilesystemTransaction:
        """Begin a new version, to whose folder the caller copies files; ``beside`` is the file with their footers."""
        base = layout.published()
        with translate_write_errors(layout.home):
            sweep(layout)
            version = lifecycle.begin(layout)
        return self._transaction(layout, version, base, origin=origin, beside=(beside,))

    def evict(self, published: Published) -> None:
        """Have readers find no table any more, then remove the versions."""
        layout = self.layout(published.table)
        with translate_write_errors(layout.home):
            marked.evict(layout, published.version)

    def _transaction(
        self,
        layout: TableLayout,
        version: str,
        base: str | None,
        session: EngineSession | None = None,
        options: Mapping[str, str] = NO_OPTIONS,
        origin: Provenance | None = None,
        beside: tuple[Path, ...] = (),
    ) -> FilesystemTransaction:
        footers = Footers(*beside, *((layout.files(base),) if base is not None else ()))
        shown = self.shown(layout.data(version))
        # Imported here: compiling, reading and listing need no code that builds queries.
        from rivet_dagster.catalogs.filesystem.writes.staged_version import StagedVersion
        from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction

        files = StagedVersion(layout, version, base, options, session, footers, shown)
        return FilesystemTransaction(
            files,
            self.keep,
            lambda manifest: self.committed(layout, manifest),
            origin,
            lambda manifest: self.described(layout, manifest),
        )

    def described(self, layout: TableLayout, manifest: Manifest) -> Published:
        """Return the published version of a table that has this manifest."""
        return manifest.published(self.name, layout.name, self.uri(layout.name))


def read_max(folder: Path, statistics: Statistics, column: str) -> Any:
    """Return the maximum of a column of a version, None if it has no value; NaN is greater than all others.

    The column is read batch by batch. Raises RVT-407.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    files = parquet_files(folder)
    name, type_ = next(named for named in statistics.columns if named[0].lower() == column.lower())
    # Spark may store a TIMESTAMP as INT96, which has neither unit nor time zone.
    format = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    try:
        most = greatest(ds.dataset([str(path) for path in files], format=format).to_batches(columns=[name]))
    except (OSError, pa.ArrowException) as error:
        raise RivetError("RVT-407", f"the column '{column}' of {folder} cannot be read: {error}") from error
    return most.replace(tzinfo=UTC) if type_ == "timestamp" and most is not None else most


def read_override(table: TableLayout, version: str) -> Override | None:
    """Return the override of a version; None without one."""
    file = table.watermark(version)
    try:
        text = file.read_text("utf-8", errors="replace")
    except FileNotFoundError:
        return None
    with damage(file, "Set it again with `rivet-dagster watermark set`, or remove the file."):
        return Override(json.loads(text)["value"])


def write_override(table: TableLayout, version: str, override: Override) -> None:
    """Set the override, unless another version has been published by now. Raises RVT-405, OSError."""
    with lifecycle.hold_lock(table):
        if table.published() != version:
            raise moved_watermark(table.name, table.published(), version)
        unfinished = table.home / f".watermark-{secrets.token_hex(4)}"
        replace_file(table.watermark(version), json.dumps({"value": override.value}).encode(), unfinished)
