"""The catalog ``filesystem``, its methods implemented by the other modules of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.error_tables import HasErrorTables
from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.filesystem import examining
from rivet_dagster.catalogs.filesystem.catalog_location import CatalogLocation, is_remote
from rivet_dagster.catalogs.filesystem.files.file_status import exists, is_folder, looking, names_in
from rivet_dagster.catalogs.filesystem.files.local_writing import writing
from rivet_dagster.catalogs.filesystem.mount_guard import MountGuard
from rivet_dagster.catalogs.filesystem.sources import table_files
from rivet_dagster.catalogs.filesystem.sources.columns import source_columns
from rivet_dagster.catalogs.filesystem.sources.formats import chosen_format, format_of, reader_options
from rivet_dagster.catalogs.filesystem.sources.landing import FilesystemLandingZone
from rivet_dagster.catalogs.filesystem.sources.listing import source_files
from rivet_dagster.catalogs.filesystem.sources.source_schema import with_schema
from rivet_dagster.catalogs.filesystem.sources.table_files import TableFiles
from rivet_dagster.catalogs.filesystem.traits import FilesystemTraits
from rivet_dagster.catalogs.filesystem.version_folders import VersionFolders
from rivet_dagster.catalogs.filesystem.versions import lifecycle
from rivet_dagster.catalogs.filesystem.versions.error_tables import errors_folder
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES, TableLayout, is_table_name
from rivet_dagster.catalogs.filesystem.versions.manifest import Manifest
from rivet_dagster.catalogs.filesystem.versions.sweep import building, sweep
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import Published, Version

if TYPE_CHECKING:
    from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction


class FilesystemCatalog(VersionFolders, FilesystemTraits, HasErrorTables):
    """A directory of tables.

    Options: ``path``, relative to the project's directory; ``format`` of sources whose file extension does not say it
    (default parquet); ``versions``, the number of published versions of a table that are retained (default 2). Sinks
    are always Parquet. A ``path`` on a remote store (``s3://``, ``hdfs://``, ...) can only be read.
    """

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        refuse_wrong_options(FilesystemCatalog, f"catalog '{spec.name}'", spec.options)
        self.name = spec.name
        self._location = CatalogLocation.of(spec.options["path"], root)
        self._format: str = spec.options.get("format", "parquet")
        self.keep = int(spec.options.get("versions", 2))
        self._mount_guard = MountGuard(self._location)

    def relation(self, table: str, options: Mapping[str, Any]) -> Files:
        """Return the files of ``table``; of a table that this catalog published, those of its current version."""
        path = self._location.join(table)
        if is_remote(path):
            format = chosen_format(options) or format_of(table) or self._format
            return Files(format, (path,), reader_options(format, table, options))
        files = table_files.find(self._location, table, self._format, options)
        return with_schema(table_files.relation(files, options), files)

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return a hash of the names, sizes and modification times of the table's files."""
        path = self._location.join(table)
        if is_remote(path):
            shown = self._location.shown(path)
            raise RivetError(
                "RVT-403",
                f"only the engine can look into {shown}: whether its data changed is not known here",
                remediation="Observe sources on a local or mounted file system.",
            )
        return table_files.fingerprint(table_files.find(self._location, table, self._format, options), self._location)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns by the first file's footer or header; None for JSON and folders that may be partitions."""
        files = table_files.find(self._location, table, self._format, options)
        return source_columns(files, table_files.relation(files, options).options)

    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """Return a file, or all files below a directory or a glob's matches, whose parent folder must exist."""
        return source_files(self._location, table, self._format)

    def landing_zone(self, table: str, options: Mapping[str, Any]) -> FilesystemLandingZone:
        """Return a directory or the matches of a glob as a landing zone."""
        return FilesystemLandingZone(self._location, table, self._format, options)

    def layout(self, table: str) -> TableLayout:
        """Return the layout of a table below the catalog's folder."""
        return TableLayout(self._location.folder, table)

    def shown(self, path: Path) -> str:
        """Return a path relative to the project if it lies inside it."""
        return self._location.shown(path)

    def committed(self, layout: TableLayout, manifest: Manifest) -> Published:
        """Return the version, after recording that tables are published here."""
        self._mount_guard.remember()
        return super().committed(layout, manifest)

    def current(self, table: str) -> Published | None:
        """Return the published version; None also if its data is gone, or if another file is at the table's path.

        Raises RVT-403 if it cannot be looked up.
        """
        if self._location.remote:
            return None
        published = super().current(table)
        if published is None:
            self._mount_guard.check()
        return published

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return all versions in the table's folder but those that are being built; none of a remote store."""
        return () if self._location.remote else super().versions(table)

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables that have versions and whose links exist."""
        tables = [table for table in self._layouts() if table.name.startswith(prefix)]
        with looking(self._location.folder):
            return tuple(table.name for table in tables if exists(table.link, follow=False))

    def errors_of(self, published: Published) -> Files | None:
        """Return the folder of the errors beside that of the rows."""
        layout = self.layout(published.table)
        with looking(layout.link):
            folder = errors_folder(layout, published.version)
        if folder is None:
            lifecycle.folder(layout, published.version)  # it may have expired
            return None
        return with_schema(Files("parquet", (str(folder),)), TableFiles("parquet", (folder,), folder.name))

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> FilesystemTransaction:
        """Make an empty folder beside the published ones; ``options`` are the engine's Parquet writer options."""
        if self._location.remote:
            message = f"{self.uri(table)} has no atomic switch from one version of a table to the next"
            raise RivetError("RVT-402", message)
        self._mount_guard.check()
        return super().begin(table, session, options)

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the versions of dead runs in all tables and return them, each as ``table/version``."""
        swept: list[str] = []
        errors: list[RivetError] = []
        for table in self._layouts():
            try:
                with writing(table.home):
                    swept += [f"{table.name}/{version}" for version in sweep(table)]
            except RivetError as error:
                (failed or errors.append)(error)
        if errors:
            raise RivetError.of(diagnostic for error in errors for diagnostic in error.diagnostics)
        return tuple(swept)

    def building(self) -> tuple[str, ...]:
        """Return the versions that have a heartbeat file, each as ``table/version``."""
        with looking(self._location.folder):
            return tuple(f"{table.name}/{version}" for table in self._layouts() for version in building(table))

    def uri(self, table: str) -> str:
        """Return the table's location as a URI, without a password."""
        path = self._location.join(table)
        return self._location.shown(path) if is_remote(path) else Path(path).as_uri()

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings of trying the steps of a run in a hidden folder."""
        return examining.examine(f"catalog {self.name}", self._location, self._layouts, publishes)

    def _layouts(self) -> list[TableLayout]:
        if self._location.remote:
            return []
        self._mount_guard.check()
        homes = self._location.folder / HOMES
        with looking(homes):
            return [self.layout(name) for name in names_in(homes) if is_table_name(name) and is_folder(homes / name)]
