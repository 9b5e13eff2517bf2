"""The environments of a catalog whose tables have branches: each is a branch of every table that was built there."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rivet_dagster.catalogs.iceberg.environments.iceberg_environments import IcebergEnvironments
from rivet_dagster.catalogs.iceberg.environments.table_branches.merging import BranchEnvironment
from rivet_dagster.catalogs.iceberg.environments.table_branches.record import all_records
from rivet_dagster.catalogs.iceberg.environments.table_branches.tables import BranchAccess, BranchTables
from rivet_dagster.catalogs.iceberg.names import is_of_environment
from rivet_dagster.catalogs.iceberg.opened import has_table_of_environment


@dataclass(frozen=True)
class BranchEnvironments(IcebergEnvironments):
    """The records of environments, each of which names its tables."""

    def stored(self, name: str) -> BranchEnvironment:
        """Return the environment that has the record of its name."""
        access = BranchAccess(self.access, name)
        return BranchEnvironment(self.base, BranchTables(self.access, access, self.through(access)))

    def names(self) -> list[str]:
        """Return those that have a record."""
        return [record.name for record in all_records(self.access.catalog, self.access.name)]

    def sweep_remains(self, oldest: datetime) -> list[str]:
        """Remove the tables of environments that have no record any more."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.removing import remove_remains

        return remove_remains(
            self.access.catalog, self.access.name, lambda name: self.stored(name).environment.state() is None
        )

    def needs(self, table: str) -> bool:
        """Return whether environments have branches of the table, or files among its files."""
        opened = self.access.open(table)
        with self.access.reaching(table, "RVT-404"):
            found = opened.load_if_any()
            is_branched = found is not None and any(map(is_of_environment, found.metadata.refs))
            return is_branched or has_table_of_environment(opened)
