"""The environments of a catalog ``filesystem``: each is a folder of tables.

What is written in an environment is written there. Before its first write a table is seeded with the base's version, so
that modes that add or merge rows build upon those of the base. The state of an environment is the journal of its merge:
it is ``merging`` before the first table is published, ``published`` after the last one, and ``merged`` when its data
have been removed. What an interrupted merge had published is found by the identity under which it was, in the base
itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.environments.catalog import EnvironmentStorage, StoredEnvironment
from rivet_dagster.catalogs.environments.state import MERGING, OPEN, PUBLISHED, BuiltTable, merged_environment
from rivet_dagster.catalogs.environments.tables_over_base import EnvironmentTables
from rivet_dagster.catalogs.filesystem import environment_folder as folders
from rivet_dagster.catalogs.filesystem.catalog_location import MountGuard
from rivet_dagster.catalogs.filesystem.environment_folder import (
    EnvironmentFolder,
    FolderState,
    forget,
    keep_permissions,
    seed,
)
from rivet_dagster.catalogs.filesystem.files.data_files import stamp_of
from rivet_dagster.catalogs.filesystem.files.file_status import translate_read_errors, translate_write_errors
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.version_folders import VersionFolders, read_override
from rivet_dagster.catalogs.filesystem.versions import lifecycle, links
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout, is_table_name
from rivet_dagster.catalogs.filesystem.versions.records import FileHeartbeat, read_manifest
from rivet_dagster.catalogs.filesystem.versions.sweep import list_building
from rivet_dagster.catalogs.versions.heartbeat import send_heartbeats
from rivet_dagster.catalogs.versions.manifest import Manifest
from rivet_dagster.errors import NotWritable, RivetError
from rivet_dagster.model.storage import Provenance, Published


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
        with translate_read_errors(self.folder.path):
            for folder in (self.folder.path, self.folder.catalog):
                table = links.table_of(folder, table) or table
            try:
                return self.folder.is_built(table)
            except NotWritable:
                return False

    def built_names(self) -> list[str]:
        """Return the tables whose published version is not one of the base."""
        with translate_read_errors(self.folder.path):
            return [table.name for table in self.folder.tables() if self.folder.is_built(table.name)]

    def exists(self) -> bool:
        """Return whether there is a folder."""
        with translate_read_errors(self.folder.path):
            return self.folder.state() is not None

    def require_open(self) -> None:
        """Raise RVT-415 unless the environment is open."""
        with translate_read_errors(self.folder.path):
            self.folder.required()

    def prepare(self, table: str) -> None:
        """Have the table be the base's published version, unless it was built there."""
        with translate_write_errors(self.folder.layout(table).home):
            seed(self.base.layout(table), self.folder)

    def announce(self, transaction: TableTransaction) -> None:
        """Do nothing: the heartbeat is in the folder of the environment's table."""

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        published = self.catalog.published_by(table, identity)
        with translate_read_errors(self.folder.path):
            is_base = published is not None and published.version in self.folder.base_versions(table)
        return None if is_base else published

    def evict(self, published: Published) -> None:
        """Remove the environment's table, then what it has of the base's versions."""
        self.catalog.evict(published)
        with translate_write_errors(self.folder.path):
            forget(self.folder, published.table)

    def described(self, layout: TableLayout, manifest: Manifest) -> Published:
        """Return a version in the environment, which may be one of the base."""
        published = manifest.published(self.base.name, layout.name, self.catalog.uri(layout.name))
        return replace(published, environment=self.name)


@dataclass(frozen=True)
class FilesystemEnvironment(StoredEnvironment):
    """An environment in its ``folder``, whose tables are ``tables``, and which is merged into the ``base``."""

    base: VersionFolders
    tables: FolderTables
    folder: EnvironmentFolder
    mount_guard: MountGuard

    @property
    def environment(self) -> EnvironmentFolder:
        """The folder, which holds the state."""
        return self.folder

    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment. Raises OSError."""
        versions = ((name, self.tables.catalog.current(name)) for name in self.tables.built_names())
        return tuple(self._described(name, current) for name, current in versions if current is not None)

    def is_alive(self) -> bool:
        """Return whether a run that is alive, or has just died, builds a version there. Raises OSError."""
        alive = ((table, version) for table in self.folder.tables() for version in list_building(table))
        return any(FileHeartbeat(table, version).is_alive() for table, version in alive)

    def excluding_others(self, state: FolderState) -> AbstractContextManager[None]:
        """Hold the lock of the folder."""
        return self.folder.locked()

    def moved(self, tables: Sequence[BuiltTable]) -> RivetError:
        """Return RVT-405 with the versions of each table's base, then and now."""
        return RivetError.of(diagnostic for table in tables for diagnostic in self._conflict(table).diagnostics)

    def publish(self, tables: Sequence[BuiltTable], state: FolderState) -> tuple[Published, ...]:
        """Publish one table after another, those that were published first in front."""
        return tuple(self._publish(table) for table in sorted(tables, key=lambda one: self._manifest(one).published_at))

    def remove_data(self, state: FolderState) -> bool:
        """Remove all but the state."""
        self.folder.remove_data()
        return True

    def drop(self) -> bool:
        """Rename the folder, then remove it."""
        if self.folder.state() is None:
            return self.folder.drop()
        with self.folder.locked():  # a merge ends first
            if self.folder.is_merged():
                raise merged_environment(self.folder.name)
            return self.folder.drop()

    def before_creation(self) -> None:
        """Raise RVT-403 if the catalog is on a disk that is not mounted now."""
        self.mount_guard.check()

    def remove_state(self) -> None:
        """Remove the folder of a merged environment, which holds nothing else."""
        self.folder.drop()

    def _conflict(self, table: BuiltTable) -> RivetError:
        then = table.base.version if table.base is not None else "nothing"
        now = self.base.layout(table.table).published() or "nothing"
        return RivetError(
            "RVT-405",
            f"the base of '{table.table}' was at {then} when it was first written in the environment "
            f"'{self.folder.name}', and is at {now} now",
            remediation="Build it upon the base as it is now: drop the environment, and run it again under its name.",
        )

    def _publish(self, table: BuiltTable) -> Published:
        """Publish a table to the base, unless an interrupted merge has."""
        identity, layout = self._identity(table), self.base.layout(table.table)
        done = self.base.published_by(table.table, identity)
        if done is None:
            done = self._publish_now(table, identity)
        override = read_override(self.folder.layout(table.table), table.current.version)
        if override is not None and layout.published() == done.version:
            self.base.override_watermark(done, override)
        return done

    def _publish_now(self, table: BuiltTable, identity: str) -> Published:
        layout, inner = self.base.layout(table.table), self.folder.layout(table.table)
        manifest, version = self._manifest(table), table.current.version
        origin = Provenance(manifest.inputs, manifest.code_versions, manifest.identity, manifest.record)
        transaction = self.base.begin_copy(layout, origin, beside=inner.files(version))
        with transaction:
            if self._described(table.table, table.current).moved:  # since all tables were looked at
                raise self._conflict(table)
            with send_heartbeats(transaction.beat, layout.name):
                lifecycle.copy(inner, version, transaction.version, layout)
                keep_permissions(inner, version, layout, transaction.version)
            return transaction.commit(identity)

    def _manifest(self, table: BuiltTable) -> Manifest:
        layout = self.folder.layout(table.table)
        manifest = lifecycle.manifest_of(layout, table.current.version)
        assert manifest is not None  # its data has just been found
        return manifest

    def _described(self, name: str, current: Published) -> BuiltTable:
        layout, inner = self.base.layout(name), self.folder.layout(name)
        bases = self.folder.base_versions(name)
        manifest = read_manifest(inner.manifest(bases[0])) if bases else None
        base = self.tables.described(inner, manifest) if manifest is not None else None
        now = lifecycle.current(layout)
        moved = (now.version if now is not None else None) != (bases[0] if bases else None)
        if moved and now is not None and now.identity.startswith(self._identities):
            moved = False  # an interrupted merge has published it
        same = bool(bases) and _stamps(inner, bases[0]) == _stamps(inner, current.version)
        return BuiltTable(name, base, current, moved, same)

    def _identity(self, table: BuiltTable) -> str:
        return f"{self._identities}{table.table}/{table.current.version}"

    @property
    def _identities(self) -> str:
        """The beginning of the identities under which the tables are published."""
        return f"environment {self.folder.name} {self.folder.required(OPEN, MERGING, PUBLISHED).token}/"


def _stamps(layout: TableLayout, version: str) -> set[tuple[str, int, int]]:
    return {stamp_of(path) for path in parquet_files(layout.data(version))}


@dataclass(frozen=True)
class EnvironmentFolders(EnvironmentStorage):
    """The folders of the environments of the catalog ``base``, which is in ``folder``.

    ``tables_in`` returns the catalog whose tables are in the folder of an environment.
    """

    base: VersionFolders
    folder: Path
    mount_guard: MountGuard
    tables_in: Callable[[str, Path], HasTargets]

    def stored(self, name: str) -> FilesystemEnvironment:
        """Return the environment in the folder of its name."""
        folder = EnvironmentFolder(self.folder, name)
        tables = FolderTables(self.base, folder, self.tables_in(name, folder.path))
        return FilesystemEnvironment(self.base, tables, folder, self.mount_guard)

    def names(self) -> list[str]:
        """Return those that have a folder."""
        return [folder.name for folder in folders.all_folders(self.folder)]

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Turn errors of the file system into RVT-403."""
        with translate_read_errors(self.folder):
            yield

    @contextmanager
    def changing(self, name: str | None = None) -> Iterator[None]:
        """Turn errors of the file system into RVT-404."""
        every = folders.folders_of(self.folder)
        with translate_write_errors(every if name is None else EnvironmentFolder(self.folder, name).path):
            yield

    def sweep_remains(self, oldest: datetime) -> list[str]:
        """Remove what interrupted drops and creations left, and what was written to dropped environments."""
        halves = folders.remove_halves(self.folder, made_before=oldest.timestamp())
        return [*halves, *folders.remove_all_remains(self.folder)]
