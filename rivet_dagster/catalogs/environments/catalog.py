"""The environments of a catalog: what ``HasEnvironments`` promises, over what a storage provides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from rivet_dagster.catalogs.capabilities.environments import (
    ABANDONED_AFTER,
    BuiltTable,
    Environment,
    HasEnvironments,
)
from rivet_dagster.catalogs.environments.errors import of_another_profile
from rivet_dagster.catalogs.environments.merging import EnvironmentMerge
from rivet_dagster.catalogs.environments.state import DROPPED, MERGED, OPEN
from rivet_dagster.model.storage import Published


class StoredEnvironment(EnvironmentMerge[Any]):
    """One environment in a storage: its state, its tables, its merge and its removal."""

    @abstractmethod
    def built_names(self) -> Iterable[str]:
        """Return the tables that were built there, as joints name them."""

    @abstractmethod
    def sweep_tables(self) -> tuple[str, ...]:
        """Remove what dead runs in the environment have staged, and return it."""

    @abstractmethod
    def building(self) -> tuple[str, ...]:
        """Return what runs in the environment have staged, each as ``table/version``."""

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


class KeepsEnvironments(HasEnvironments):
    """A catalog with environments, each of which is a ``StoredEnvironment``."""

    @property
    def keeps_environments(self) -> bool:
        """Whether there can be any, as where tables are published."""
        return True

    @abstractmethod
    def stored_environment(self, name: str) -> StoredEnvironment:
        """Return the environment of that name, without accessing storage."""

    @abstractmethod
    def environment_names(self) -> list[str]:
        """Return the names of environments, in order, those of merged and half removed ones too."""

    @abstractmethod
    def looking_at_environments(self) -> AbstractContextManager[object]:
        """Turn errors of storage in the block into RVT-403."""

    @abstractmethod
    def changing_environments(self, name: str | None = None) -> AbstractContextManager[object]:
        """Turn errors of storage in the block, which changes the environment, into RVT-404."""

    @abstractmethod
    def sweep_remains(self, oldest: datetime) -> Iterable[str]:
        """Remove what belongs to no environment any more, and return it."""

    def use_environment(self, name: str, profile: str) -> None:
        """Make the environment if there is none, and record that it is used now."""
        if not self.keeps_environments:
            return
        with self.changing_environments(name):
            stored = self.stored_environment(name)
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
        """Return those that are not over."""
        if not self.keeps_environments:
            return ()
        with self.looking_at_environments():
            described = [_describe(self.stored_environment(name)) for name in self.environment_names()]
        return tuple(environment for environment in described if environment is not None)

    def is_merged(self, name: str) -> bool:
        """Return whether the storage says so."""
        if not self.keeps_environments:
            return False
        with self.looking_at_environments():
            return self.stored_environment(name).environment.is_merged()

    def built(self, name: str) -> tuple[BuiltTable, ...]:
        """Return the tables whose current version in the environment is not one of the base."""
        if not self.keeps_environments:
            return ()
        with self.looking_at_environments():
            stored = self.stored_environment(name)
            return stored.built() if stored.environment.state() is not None else ()

    def merge(self, name: str) -> tuple[Published, ...]:
        """Publish what was built there to the base."""
        with self.changing_environments(name):
            return self.stored_environment(name).finish()

    def drop(self, name: str) -> bool:
        """Remove the environment with all its data."""
        if not self.keeps_environments:
            return False
        with self.changing_environments(name):
            return self.stored_environment(name).drop()

    def sweep_environments(self, unused_for: timedelta = ABANDONED_AFTER) -> tuple[str, ...]:
        """Remove abandoned ones, and what dead runs left in the others, each as ``environment/table/version``."""
        if not self.keeps_environments:
            return ()
        removed: list[str] = []
        oldest = datetime.now(UTC) - unused_for
        with self.changing_environments():
            removed += self.sweep_remains(oldest)
            for name in self.environment_names():
                stored = self.stored_environment(name)
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
                    removed += [f"{name}/{version}" for version in stored.sweep_tables()]
                    if is_old and not stored.is_alive() and not stored.is_being_merged() and stored.drop():
                        removed.append(name)
        return tuple(removed)

    def building_in_environments(self) -> tuple[str, ...]:
        """Return what runs in environments have staged, each as ``environment/table/version``."""
        if not self.keeps_environments:
            return ()
        with self.looking_at_environments():
            stored = [(name, self.stored_environment(name)) for name in self.environment_names()]
            return tuple(f"{name}/{version}" for name, one in stored for version in one.building())


def _describe(stored: StoredEnvironment) -> Environment | None:
    environment = stored.environment
    state = environment.state()
    if state is None or state.state in (MERGED, DROPPED):
        return None
    tables, is_merging = tuple(sorted(stored.built_names())), state.state != OPEN
    return Environment(environment.name, state.profile, state.created_at, state.used_at, tables, is_merging)
