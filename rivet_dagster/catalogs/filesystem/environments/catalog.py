"""The catalog ``filesystem`` with its environments."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

from rivet_dagster.catalogs.capabilities.environment_errors import merged, of_another_profile
from rivet_dagster.catalogs.capabilities.environments import (
    ABANDONED_AFTER,
    BuiltTable,
    Environment,
    HasEnvironments,
)
from rivet_dagster.catalogs.filesystem.catalog import FilesystemTables
from rivet_dagster.catalogs.filesystem.environments import folder as folders
from rivet_dagster.catalogs.filesystem.environments.folder import EnvironmentFolder
from rivet_dagster.catalogs.filesystem.environments.merging import Merge, is_alive
from rivet_dagster.catalogs.filesystem.environments.tables import EnvironmentTables
from rivet_dagster.catalogs.filesystem.files.file_status import looking
from rivet_dagster.catalogs.filesystem.files.local_writing import writing
from rivet_dagster.model.storage import Published


class FilesystemCatalog(FilesystemTables, HasEnvironments):
    """A directory of tables.

    Options: ``path``, relative to the project's directory; ``format`` of sources whose file extension does not say it
    (default parquet); ``versions``, the number of published versions of a table that are retained (default 2). Sinks
    are always Parquet. A ``path`` in a store (``s3a://``, ``gs://``, ``abfss://``, ``hdfs://``) is for sources alone;
    ``options`` are the store's ``endpoint``, ``access_key``, ``secret_key`` and ``region``.
    """

    def in_environment(self, name: str) -> FilesystemTables:
        """Return the tables with those of the environment in front; a store, where nothing is published, itself."""
        return EnvironmentTables(self, self._environment(name)) if self.publishes_here else self

    def use_environment(self, name: str, profile: str) -> None:
        """Make the environment's folder; its tables have none before they are written."""
        if not self.publishes_here:
            return
        environment = self._environment(name)
        self.mount_guard.check()
        with writing(environment.path):
            if environment.state() is None:
                environment.create(profile)
            state = environment.required()
            if state.profile != profile:
                raise of_another_profile(name, state.profile, profile)
            environment.use()

    def environments(self) -> tuple[Environment, ...]:
        """Return those that have a folder."""
        if not self.publishes_here:
            return ()
        with looking(self.location.folder):
            described = (_described(environment) for environment in folders.all_folders(self.location.folder))
            return tuple(environment for environment in described if environment is not None)

    def is_merged(self, name: str) -> bool:
        """Return whether the state of the environment says so."""
        with looking(self.location.folder):
            state = self._environment(name).state()
        return state is not None and state.state == folders.MERGED

    def built(self, name: str) -> tuple[BuiltTable, ...]:
        """Return the tables whose published version in the environment is not one of the base."""
        merge = self._merge(name)
        with looking(merge.environment.path):
            return merge.built() if merge.environment.state() is not None else ()

    def merge(self, name: str) -> tuple[Published, ...]:
        """Publish one table after another, by hard links, in the order in which they were published there."""
        merge = self._merge(name)
        with writing(merge.environment.path):
            return merge.finish()

    def drop(self, name: str) -> bool:
        """Rename the folder, then remove it."""
        if not self.publishes_here:
            return False
        environment = self._environment(name)
        with writing(environment.path):
            if environment.state() is None:
                return environment.drop()
            with environment.locked():  # a merge ends first
                state = environment.state()
                if state is not None and state.state == folders.MERGED:
                    raise merged(name)
                return environment.drop()

    def sweep_environments(self, unused_for: timedelta = ABANDONED_AFTER) -> tuple[str, ...]:
        """Remove them, and what dead runs left in the others, each as ``environment/table/version``."""
        if not self.publishes_here:
            return ()
        removed: list[str] = []
        oldest = time.time() - unused_for.total_seconds()
        with writing(folders.folders_of(self.location.folder)):
            removed += folders.remove_halves(self.location.folder, made_before=oldest)
            removed += folders.remove_all_remains(self.location.folder)
            for environment in folders.all_folders(self.location.folder):
                tables = EnvironmentTables(self, environment)
                removed += [f"{environment.name}/{version}" for version in tables.sweep()]
                state = environment.state()
                if state is not None and environment.used() < oldest and not is_alive(environment):
                    environment.drop()
                    removed += [environment.name] if state.state != folders.MERGED else []
        return tuple(removed)

    def building(self) -> tuple[str, ...]:
        """Return the versions that have a heartbeat file, also in environments."""
        own = super().building()
        if not self.publishes_here:
            return own
        with looking(self.location.folder):
            environments = folders.all_folders(self.location.folder)
        there = ((one.name, version) for one in environments for version in EnvironmentTables(self, one).building())
        return (*own, *(f"{name}/{version}" for name, version in there))

    def _environment(self, name: str) -> EnvironmentFolder:
        return EnvironmentFolder(self.location.folder, name)

    def _merge(self, name: str) -> Merge:
        environment = self._environment(name)
        return Merge(self, EnvironmentTables(self, environment), environment)


def _described(environment: EnvironmentFolder) -> Environment | None:
    state = environment.state()
    if state is None or state.state == folders.MERGED:
        return None
    tables = tuple(table.name for table in environment.tables() if environment.is_built(table.name))
    used = datetime.fromtimestamp(environment.used(), UTC).isoformat(timespec="milliseconds")
    merging = state.state != folders.OPEN
    return Environment(environment.name, state.profile, state.created_at, used, tables, merging)
