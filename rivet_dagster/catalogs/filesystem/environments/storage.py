"""The environments of a catalog ``filesystem``: each is a folder of tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.environments.catalog import EnvironmentStorage
from rivet_dagster.catalogs.filesystem.catalog_location import MountGuard
from rivet_dagster.catalogs.filesystem.environments import folder as folders
from rivet_dagster.catalogs.filesystem.environments.folder import EnvironmentFolder
from rivet_dagster.catalogs.filesystem.environments.merging import FilesystemEnvironment
from rivet_dagster.catalogs.filesystem.environments.tables import FolderTables
from rivet_dagster.catalogs.filesystem.files.file_status import looking
from rivet_dagster.catalogs.filesystem.files.local_writing import writing
from rivet_dagster.catalogs.filesystem.version_folders import VersionFolders


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
        with looking(self.folder):
            yield

    @contextmanager
    def changing(self, name: str | None = None) -> Iterator[None]:
        """Turn errors of the file system into RVT-404."""
        every = folders.folders_of(self.folder)
        with writing(every if name is None else EnvironmentFolder(self.folder, name).path):
            yield

    def sweep_remains(self, oldest: datetime) -> list[str]:
        """Remove what interrupted drops and creations left, and what was written to dropped environments."""
        halves = folders.remove_halves(self.folder, made_before=oldest.timestamp())
        return [*halves, *folders.remove_all_remains(self.folder)]
