"""Environments of a database: each is a schema, whose tables begin as copies of those of the base."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from rivet_dagster.catalogs.capabilities.sources import Snapshot
from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.environments.catalog import EnvironmentStorage, StoredEnvironment
from rivet_dagster.catalogs.environments.state import (
    DROPPED,
    MERGED,
    BuiltTable,
    EnvironmentState,
    merged_environment,
)
from rivet_dagster.catalogs.environments.tables_over_base import EnvironmentTables
from rivet_dagster.catalogs.jdbc.published.environment_state import DatabaseState
from rivet_dagster.catalogs.jdbc.published.published_tables import PublishedTables
from rivet_dagster.catalogs.jdbc.published.publishing import Publication
from rivet_dagster.catalogs.jdbc.published.stored_version import PlannedWrite, StoredVersion, name_of
from rivet_dagster.model.storage import Published
from rivet_dagster.sql.database_trees import Name

SnapshotOf = Callable[[int, Callable[[str], Name]], Snapshot]
"""A function that takes a snapshot of the database of some tables, which it finds by a function of their names."""


@dataclass(frozen=True)
class DatabaseTables(EnvironmentTables):
    """The tables of an environment, in its schema."""

    environment: DatabaseState
    catalog: HasTargets
    published_tables: PublishedTables
    snapshot_of: SnapshotOf

    @property
    def name(self) -> str:
        """The name of the environment."""
        return self.environment.name

    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""
        return self.published_tables.data_version(table) is not None

    def built_names(self) -> list[str]:
        """Return the tables that were built there."""
        with self.published_tables.database.connect("its tables") as connection:
            keys = self.published_tables.records.tables(connection)
        return sorted(self._as_named(key) for key in keys)

    def exists(self) -> bool:
        """Return whether there is such an environment."""
        return self.environment.state() is not None

    def require_open(self) -> None:
        """Raise RVT-415 unless the environment is open."""
        self.environment.required()

    def prepare(self, table: str) -> None:
        """Do nothing: the transaction that first publishes a table there copies the rows of the base that stay."""

    def announce(self, transaction: TableTransaction) -> None:
        """Do nothing: the heartbeat of the transaction is in the schema of the environment."""

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        return self.published_tables.published_by(table, identity)

    def evict(self, published: Published) -> None:
        """Drop the table of the environment."""
        self.published_tables.evict(published)

    def snapshot(self, tables: int) -> Snapshot:
        """Return the tables of the environment, and the others of the base, at one snapshot of the database."""
        return self.snapshot_of(tables, self._name_of)

    def _name_of(self, table: str) -> Name:
        return (self.published_tables if self.is_built(table) else self.environment.base).name(table)

    def _as_named(self, key: str) -> str:
        schema, name = name_of(key)
        return name if schema == self.published_tables.schema else key


@dataclass(frozen=True)
class DatabaseEnvironment(StoredEnvironment):
    """An environment that is a schema of the database."""

    tables: DatabaseTables

    @property
    def environment(self) -> DatabaseState:
        """The state."""
        return self.tables.environment

    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment."""
        base, built = self.environment.base, []
        for table in self.tables.built_names():
            current, of_base = self.tables.published_tables.current_version(table), base.current_version(table)
            if current is None:
                continue
            upon = self._upon(table, current)
            now = of_base.version if of_base is not None else None
            # After an interrupted merge the base has the environment's version already.
            moved = now not in (current.built_upon, current.version)
            built.append(BuiltTable(table, upon, self.tables.published_tables.published(table, current), moved))
        return tuple(built)

    def is_alive(self) -> bool:
        """Return whether a run in the environment sends heartbeats."""
        tables = self.tables.published_tables
        with tables.database.connect("its environments") as connection:
            return bool(tables.records.alive(connection))

    def publish(self, tables: Sequence[BuiltTable], state: EnvironmentState) -> tuple[Published, ...]:
        """Publish the tables to the base in one transaction, each as a whole."""
        base = self.environment.base
        publications = {table.table: self._publication(table) for table in tables}
        waiting = [one for one in publications.values() if one is not None]
        if waiting:
            base.publish(waiting)
        published = [base.current(table.table) for table in tables]
        return tuple(version for version in published if version is not None)

    def remove_data(self, state: EnvironmentState) -> bool:
        """Drop the schema."""
        self.environment.drop_schema()
        return True

    def drop(self) -> bool:
        """Record that it is dropped, then drop the schema."""
        state = self.environment.state()
        if state is None:
            return False
        if state.state == MERGED:
            raise merged_environment(self.environment.name)
        self.environment.set(DROPPED)
        self.environment.drop_schema()
        self.environment.remove()
        return True

    def finish_drop(self) -> bool:
        """Drop the schema of a drop that was interrupted."""
        self.environment.drop_schema()
        self.environment.remove()
        return True

    def remove_state(self) -> None:
        """Forget the environment."""
        self.environment.remove()

    def _upon(self, table: str, current: StoredVersion) -> Published | None:
        base = self.environment.base
        if current.built_upon is None:
            return None
        with base.database.connect(f"the table {table}") as connection:
            stored = base.records.version(connection, base.key(table), current.built_upon)
        return None if stored is None else base.published(table, stored)

    def _publication(self, built: BuiltTable) -> Publication | None:
        """Return the publication of a table's rows in the base; None if an interrupted merge has published them."""
        base, tables = self.environment.base, self.tables.published_tables
        current, upon = tables.current_version(built.table), base.current_version(built.table)
        assert current is not None and current.manifest is not None
        if upon is not None and upon.version == current.version:
            return None
        columns = tuple(current.manifest.columns)
        errors = () if current.errors is None else (tables.stored_name(current.errors),)
        name = tables.name(built.table)
        write = PlannedWrite((), rows=name, columns=columns, like=name, errors=errors, keeps_record=True)
        before = upon.manifest.rows if upon is not None and upon.manifest is not None else 0
        merged = replace(
            current,
            upon=upon.version if upon is not None else None,
            number=None,
            write=write,
            built_upon=None,
            manifest=replace(current.manifest, rows_before=before),
        )
        base.records_of_merge(built.table, merged)
        return Publication(merged, upon)


@dataclass(frozen=True)
class DatabaseEnvironments(EnvironmentStorage):
    """The environments of a catalog; ``tables_in`` returns the catalog of the tables of one, and these tables."""

    base: PublishedTables
    tables_in: Callable[[str], tuple[HasTargets, PublishedTables]]
    snapshot_of: SnapshotOf

    def stored(self, name: str) -> DatabaseEnvironment:
        """Return the environment of that name."""
        catalog, tables = self.tables_in(name)
        return DatabaseEnvironment(DatabaseTables(DatabaseState(self.base, name), catalog, tables, self.snapshot_of))

    def names(self) -> list[str]:
        """Return the names of environments, in order."""
        return DatabaseState(self.base, "").names()

    def looking(self) -> AbstractContextManager[object]:
        """Turn errors of the database into RVT-403."""
        return self.base.database.translate_errors("its environments")

    def changing(self, name: str | None = None) -> AbstractContextManager[object]:
        """Turn errors of the database into RVT-404."""
        return self.base.database.translate_write_errors(f"the environment {name}" if name else "its environments")

    def sweep_remains(self, oldest: datetime) -> Iterable[str]:
        """Remove nothing: the state goes last."""
        return ()
