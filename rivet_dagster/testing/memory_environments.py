"""Environments of tables in memory: a template for those of your own catalogs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.environments.catalog import EnvironmentStorage, StoredEnvironment
from rivet_dagster.catalogs.environments.state import (
    MERGED,
    MERGING,
    OPEN,
    PUBLISHED,
    BuiltTable,
    EnvironmentState,
    StateOfEnvironment,
    merged_environment,
)
from rivet_dagster.catalogs.environments.tables_over_base import EnvironmentTables
from rivet_dagster.model.storage import Published
from rivet_dagster.testing.memory_store import MemoryStore, StoredEnvironmentTables, StoredTable


@dataclass(frozen=True)
class MemoryState(StateOfEnvironment[EnvironmentState]):
    """The state of the environment ``name``."""

    name: str
    stored: StoredEnvironmentTables

    def state(self) -> EnvironmentState | None:
        """Return the state; None if there is no such environment."""
        return self.stored.state

    def create(self, profile: str) -> None:
        """Make an open environment."""
        self.stored.state = EnvironmentState(profile, _now(), _now(), OPEN)

    def set(self, state: str, instead_of: str | None = None) -> None:
        """Change the state, if there is an environment that has not been merged."""
        known = self.required(OPEN, MERGING, PUBLISHED)
        if instead_of in (None, known.state):
            self.stored.state = replace(known, state=state)

    def use(self, state: EnvironmentState) -> None:
        """Record that it is used now."""
        self.stored.state = replace(state, used_at=_now())


@dataclass(frozen=True)
class MemoryTables(EnvironmentTables):
    """The tables of an environment, which are copies of those of the base until they are built there."""

    base: MemoryStore
    environment: MemoryState
    catalog: HasTargets

    @property
    def name(self) -> str:
        """The name of the environment."""
        return self.environment.name

    @property
    def stored(self) -> StoredEnvironmentTables:
        """What is stored of the environment."""
        return self.environment.stored

    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""
        return any(
            table in (name, *(errors.table for errors in self.stored.tables[name].errors.values()))
            for name in self.built_names()
        )

    def built_names(self) -> list[str]:
        """Return the tables whose current version is not a copy of the base's."""
        return sorted(name for name, table in self.stored.tables.items() if self._is_built_table(name, table))

    def exists(self) -> bool:
        """Return whether there is such an environment."""
        return self.environment.state() is not None

    def require_open(self) -> None:
        """Raise RVT-415 unless the environment is open."""
        self.environment.required()

    def prepare(self, table: str) -> None:
        """Have the table be a copy of the base's, unless it was built there."""
        if table in self.built_names():
            return
        self.stored.tables.pop(table, None)
        of_base = self.base.tables.get(table, StoredTable())
        self.stored.bases[table] = of_base.current
        if of_base.current is not None:
            copy = self.stored.tables.setdefault(table, StoredTable())
            self.stored.bases[table] = copy.add_copy(of_base, self.name)

    def announce(self, transaction: TableTransaction) -> None:
        """Add the transaction to the writers."""
        self.stored.writers.append(transaction)

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        published, base = self.catalog.published_by(table, identity), self.stored.bases.get(table)
        return None if published is None or (base is not None and published.version == base.version) else published

    def evict(self, published: Published) -> None:
        """Remove the table of the environment."""
        self.catalog.evict(published)

    def _is_built_table(self, name: str, table: StoredTable) -> bool:
        base = self.stored.bases.get(name)
        return table.current is not None and (base is None or table.current.version != base.version)


@dataclass(frozen=True)
class MemoryEnvironment(StoredEnvironment):
    """An environment whose state and tables are in memory."""

    tables: MemoryTables

    @property
    def environment(self) -> MemoryState:
        """The state."""
        return self.tables.environment

    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment."""
        stored, base = self.tables.stored, self.tables.base
        built = []
        for name in self.tables.built_names():
            upon, current, now = (
                stored.bases.get(name),
                stored.tables[name].current,
                base.tables.get(name, StoredTable()),
            )
            assert current is not None, "it was just found to be built"
            moved = (now.current.version if now.current else None) != (upon.version if upon else None)
            built.append(BuiltTable(name, upon, current, moved))
        return tuple(built)

    def is_alive(self) -> bool:
        """Return whether a transaction has not ended that was begun in the environment."""
        return any(not transaction.has_ended for transaction in self.tables.stored.writers)

    def publish(self, tables: Sequence[BuiltTable], state: EnvironmentState) -> tuple[Published, ...]:
        """Publish the tables to the base, which no other thread sees half done."""
        stored, base = self.tables.stored.tables, self.tables.base.tables
        return tuple(
            base.setdefault(table.table, StoredTable()).add_copy(stored[table.table], None) for table in tables
        )

    def remove_data(self, state: EnvironmentState) -> bool:
        """Remove the tables of the environment."""
        stored = self.tables.stored
        for remains in (stored.tables, stored.bases, stored.writers):
            remains.clear()
        return True

    def drop(self) -> bool:
        """Remove the tables, then the state."""
        state = self.environment.state()
        if state is None:
            return False
        if state.state == MERGED:
            raise merged_environment(self.environment.name)
        self.remove_data(state)
        self.remove_state()
        return True

    def remove_state(self) -> None:
        """Forget the environment."""
        self.tables.stored.state = None


@dataclass(frozen=True)
class MemoryEnvironments(EnvironmentStorage):
    """The environments in ``store``; ``tables_in`` returns the catalog of the tables of one of them."""

    store: MemoryStore
    tables_in: Callable[[str], HasTargets]

    def stored(self, name: str) -> MemoryEnvironment:
        """Return the environment of that name."""
        return MemoryEnvironment(
            MemoryTables(self.store, MemoryState(name, self.store.environment(name)), self.tables_in(name))
        )

    def names(self) -> list[str]:
        """Return the names of environments, in order, those of merged ones too."""
        return sorted(name for name, stored in self.store.environments.items() if stored.state is not None)

    def looking(self) -> AbstractContextManager[None]:
        """Do nothing: memory does not fail."""
        return nullcontext()

    def changing(self, name: str | None = None) -> AbstractContextManager[None]:
        """Do nothing: memory does not fail."""
        return nullcontext()

    def sweep_remains(self, oldest: datetime) -> list[str]:
        """Remove nothing: no environment is half removed."""
        return []


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
