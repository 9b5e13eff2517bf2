"""The catalog ``filesystem`` with its environments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from rivet_dagster.catalogs.environments.catalog import KeepsEnvironments
from rivet_dagster.catalogs.filesystem.catalog import FilesystemTables
from rivet_dagster.catalogs.filesystem.environments import folder as folders
from rivet_dagster.catalogs.filesystem.environments.folder import EnvironmentFolder
from rivet_dagster.catalogs.filesystem.environments.merging import FilesystemEnvironment
from rivet_dagster.catalogs.filesystem.environments.tables import EnvironmentTables
from rivet_dagster.catalogs.filesystem.files.file_status import looking
from rivet_dagster.catalogs.filesystem.files.local_writing import writing


class FilesystemCatalog(FilesystemTables, KeepsEnvironments):
    """A directory of tables.

    Options: ``path``, relative to the project's directory; ``format`` of sources whose file extension does not say it
    (default parquet); ``versions``, the number of published versions of a table that are retained (default 2). Sinks
    are always Parquet. A ``path`` in a store (``s3a://``, ``gs://``, ``abfss://``, ``hdfs://``) is for sources alone;
    ``options`` are the store's ``endpoint``, ``access_key``, ``secret_key`` and ``region``.
    """

    def in_environment(self, name: str) -> FilesystemTables:
        """Return the tables with those of the environment in front; a store, where nothing is published, itself."""
        return self.stored_environment(name).tables if self.publishes_here else self

    @property
    def keeps_environments(self) -> bool:
        """Whether tables are published here, and not in a store that is for sources alone."""
        return self.publishes_here

    def use_environment(self, name: str, profile: str) -> None:
        """Make the environment's folder; its tables have none before they are written."""
        if self.publishes_here:
            self.mount_guard.check()
        super().use_environment(name, profile)

    def stored_environment(self, name: str) -> FilesystemEnvironment:
        """Return the environment in the folder of its name."""
        folder = EnvironmentFolder(self.location.folder, name)
        return FilesystemEnvironment(self, EnvironmentTables(self, folder), folder)

    def environment_names(self) -> list[str]:
        """Return those that have a folder."""
        return [folder.name for folder in folders.all_folders(self.location.folder)]

    @contextmanager
    def looking_at_environments(self) -> Iterator[None]:
        """Turn errors of the file system into RVT-403."""
        with looking(self.location.folder):
            yield

    @contextmanager
    def changing_environments(self, name: str | None = None) -> Iterator[None]:
        """Turn errors of the file system into RVT-404."""
        every = folders.folders_of(self.location.folder)
        with writing(every if name is None else EnvironmentFolder(self.location.folder, name).path):
            yield

    def sweep_remains(self, oldest: datetime) -> list[str]:
        """Remove what interrupted drops and creations left, and what was written to dropped environments."""
        halves = folders.remove_halves(self.location.folder, made_before=oldest.timestamp())
        return [*halves, *folders.remove_all_remains(self.location.folder)]

    def building(self) -> tuple[str, ...]:
        """Return the versions that have a heartbeat file, also in environments."""
        return (*super().building(), *self.building_in_environments())
