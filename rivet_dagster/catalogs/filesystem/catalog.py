"""The catalog ``filesystem``, its methods implemented by the other modules of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.sources import HasLandingZones, ListsFiles, ListsTables, TellsLocations
from rivet_dagster.catalogs.capabilities.staging import StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS, Adopts, HasErrorTables, HasVersions, HasWatermarks
from rivet_dagster.catalogs.capabilities.upkeep import Sweeps
from rivet_dagster.catalogs.environments.catalog import HasEnvironments
from rivet_dagster.catalogs.filesystem.catalog_location import CatalogLocation, MountGuard
from rivet_dagster.catalogs.filesystem.declared import OWN_CATALOG, PUBLISH_WITH_ICEBERG
from rivet_dagster.catalogs.filesystem.files.file_status import (
    is_folder,
    is_link,
    names_in,
    translate_read_errors,
    translate_write_errors,
)
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files, read_footer
from rivet_dagster.catalogs.filesystem.sources import table_files
from rivet_dagster.catalogs.filesystem.sources.file_tree import FileTree, LocalTree
from rivet_dagster.catalogs.filesystem.sources.landing import FilesystemLandingZone, source_files
from rivet_dagster.catalogs.filesystem.sources.source_schema import parquet_in, source_columns, with_schema
from rivet_dagster.catalogs.filesystem.sources.table_files import TableFiles
from rivet_dagster.catalogs.filesystem.stores.store import Store, StoreUri, elsewhere, spark_needs
from rivet_dagster.catalogs.filesystem.stores.store_tree import StoreTree
from rivet_dagster.catalogs.filesystem.traits import FilesystemTraits
from rivet_dagster.catalogs.filesystem.version_folders import VersionFolders
from rivet_dagster.catalogs.filesystem.versions import adoption, lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES, TableLayout, is_table_name
from rivet_dagster.catalogs.filesystem.versions.links import errors_folder, list_others
from rivet_dagster.catalogs.filesystem.versions.sweep import list_building, sweep
from rivet_dagster.catalogs.versions.heartbeat import telling_failures
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import Files
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import ExistingTable, Published, Version
from rivet_dagster.paths import is_remote
from rivet_dagster.secrets.redaction import redacted

if TYPE_CHECKING:
    from rivet_dagster.catalogs.filesystem.environments import EnvironmentFolders
    from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction


class FilesystemCatalog(
    VersionFolders,
    FilesystemTraits,
    HasVersions,
    Adopts,
    StagesForRuns,
    HasErrorTables,
    HasWatermarks,
    HasLandingZones,
    HasEnvironments,
    ListsFiles,
    ListsTables,
    Sweeps,
    TellsLocations,
):
    """A directory of tables.

    Options: ``path``, relative to the project's directory; ``format`` of sources whose file extension does not say it
    (default parquet); ``versions``, the number of published versions of a table that are retained (default 2). Sinks
    are always Parquet. A ``path`` in a store (``s3a://``, ``gs://``, ``abfss://``, ``hdfs://``) is for sources alone;
    ``options`` are the store's ``endpoint``, ``access_key``, ``secret_key`` and ``region``.
    """

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        refuse_wrong_options(FilesystemCatalog, f"catalog '{spec.name}'", spec.options)
        self.name = spec.name
        self.spec = spec
        self._path: str = spec.options["path"]
        self._store: Store | None = None
        if is_remote(self._path):
            self._store = Store(StoreUri.of(self._path), spec.options.get("options", {}))
        self.location = CatalogLocation.of("." if self._store else self._path, root)
        self._format: str = spec.options.get("format", "parquet")
        self.keep = int(spec.options.get("versions", 2))
        self.mount_guard = MountGuard(self.location)
        self._environment: str | None = None
        self._others: tuple[Path, ...] | None = None

    def in_folder(self, environment: str, path: Path) -> FilesystemCatalog:
        """Return the tables of an environment, which are in a folder of their own."""
        there = FilesystemCatalog(
            replace(self.spec, options={**self.spec.options, "path": str(path)}), self.location.root
        )
        there.mount_guard = self.mount_guard  # an environment may be dropped, the catalog's folder must not vanish
        there._environment = environment
        return there

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return what Spark needs to read from a store."""
        if self._store is None or engine_type != "pyspark":
            return SessionNeeds()
        return spark_needs(self._store.uri, self._store.options)

    def relation(self, table: str, options: Mapping[str, Any]) -> Files:
        """Return the files of ``table``; of a table that this catalog published, those of its current version."""
        files = self._find(table, options)
        return with_schema(table_files.relation(files, options), files)

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return a hash of the names, sizes and modification times of the table's files."""
        return self._find_all(table, options)[1]

    def find(self, table: str, options: Mapping[str, Any]) -> tuple[Files, str]:
        """Return the files and their hash, for which they are looked up once."""
        files, fingerprint = self._find_all(table, options)
        return with_schema(table_files.relation(files, options), files), fingerprint

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns by the first file's footer or header; None for JSON and folders that may be partitions."""
        files = self._find(table, options)
        return source_columns(files, table_files.relation(files, options).options)

    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """Return a file, or all files below a directory or a glob's matches, whose parent folder must exist."""
        return source_files(self._tree(table), table, self._format)

    def version_of_files(self, table: str, options: Mapping[str, Any], files: Sequence[LandedFile]) -> str:
        """Return the hash that ``data_version`` returns, without listing the files again."""
        return table_files.fingerprint_of(files, self._tree(table).folder)

    def landing_zone(self, table: str, options: Mapping[str, Any]) -> FilesystemLandingZone:
        """Return a directory or the matches of a glob as a landing zone."""
        return FilesystemLandingZone(lambda: self._tree(table), table, self._format, options)

    @property
    def environment_storage(self) -> EnvironmentFolders | None:
        """The folders of environments; None in a store, where nothing is published, and in an environment."""
        if self._store is not None or self._environment is not None:
            return None
        from rivet_dagster.catalogs.filesystem.environments import EnvironmentFolders

        return EnvironmentFolders(self, self.location.folder, self.mount_guard, self.in_folder)

    def layout(self, table: str) -> TableLayout:
        """Return the layout of a table below the catalog's folder."""
        return TableLayout(self.location.folder, table, others=self._others)

    @contextmanager
    def list_once(self) -> Iterator[None]:
        """List once what may have links that keep expired versions.

        Links that a person makes in the block are not seen.
        """
        with translate_read_errors(self.location.folder):
            self._others = list_others(self.location.folder)
        try:
            yield
        finally:
            self._others = None

    def shown(self, path: Path) -> str:
        """Return a path relative to the project if it lies inside it."""
        return self.location.shown(path)

    def described(self, layout: TableLayout, manifest: Manifest) -> Published:
        """Return a version, in an environment one that may be the base's."""
        return replace(super().described(layout, manifest), environment=self._environment)

    def committed(self, layout: TableLayout, manifest: Manifest) -> Published:
        """Return the version, after recording that tables are published here."""
        self.mount_guard.remember()
        return super().committed(layout, manifest)

    def current(self, table: str) -> Published | None:
        """Return the published version; None also if its data is gone, or if another file is at the table's path.

        Raises RVT-403 if it cannot be looked up.
        """
        if self._store is not None:
            return None
        published = super().current(table)
        if published is None:
            self.mount_guard.check()
        return published

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return all versions in the table's folder but those that are being built; none of a remote store."""
        return () if self._store is not None else super().versions(table)

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables that have versions and whose links exist."""
        tables = [table for table in self._layouts() if table.name.startswith(prefix)]
        with translate_read_errors(self.location.folder):
            return tuple(table.name for table in tables if is_link(table.link))

    def errors_of(self, published: Published) -> Files | None:
        """Return the folder of the errors beside that of the rows."""
        folder = self._errors_folder(published)
        return None if folder is None else parquet_in(folder, folder.name)

    def has_errors(self, published: Published) -> bool:
        """Return whether the footer of a file of errors tells of rows."""
        folder = self._errors_folder(published)
        if folder is None:
            return False
        with translate_read_errors(folder):
            return any(read_footer(path).num_rows for path in parquet_files(folder))

    def _errors_folder(self, published: Published) -> Path | None:
        layout = self.layout(published.table)
        with translate_read_errors(layout.link):
            folder = errors_folder(layout, published.version)
        if folder is None:
            lifecycle.folder(layout, published.version)  # it may have expired
        return folder

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> FilesystemTransaction:
        """Make an empty folder beside the published ones; ``options`` are the engine's Parquet writer options."""
        self._layout_to_publish(table)
        return super().begin(table, session, options)

    def existing(self, table: str, partitioned_by: Schema = ()) -> ExistingTable | None:
        """Return the folder of Parquet files at the table's path. Raises RVT-402 in a store."""
        layout = self._layout_to_publish(table)
        with translate_read_errors(layout.link):
            return adoption.existing(layout, self.uri(table), partitioned_by)

    def adopt(self, table: str, partitioned_by: Schema = ()) -> Published | None:
        """Exchange the folder at the table's path for the link to its first version, which the folder becomes."""
        layout = self._layout_to_publish(table)
        with translate_write_errors(layout.home):
            manifest = adoption.adopt(layout, partitioned_by)
        return self.committed(layout, manifest) if manifest is not None else None

    def give_up(self, table: str) -> bool:
        """Exchange them back, as long as no other version has been published."""
        layout = self._layout_to_publish(table)
        with translate_write_errors(layout.home):
            return adoption.give_up(layout)

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the versions of dead runs in all tables and return them, each as ``table/version``."""
        swept: list[str] = []
        with telling_failures(failed) as tell:
            for table in self._layouts():
                try:
                    with translate_write_errors(table.home):
                        swept += [f"{table.name}/{version}" for version in sweep(table)]
                except RivetError as error:
                    tell(error)
        return tuple(swept)

    def building(self) -> tuple[str, ...]:
        """Return the versions that have a heartbeat file, each as ``table/version``, also in environments."""
        with translate_read_errors(self.location.folder):
            here = tuple(f"{table.name}/{version}" for table in self._layouts() for version in list_building(table))
        return (*here, *self.building_in_environments())

    def uri(self, table: str) -> str:
        """Return the table's location as a URI, without a password."""
        tree = self._tree(table)
        path = tree.join(table)
        return Path(path).as_uri() if self._store is None else tree.shown(path)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings of trying the steps of a run in a hidden folder."""
        from rivet_dagster.catalogs.filesystem import examining

        subject = f"catalog {self.name}"
        if self._store is not None:
            return examining.examine_store(subject, StoreTree(self._store), publishes)
        return examining.examine(subject, self.location, self._layouts, publishes)

    def examine_table(self, table: str) -> Iterable[Finding]:
        """Return the finding of small files, by the published version's folder. Raises RVT-407 for damaged versions."""
        from rivet_dagster.catalogs.filesystem import examining

        if self._store is not None:
            return ()
        versions = lifecycle.history(self.layout(table))
        return examining.examine_files(f"table {table}", self.layout(table).data(versions[0])) if versions else ()

    def _layout_to_publish(self, table: str) -> TableLayout:
        """Return the layout of a table that may be published here. Raises RVT-402 in a store, RVT-403, RVT-404."""
        if self._store is not None:
            message = f"{self.uri(table)} has no atomic switch from one version of a table to the next"
            raise RivetError("RVT-402", message, remediation=PUBLISH_WITH_ICEBERG)
        self.mount_guard.check()
        return self.layout(table)

    def _find(self, table: str, options: Mapping[str, Any]) -> TableFiles:
        return table_files.find(self._tree(table), table, self._format, options)

    def _find_all(self, table: str, options: Mapping[str, Any]) -> tuple[TableFiles, str]:
        return table_files.find_all(self._tree(table), table, self._format, options)

    def _tree(self, table: str) -> FileTree:
        """Return a new look at the files that ``table`` may consist of. Raises RVT-204 if they are elsewhere."""
        wrong = elsewhere(self._path, table)
        if wrong is not None:
            raise RivetError("RVT-204", f"{wrong}: {redacted(table)}", remediation=OWN_CATALOG)
        if self._store is not None:
            return StoreTree(self._store)
        return LocalTree(self.location.folder, self.location.root)

    def _layouts(self) -> list[TableLayout]:
        if self._store is not None:
            return []
        self.mount_guard.check()
        homes = self.location.folder / HOMES
        with translate_read_errors(homes):
            return [self.layout(name) for name in names_in(homes) if is_table_name(name) and is_folder(homes / name)]
