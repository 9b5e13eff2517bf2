"""Code shared by the environments of Iceberg catalogs, whatever their branches are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.capabilities.targets import HasTargets, VersionTransaction
from rivet_dagster.catalogs.environments.catalog import EnvironmentStorage
from rivet_dagster.catalogs.environments.tables_over_base import EnvironmentTables
from rivet_dagster.catalogs.iceberg.access import TableAccess
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    from pyiceberg.table import Table

Through = Callable[[TableAccess], HasTargets]
"""A function that returns the catalog of the tables that an access opens."""


@dataclass(frozen=True)
class IcebergEnvironments(EnvironmentStorage):
    """The environments of the catalog ``base``, whose tables ``access`` opens."""

    base: HasTargets
    access: TableAccess
    through: Through

    def looking(self) -> AbstractContextManager[None]:
        """Turn errors of PyIceberg, and of what it uses, into RVT-403."""
        return self.access.reaching()

    def changing(self, name: str | None = None) -> AbstractContextManager[None]:
        """Turn errors of PyIceberg, and of what it uses, into RVT-404."""
        return self.access.reaching(code="RVT-404")


@dataclass(frozen=True)
class IcebergEnvironmentTables(EnvironmentTables):
    """Tables of an environment, which ``access`` opens, as ``base`` opens those of the base."""

    base: TableAccess
    access: TableAccess
    catalog: HasTargets

    @abstractmethod
    def base_snapshot(self, table: str, iceberg_table: Table) -> int | None:
        """Return the snapshot of the base that a table of the environment builds upon, None if there is none."""

    def base_of(self, table: str) -> Published | None:
        """Return the version of the base that a table of the environment builds upon."""
        from rivet_dagster.catalogs.iceberg.metadata.history import published_version

        iceberg_table = self.access.load(table)
        snapshot = iceberg_table.snapshot_by_id(self.base_snapshot(table, iceberg_table) or 0)
        if snapshot is None:
            return None
        with self.access.reaching(table):
            return replace(published_version(iceberg_table, snapshot, self.base.name, table), environment=self.name)

    def tables(self, prefix: str) -> list[str]:
        """Return the tables of the default namespace that were built there, or those of the prefix's namespace."""
        given = prefix.rpartition(".")[0]
        namespace = self.base.table_name(f"{prefix}x").namespace
        built = [self.base.table_name(name) for name in self.built_names()]
        names = [f"{given}.{name.name}" if given else name.name for name in built if name.namespace == namespace]
        return [name for name in names if name.startswith(prefix)]

    def withhold_staged(self, table: str, version: str) -> None:
        """Replace the mark of a version that was staged in the environment, and mark its errors."""
        transaction = self.take_up_staged(table, version, {})
        assert isinstance(transaction, VersionTransaction)
        transaction.withhold()
