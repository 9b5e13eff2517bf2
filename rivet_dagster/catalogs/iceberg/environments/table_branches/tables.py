"""The tables that were built in an environment by branches, or that it alone has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.staging import StagedTransaction, StagesForRuns
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.environments.state import DROPPED
from rivet_dagster.catalogs.iceberg.access import TableAccess
from rivet_dagster.catalogs.iceberg.environments.iceberg_environments import IcebergEnvironmentTables
from rivet_dagster.catalogs.iceberg.environments.table_branches.record import (
    EnvironmentRecord,
    EnvironmentTable,
    Identifier,
)
from rivet_dagster.catalogs.iceberg.names import ENVIRONMENTS, TableName, identity_there
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.versions.heartbeat import sweep_dead
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    import pyiceberg.catalog
    from pyiceberg.table import Table

    from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_catalog import SeenCatalog


class BranchAccess(TableAccess):
    """The tables as the environment sees them by branches: those of the base, and those that it alone has.

    A table begins to have a branch with the first publication there. One that the base does not have is a table of its
    own, in a namespace where no reader of the base looks.
    """

    environment: str

    def __init__(self, base: TableAccess, environment: str) -> None:
        super().__init__(base.name, base.options, base.root)
        self.base = base
        self.environment = environment

    @property
    def record(self) -> EnvironmentRecord:
        """The record of the environment."""
        return EnvironmentRecord(self.base.catalog, self.name, self.environment)

    @cached_property
    def catalog(self) -> pyiceberg.catalog.Catalog:
        """The catalog, in which commits to tables of the base go to their branches."""
        return cast("pyiceberg.catalog.Catalog", self.seen)

    @cached_property
    def seen(self) -> SeenCatalog:
        """The catalog as the environment sees it."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_catalog import SeenCatalog

        def touched(identifier: Identifier) -> str:
            return self.record.add(EnvironmentTable(identifier))

        return SeenCatalog(self.base.catalog, self.environment, touched)

    def table_name(self, table: str) -> TableName:
        """Return the name under which the table is found: a table of its own unless the base has it."""
        return self.open(table).name

    def open(self, table: str) -> OpenedTable:
        """Return the table of the base, which has a branch of the environment, or the environment's own."""
        name = self.base.table_name(table)
        with self.reaching(table):
            return self.physical(name)

    def physical(self, name: TableName) -> OpenedTable:
        """Return what is a table of that name in the environment: the environment's own unless the base has it."""
        identifier = self.seen.own(name.identifier)
        if self.seen.real.table_exists(identifier) or not self.seen.real.table_exists(name.identifier):
            name = replace(name, namespace=identifier[:-1], name=identifier[-1])
        return OpenedTable(self.catalog, name, self.environment)

    def written(self) -> list[OpenedTable]:
        """Return the tables that were to be written there, error tables too."""
        state = self.record.state()
        tables = state.tables if state is not None else ()
        return [self.physical(self.plain_name(table.identifier)) for table in tables]

    def plain_name(self, identifier: Identifier) -> TableName:
        """Return the name of a table of the base."""
        return TableName(self.name, identifier[:-1], identifier[-1])


@dataclass(frozen=True)
class BranchTables(IcebergEnvironmentTables):
    """The tables that ``access`` opens; ``catalog`` finds these alone."""

    access: BranchAccess

    @property
    def name(self) -> str:
        """The name of the environment."""
        return self.access.environment

    @property
    def record(self) -> EnvironmentRecord:
        """The record of the environment."""
        return self.access.record

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import (
            SeenTable,
            built,
            snapshots_there,
        )
        from rivet_dagster.catalogs.iceberg.metadata.history import published_version
        from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import facts_of
        from rivet_dagster.catalogs.iceberg.metadata.summary import names_publisher

        iceberg_table = self.access.open(table).load_if_any()
        current = iceberg_table.current_snapshot() if iceberg_table is not None else None
        if iceberg_table is None or current is None:
            return None
        record = built(iceberg_table.real, self.name) if isinstance(iceberg_table, SeenTable) else None
        for snapshot in snapshots_there(
            iceberg_table, current.snapshot_id, record.snapshot if record is not None else None
        ):
            if names_publisher(facts_of(snapshot), identity):
                with self.access.reaching(table):
                    return replace(
                        published_version(iceberg_table, snapshot, self.base.name, table), environment=self.name
                    )
        return None

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any]) -> StagedTransaction:
        """Reopen a version that was staged in the environment."""
        self.require_open()
        return self.join(capable(self.catalog, StagesForRuns).take_up_staged(table, version, options))

    def evict(self, published: Published) -> None:
        """Remove what was built in the environment; a version of the base stays."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.removing import evict_from
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import error_tables
        from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import facts_of
        from rivet_dagster.catalogs.iceberg.metadata.summary import DATA_SNAPSHOT

        current = self.catalog.current(published.table) if self.is_built(published.table) else None
        if current is None or current.version != published.version:
            return
        iceberg_table = self.access.load(published.table)
        head = iceberg_table.current_snapshot()
        assert head is not None, "it is the current version"
        names = error_tables(iceberg_table)
        with self.access.reaching(published.table, "RVT-404"):
            if not evict_from(self.access.seen, self.base.table_name(published.table), head.snapshot_id):
                return  # another version has been published since
            for name in names:
                of = self.access.open(name).load_if_any()
                errors = of.current_snapshot() if of is not None else None
                if errors is not None and facts_of(errors).get(DATA_SNAPSHOT) == published.version:
                    evict_from(self.access.seen, self.base.table_name(name), errors.snapshot_id)

    def building(self) -> tuple[str, ...]:
        """Return what runs in the environment have staged, each as ``table/branch``."""
        from rivet_dagster.catalogs.iceberg.writes.sweeping import staged_by_runs

        with self.access.reaching():
            staged = (leftover.name for table in self.access.written() for leftover in staged_by_runs(table))
            return tuple(dict.fromkeys(staged))

    def sweep(self, failed: object = None) -> tuple[str, ...]:
        """Remove what dead runs in the environment have staged, and return it."""
        from rivet_dagster.catalogs.iceberg.writes.sweeping import staged_by_runs

        swept: list[str] = []
        alive: dict[str, bool] = {}
        with self.access.reaching(code="RVT-404"):
            for table in self.access.written():
                swept += sweep_dead(list(staged_by_runs(table)), alive)
        return tuple(dict.fromkeys(swept))

    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable, built
        from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS_OF

        opened = self.access.open(table)
        iceberg_table = opened.load_if_any()
        if iceberg_table is None:
            return False
        of = iceberg_table.metadata.properties.get(ERRORS_OF)
        if of is not None:
            return self.is_built(of)
        if isinstance(iceberg_table, SeenTable):
            return built(iceberg_table.real, self.name) is not None
        return opened.name.namespace == (ENVIRONMENTS,) and iceberg_table.current_snapshot() is not None

    def built_names(self) -> tuple[str, ...]:
        """Return the tables that were built there, as joints name them, without error tables."""
        state = self.record.state()
        declared = [table.declared for table in state.tables] if state is not None and state.state != DROPPED else []
        return tuple(name for name in declared if name and self.is_built(name))

    def base_snapshot(self, table: str, iceberg_table: Table) -> int | None:
        """Return the snapshot of the base that the environment's branch was made of."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable, built

        record = built(iceberg_table.real, self.name) if isinstance(iceberg_table, SeenTable) else None
        return record.snapshot if record is not None else None

    def exists(self) -> bool:
        """Return whether there is a record, and not one of a dropped environment."""
        state = self.record.state()
        return state is not None and state.state != DROPPED

    def require_open(self) -> None:
        """Raise RVT-415 unless the environment is open."""
        with self.access.reaching(code="RVT-404"):
            self.record.required()

    def prepare(self, table: str) -> None:
        """Record that the table is to be written. Raises RVT-404 if the base has something else of its name."""
        from rivet_dagster.catalogs.iceberg.writes.staged_table import locate_version

        with self.access.reaching(table, "RVT-404"):
            if not self.is_built(table):
                locate_version(self.base.open(table))
            self.record.add(EnvironmentTable(self.base.table_name(table).identifier, table))

    def announce(self, transaction: TableTransaction) -> None:
        """Have a transaction publish in the environment, and its heartbeat tell that a run writes there."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable
        from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction

        assert isinstance(transaction, IcebergTransaction)
        begin = transaction.beginning
        existing: Table | None = begin.location.existing
        natively = isinstance(existing, SeenTable) and not existing.is_laid_out_apart
        transaction.beginning = replace(begin, natively=natively, environment=self.name)
        identifier = self.base.table_name(transaction.table).identifier
        with self.access.reaching(transaction.table, "RVT-404"):
            transaction.send_heartbeats(identity_there(self.name))
            self.record.add(EnvironmentTable(identifier, transaction.table, begin.location.root))
