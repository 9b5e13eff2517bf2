"""The tables in the folder of an environment.

What is written is written there. Before its first write a table is seeded with the base's version, so that modes that
add or merge rows build upon those of the base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.environments.tables_over_base import EnvironmentTables, T
from rivet_dagster.catalogs.filesystem.environments.folder import EnvironmentFolder
from rivet_dagster.catalogs.filesystem.environments.seeding import forget, seed
from rivet_dagster.catalogs.filesystem.files.file_status import looking
from rivet_dagster.catalogs.filesystem.files.local_writing import writing
from rivet_dagster.catalogs.filesystem.version_folders import VersionFolders
from rivet_dagster.catalogs.filesystem.versions import error_tables
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout, is_table_name
from rivet_dagster.catalogs.filesystem.versions.manifest import Manifest
from rivet_dagster.errors import NotWritable, RivetError
from rivet_dagster.model.storage import Published


@dataclass(frozen=True)
class FolderTables(EnvironmentTables):
    """The tables in the folder of an environment of the catalog ``base``; ``catalog`` finds these alone."""

    base: VersionFolders
    folder: EnvironmentFolder
    catalog: HasTargets

    @property
    def name(self) -> str:
        """The name of the environment."""
        return self.folder.name

    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""
        if not is_table_name(table):
            return False  # a path or a glob of a source
        with looking(self.folder.path):
            for folder in (self.folder.path, self.folder.catalog):
                table = error_tables.table_of(folder, table) or table
            try:
                return self.folder.is_built(table)
            except NotWritable:
                return False

    def built_names(self) -> list[str]:
        """Return the tables whose published version is not one of the base."""
        with looking(self.folder.path):
            return [table.name for table in self.folder.tables() if self.folder.is_built(table.name)]

    def exists(self) -> bool:
        """Return whether there is a folder."""
        with looking(self.folder.path):
            return self.folder.state() is not None

    def require_open(self) -> None:
        """Raise RVT-415 unless the environment is open."""
        with looking(self.folder.path):
            self.folder.required()

    def prepare(self, table: str) -> None:
        """Have the table be the base's published version, unless it was built there."""
        with writing(self.folder.layout(table).home):
            seed(self.base.layout(table), self.folder)

    def join(self, transaction: T) -> T:
        """Return the transaction, whose heartbeat is in the folder of the table."""
        try:
            self.require_open()
        except RivetError:
            transaction.abort()
            raise
        return transaction

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        found = self.catalog.published_by(table, identity)
        with looking(self.folder.path):
            is_base = found is not None and found.version in self.folder.base_versions(table)
        return None if is_base else found

    def evict(self, published: Published) -> None:
        """Remove the environment's table, then what it has of the base's versions."""
        self.catalog.evict(published)
        with writing(self.folder.path):
            forget(self.folder, published.table)

    def described(self, layout: TableLayout, manifest: Manifest) -> Published:
        """Return a version in the environment, which may be one of the base."""
        published = manifest.published(self.base.name, layout.name, self.catalog.uri(layout.name))
        return replace(published, environment=self.name)
