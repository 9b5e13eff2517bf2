"""The tables of the catalog as an environment sees them by branches: those built there, and the base's otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.environments.state import DROPPED
from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.environments.table_branches.record import (
    EnvironmentRecord,
    EnvironmentTable,
    Identifier,
    RecordedState,
)
from rivet_dagster.catalogs.iceberg.environments.tables_over_base import TablesInFront
from rivet_dagster.catalogs.iceberg.names import ENVIRONMENTS, TableName, identity_there
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    import pyiceberg.catalog
    from pyiceberg.table import Table

    from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_catalog import SeenCatalog
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction


class BranchTables(TablesInFront):
    """The tables with the branches of the environment ``name``, in front of those of the ``base``.

    A table begins to have a branch with the first publication there. One that the base does not have is a table of its
    own, in a namespace where no reader of the base looks.
    """

    def __init__(self, base: IcebergTables, name: str) -> None:
        super().__init__(CatalogSpec(base.name, base.type, base._options), base._root)
        self._base = base
        self._environment = name

    @property
    def environment_name(self) -> str:
        """The name of the environment."""
        return self._environment

    @property
    def record(self) -> EnvironmentRecord:
        """The record of the environment."""
        return EnvironmentRecord(self._base._catalog, self.name, self._environment)

    def state(self) -> RecordedState | None:
        """Return what is recorded of the environment; None if there is none."""
        found = self.record.state()
        return None if found is None or found.state == DROPPED else found

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import (
            SeenTable,
            built,
            snapshots_there,
        )
        from rivet_dagster.catalogs.iceberg.metadata.history import published
        from rivet_dagster.catalogs.iceberg.metadata.same_rows import facts_of
        from rivet_dagster.catalogs.iceberg.metadata.summary import IDENTITY, MADE_BY

        found = self._opened(table).load_if_any()
        current = found.current_snapshot() if found is not None and self.is_built(table) else None
        if found is None or current is None:
            return None
        record = built(found.real, self._environment) if isinstance(found, SeenTable) else None
        for snapshot in snapshots_there(found, current.snapshot_id, record.snapshot if record is not None else None):
            facts = facts_of(snapshot)
            if identity and identity in (facts.get(IDENTITY), facts.get(MADE_BY)):
                with self._reaching(table):
                    return self._own(published(found, snapshot, self.name, table))
        return None

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version that a run in the environment has staged."""
        staged = super().staged_by(table, identity)
        return None if staged is None else self._own(staged)

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS) -> IcebergTransaction:
        """Reopen a version that was staged in the environment."""
        with self._reaching(table, "RVT-404"):
            self._require()
        return self._alive(super().take_up_staged(table, version, options))

    def evict(self, published: Published) -> None:
        """Remove what was built in the environment; a version of the base stays."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.removing import evict_from
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import error_tables
        from rivet_dagster.catalogs.iceberg.metadata.same_rows import facts_of
        from rivet_dagster.catalogs.iceberg.metadata.summary import DATA_SNAPSHOT

        current = self.current(published.table)
        if not self._is_own(published) or current is None or current.version != published.version:
            return
        found = self._required(published.table)
        head = found.current_snapshot()
        assert head is not None, "it is the current version"
        names = error_tables(found)
        with self._reaching(published.table, "RVT-404"):
            if not evict_from(self._seen, self._base._name(published.table), head.snapshot_id):
                return  # another version has been published since
            for name in names:
                of = self._opened(name).load_if_any()
                errors = of.current_snapshot() if of is not None else None
                if errors is not None and facts_of(errors).get(DATA_SNAPSHOT) == published.version:
                    evict_from(self._seen, self._base._name(name), errors.snapshot_id)

    def building(self) -> tuple[str, ...]:
        """Return what runs in the environment have staged, each as ``table/branch``."""
        from rivet_dagster.catalogs.iceberg.writes.sweeping import staged_by_runs

        with self._reaching(""):
            staged = (leftover.name for table in self.written() for leftover in staged_by_runs(table))
            return tuple(dict.fromkeys(staged))

    def sweep(self, failed: object = None) -> tuple[str, ...]:
        """Remove what dead runs in the environment have staged, and return it."""
        from rivet_dagster.catalogs.iceberg.writes.sweeping import staged_by_runs

        swept = []
        alive: dict[str, bool] = {}
        with self._reaching("", "RVT-404"):
            for table in self.written():
                for leftover in list(staged_by_runs(table)):
                    is_dead = not alive.setdefault(leftover.heartbeat.path, leftover.heartbeat.is_alive())
                    if is_dead and leftover.remove():
                        swept.append(leftover.name)
        return tuple(dict.fromkeys(swept))

    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable, built
        from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS_OF

        opened = self._opened(table)
        found = opened.load_if_any()
        if found is None:
            return False
        of = found.metadata.properties.get(ERRORS_OF)
        if of is not None:
            return self.is_built(of)
        if isinstance(found, SeenTable):
            return built(found.real, self._environment) is not None
        return opened.name.namespace == (ENVIRONMENTS,) and found.current_snapshot() is not None

    def built_names(self) -> tuple[str, ...]:
        """Return the tables that were built there, as joints name them, without error tables."""
        state = self.state()
        declared = [written.declared for written in state.tables] if state is not None else []
        return tuple(name for name in declared if name and self.is_built(name))

    def base_of(self, table: str) -> Published | None:
        """Return the version of the base that a table of the environment builds upon."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable, built
        from rivet_dagster.catalogs.iceberg.metadata.history import published

        found = self._required(table)
        record = built(found.real, self._environment) if isinstance(found, SeenTable) else None
        snapshot = found.snapshot_by_id(record.snapshot or 0) if record is not None else None
        if snapshot is None:
            return None
        with self._reaching(table):
            return self._own(published(found, snapshot, self.name, table))

    def written(self) -> list[OpenedTable]:
        """Return the tables that were to be written there, error tables too."""
        state = self.record.state()
        return [self._physical(self._plain(table.identifier)) for table in (state.tables if state is not None else ())]

    def _require(self) -> None:
        self.record.required()

    def _exists(self) -> bool:
        return self.state() is not None

    def _prepare(self, table: str) -> None:
        """Record that the table is to be written. Raises RVT-404 if the base has something else of its name."""
        from rivet_dagster.catalogs.iceberg.writes.staged_table import place_of

        if not self.is_built(table):
            place_of(self._base._opened(table))
        self.record.add(EnvironmentTable(self._base._name(table).identifier, table))

    def _alive(self, transaction: IcebergTransaction) -> IcebergTransaction:
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable

        begin = transaction.beginning
        existing: Table | None = begin.place.existing
        natively = isinstance(existing, SeenTable) and not existing.is_laid_out_apart
        transaction.beginning = replace(begin, natively=natively, environment=self._environment)
        identifier = self._base._name(transaction.table).identifier
        with self._reaching(transaction.table, "RVT-404"):
            transaction._alive(identity_there(self._environment))
            try:
                self.record.add(EnvironmentTable(identifier, transaction.table, begin.place.location))
                self.record.required()
            except RivetError:
                transaction.abort()
                raise
        return transaction

    @cached_property
    def _catalog(self) -> pyiceberg.catalog.Catalog:
        return cast("pyiceberg.catalog.Catalog", self._seen)

    @cached_property
    def _seen(self) -> SeenCatalog:
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_catalog import SeenCatalog

        return SeenCatalog(self._base._catalog, self._environment, self._touched)

    def _touched(self, identifier: Identifier) -> str:
        return self.record.add(EnvironmentTable(identifier))

    def _name(self, table: str) -> TableName:
        """Return the name under which the table is found: a table of its own unless the base has it."""
        return self._opened(table).name

    def _opened(self, table: str) -> OpenedTable:
        name = self._base._name(table)
        with self._reaching(table):
            return self._physical(name)

    def _physical(self, name: TableName) -> OpenedTable:
        seen = self._seen
        own = seen.own(name.identifier)
        if seen.real.table_exists(own) or not seen.real.table_exists(name.identifier):
            name = replace(name, namespace=own[:-1], name=own[-1])
        return OpenedTable(self._catalog, name, self._environment)

    def _plain(self, identifier: Identifier) -> TableName:
        return TableName(self.name, identifier[:-1], identifier[-1])
