"""Merging: publishing the tables that were built in an environment to the base, which ends the environment.

A merge that was interrupted is finished by the next one, from the state in which it left the environment.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Generic

from rivet_dagster.catalogs.environments.state import (
    MERGED,
    MERGING,
    OPEN,
    PUBLISHED,
    BuiltTable,
    S,
    StateOfEnvironment,
    environment_in_use,
    moved_base,
)
from rivet_dagster.errors import Conflict, EnvironmentInUse, RivetError
from rivet_dagster.model.storage import Published


class EnvironmentMerge(ABC, Generic[S]):
    """The merge of an environment into the base: the states are here, the steps are those of the storage."""

    @property
    @abstractmethod
    def environment(self) -> StateOfEnvironment[S]:
        """The environment."""

    @abstractmethod
    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment, in order."""

    @abstractmethod
    def is_alive(self) -> bool:
        """Return whether a run that is alive, or has just died, writes in the environment."""

    @abstractmethod
    def publish(self, tables: Sequence[BuiltTable], state: S) -> tuple[Published, ...]:
        """Publish the tables to the base, except for those that an interrupted merge has, and return their versions.

        Raises RVT-405 if the base of a table has moved.
        """

    @abstractmethod
    def remove_data(self, state: S) -> bool:
        """Remove what the environment still has of its tables; return whether nothing must stay for now."""

    def excluding_others(self, state: S) -> AbstractContextManager[object]:
        """Keep other merges, and drops, of the environment away during the block."""
        return nullcontext()

    def is_published(self, state: S) -> bool:
        """Return whether an interrupted merge has published all tables."""
        return state.state == PUBLISHED

    def published_before(self) -> tuple[Published, ...]:
        """Return the versions that an interrupted merge has published, where they are known."""
        return ()

    def moved(self, tables: Sequence[BuiltTable]) -> RivetError:
        """Return RVT-405 for tables whose base has moved."""
        return moved_base(self.environment.name, [table.table for table in tables])

    def end(self, state: S) -> None:
        """Remove the data, and record that the environment has been merged."""
        self.remove_data(state)
        self.environment.set(MERGED)

    def finish(self) -> tuple[Published, ...]:
        """Merge, from wherever an earlier merge was interrupted. Raises what ``HasEnvironments.merge`` does."""
        environment = self.environment
        with self.excluding_others(environment.required(OPEN, MERGING, PUBLISHED)):
            state = environment.required(OPEN, MERGING, PUBLISHED)
            environment.use(state)
            if self.is_published(state):
                published = self.published_before()
            else:
                published = self._publish_all(state)
                environment.set(PUBLISHED)
            self.end(state)
        return published

    def _publish_all(self, state: S) -> tuple[Published, ...]:
        self.environment.set(MERGING)
        try:
            # A run says that it is alive, then looks at the state: one of both is seen by the other.
            if self.is_alive():
                raise environment_in_use(self.environment.name)
            tables = self.built()
            self.refuse_moved(tables)
            return self.publish(tables, state)
        except (Conflict, EnvironmentInUse):  # there is something to do in the environment first
            self.environment.set(OPEN, instead_of=MERGING)
            raise

    def refuse_moved(self, tables: Sequence[BuiltTable]) -> None:
        """Raise RVT-405 if the base of a table has moved since it was first written in the environment."""
        others = [table for table in tables if table.moved]
        if others:
            raise self.moved(others)
