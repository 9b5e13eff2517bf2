"""The environments of a catalog: what ``HasEnvironments`` promises, over what a storage provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.environments.state import (
    ABANDONED_AFTER,
    DROPPED,
    MERGED,
    OPEN,
    BuiltTable,
    Environment,
    EnvironmentMerge,
    missing_environment,
    of_another_profile,
)
from rivet_dagster.catalogs.environments.tables_over_base import EnvironmentTables, TablesOverBase
from rivet_dagster.model.storage import Published


class StoredEnvironment(EnvironmentMerge[Any]):
    """One environment in a storage: its state, its ``tables``, its merge and its removal."""

    tables: EnvironmentTables

    @abstractmethod
    def drop(self) -> bool:
        """Remove the environment with all its data; return whether there was one. Raises RVT-415, RVT-417."""

    @abstractmethod
    def remove_state(self) -> None:
        """Forget a merged environment."""

    def is_being_merged(self) -> bool:
        """Return whether a merge is alive for which a drop does not wait."""
        return False

    def finish_drop(self) -> bool:
        """Remove what an interrupted drop has left; return whether nothing must stay for now."""
        return True

    def before_creation(self) -> None:
        """Remove what an earlier environment of the name has left. Raises RVT-417 if something of it must stay."""


class EnvironmentStorage(ABC):
    """The environments that a storage holds, each of which is a ``StoredEnvironment``."""

    @abstractmethod
    def stored(self, name: str) -> StoredEnvironment:
        """Return the environment of that name, without accessing storage."""

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of environments, in order, those of merged and half removed ones too."""

    @abstractmethod
    def looking(self) -> AbstractContextManager[object]:
        """Turn errors of storage in the block into RVT-403."""

    @abstractmethod
    def changing(self, name: str | None = None) -> AbstractContextManager[object]:
        """Turn errors of storage in the block, which changes the environment, into RVT-404."""

    @abstractmethod
    def sweep_remains(self, oldest: datetime) -> Iterable[str]:
        """Remove what belongs to no environment any more, and return it."""

    def needs(self, table: str) -> bool:
        """Return whether an environment needs the data of a table of the base."""
        return False


class HasEnvironments(HasTargets):
    """keeps the tables of environments apart from those of the base.

    Environments are known by their names, which match ``^[a-z0-9][a-z0-9_-]*$`` and have at most 64 characters.
    """

    @property
    @abstractmethod
    def environment_storage(self) -> EnvironmentStorage | None:
        """The storage of the environments; None if, with its options, the catalog has none."""

    def in_environment(self, name: str) -> HasTargets:
        """Return this catalog as the environment sees it, without accessing storage.

        It has the capabilities of this one, but for environments. What it publishes is published in the environment,
        ``Published.environment`` being its name. A table that was not built there is that of the base: ``relation``,
        ``columns``, ``data_version``, ``tables`` and ``current`` find it, and ``read``, ``errors_of``, ``statistics``,
        ``max_of`` and ``watermark_override`` take versions of both. Nothing that is done there changes the base:
        ``evict`` does nothing to a version of the base, and ``override_watermark`` raises RVT-417 for it. ``begin``
        raises RVT-415 if there is no such environment, or if it is over.
        """
        storage = self.environment_storage
        return self if storage is None else TablesOverBase(self, storage.stored(name).tables)

    def use_environment(self, name: str, profile: str) -> None:
        """Make the environment if there is none, and record that it is used now, with that profile.

        It copies no data. Raises RVT-415 if the environment is over or being merged, RVT-416 if it is used with another
        profile.
        """
        storage = self.environment_storage
        if storage is None:
            return
        with storage.changing(name):
            stored = storage.stored(name)
            environment = stored.environment
            state = environment.state()
            if state is None or state.state == DROPPED:
                stored.before_creation()
                if not environment.is_merged():
                    environment.create(profile)
            state = environment.required()
            if state.profile != profile:
                raise of_another_profile(name, state.profile, profile)
            environment.use(state)

    def environments(self) -> tuple[Environment, ...]:
        """Return the environments that are not over, in order of their names."""
        storage = self.environment_storage
        if storage is None:
            return ()
        with storage.looking():
            described = [_describe(storage.stored(name)) for name in storage.names()]
        return tuple(environment for environment in described if environment is not None)

    def has_environment(self, name: str) -> bool:
        """Return whether there is an environment of that name that is not over. No other is looked at."""
        storage = self.environment_storage
        if storage is None:
            return False
        with storage.looking():
            state = storage.stored(name).environment.state()
            return state is not None and state.state not in (MERGED, DROPPED)

    def is_merged(self, name: str) -> bool:
        """Return whether the environment is over because it has been merged."""
        storage = self.environment_storage
        if storage is None:
            return False
        with storage.looking():
            return storage.stored(name).environment.is_merged()

    def built(self, name: str) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in an environment, in order; none if there is no such environment."""
        storage = self.environment_storage
        if storage is None:
            return ()
        with storage.looking():
            stored = storage.stored(name)
            return stored.built() if stored.environment.state() is not None else ()

    def merge(self, name: str) -> tuple[Published, ...]:
        """Publish all tables that were built in the environment to the base, which ends it; return those versions.

        An interrupted merge is finished by calling it again. Raises RVT-405, and publishes nothing, if the base of a
        table has moved; RVT-417 if a run is alive there; RVT-415 if there is no such environment, or if it is over.
        """
        storage = self.environment_storage
        if storage is None:
            raise missing_environment(name)
        with storage.changing(name):
            return storage.stored(name).finish()

    def drop(self, name: str) -> bool:
        """Remove an environment with all its data at once; return whether there was one, be it half removed.

        An interrupted drop is finished by the sweep, or by calling it again. Raises RVT-415 if it has been merged.
        """
        storage = self.environment_storage
        if storage is None:
            return False
        with storage.changing(name):
            return storage.stored(name).drop()

    def sweep_environments(self, unused_for: timedelta = ABANDONED_AFTER) -> tuple[str, ...]:
        """Remove the environments that were not used for that time, and what interrupted drops left; return the names.

        Those in which a run is alive stay. Names of merged environments are forgotten after the same time.
        """
        storage = self.environment_storage
        if storage is None:
            return ()
        removed: list[str] = []
        oldest = datetime.now(UTC) - unused_for
        with storage.changing():
            removed += storage.sweep_remains(oldest)
            for name in storage.names():
                stored = storage.stored(name)
                state = stored.environment.state()
                if state is None:
                    continue
                is_old = datetime.fromisoformat(state.used_at) < oldest
                if state.state == DROPPED:
                    removed += [name] if stored.finish_drop() else []
                elif state.state == MERGED:
                    if is_old:
                        stored.remove_state()
                else:
                    removed += [f"{name}/{version}" for version in stored.tables.sweep()]
                    if is_old and not stored.is_alive() and not stored.is_being_merged() and stored.drop():
                        removed.append(name)
        return tuple(removed)

    def building_in_environments(self) -> tuple[str, ...]:
        """Return what runs in environments have staged, each as ``environment/table/version``."""
        storage = self.environment_storage
        if storage is None:
            return ()
        with storage.looking():
            stored = [(name, storage.stored(name)) for name in storage.names()]
            return tuple(f"{name}/{version}" for name, one in stored for version in one.tables.building())


def _describe(stored: StoredEnvironment) -> Environment | None:
    environment = stored.environment
    state = environment.state()
    if state is None or state.state in (MERGED, DROPPED):
        return None
    tables, is_merging = tuple(sorted(stored.tables.built_names())), state.state != OPEN
    return Environment(environment.name, state.profile, state.created_at, state.used_at, tables, is_merging)
