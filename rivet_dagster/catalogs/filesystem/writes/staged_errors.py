"""The error table of a staged version, which is written after its rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from rivet_dagster.catalogs.filesystem.files.copy_on_write import keep_permissions, share
from rivet_dagster.catalogs.filesystem.files.data_files import FileStamp, Footers, stamp_of
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.files.local_writing import write_rows, writing
from rivet_dagster.catalogs.filesystem.files.write_jobs import refuse_repeated_write
from rivet_dagster.catalogs.filesystem.sources.local_tree import LocalTree
from rivet_dagster.catalogs.filesystem.sources.source_schema import with_schema
from rivet_dagster.catalogs.filesystem.sources.table_files import TableFiles
from rivet_dagster.catalogs.filesystem.versions import heartbeat, lifecycle
from rivet_dagster.catalogs.filesystem.versions.error_tables import errors_folder, make_errors_folder
from rivet_dagster.catalogs.filesystem.writes.staged_version import StagedVersion, required_files
from rivet_dagster.catalogs.parquet_rows import no_errors
from rivet_dagster.engines.contract import Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.model.row_errors import ERROR_COLUMNS
from rivet_dagster.model.storage import StoredRows

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
        with writing(staged.table.home), heartbeat.required(staged.table, staged.name):
            folder = make_errors_folder(staged.table, staged.name, name)
            if frame is None and not parquet_files(folder):
                write_rows(no_errors(), folder)
            before = set(parquet_files(folder))
        if frame is not None:
            staged.session.write(frame, Files("parquet", (str(folder),)))
        with writing(folder), heartbeat.required(staged.table, staged.name):
            files = required_files(folder, staged.shown)
            refuse_repeated_write((path for path in files if path not in before), name)
            if staged.base_folder is not None and staged.upon is not None:
                # Errors quote rows: whoever must not read these must not read the errors of the first run, either.
                keep_permissions(errors_folder(staged.table, staged.upon) or staged.base_folder, folder)
            self.audited = frozenset(map(stamp_of, files))
            relation = Files("parquet", tuple(map(str, files)))
            relation = with_schema(relation, TableFiles(LocalTree(folder), "parquet", tuple(files), name))
            return StoredRows(relation, self._footers.statistics(files))

    def share(self, name: str) -> StoredRows | None:
        """Share the files of the base's error table, and return its rows; None if there are none, or too many files.

        Files of an earlier release, which lack a column, are not shared: many readers of a folder expect the columns of
        one of its files in all. Raises what ``add`` does.
        """
        staged = self.version
        with writing(staged.table.home), heartbeat.required(staged.table, staged.name):
            base = errors_folder(staged.table, staged.upon) if staged.upon is not None else None
            files = parquet_files(base) if base is not None else []
            if not 0 < len(files) <= MOST_SHARED:
                return None
            if not {*ERROR_COLUMNS} <= {name for name, _ in self._footers.statistics(files).columns}:
                return None
            folder = make_errors_folder(staged.table, staged.name, name)
            for path in files:
                share(path, folder)
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
