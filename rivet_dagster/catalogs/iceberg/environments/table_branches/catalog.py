"""Environments by branches of tables: the capability of catalogs whose server has no branches itself."""

from __future__ import annotations

from datetime import datetime

from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.environments.errors import IcebergEnvironments
from rivet_dagster.catalogs.iceberg.environments.table_branches.merging import BranchEnvironment
from rivet_dagster.catalogs.iceberg.environments.table_branches.record import all_records
from rivet_dagster.catalogs.iceberg.environments.table_branches.tables import BranchTables
from rivet_dagster.catalogs.iceberg.names import is_of_environment
from rivet_dagster.catalogs.iceberg.tables_of_environments import has_table_of_environment
from rivet_dagster.model.storage import Published


class HasBranchEnvironments(IcebergEnvironments, IcebergTables):
    """Tables of Apache Iceberg; an environment is a branch of each table that was built there."""

    def in_environment(self, name: str) -> BranchTables:
        """Return the tables with those of the environment in front."""
        return BranchTables(self, name)

    def stored_environment(self, name: str) -> BranchEnvironment:
        """Return the environment that has the record of its name."""
        return BranchEnvironment(self, self.in_environment(name))

    def environment_names(self) -> list[str]:
        """Return those that have a record."""
        return [record.name for record in all_records(self._catalog, self.name)]

    def sweep_remains(self, oldest: datetime) -> list[str]:
        """Remove the tables of environments that have no record any more."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.removing import remove_remains

        def is_over(name: str) -> bool:
            return self.stored_environment(name).environment.state() is None

        return remove_remains(self._catalog, self.name, is_over)

    def evict(self, published: Published) -> None:
        """Drop the table, unless environments have branches of it, or files among its files."""
        opened = self._opened(published.table)
        with self._reaching(published.table, "RVT-404"):
            found = opened.load_if_any()
            is_used = found is not None and any(map(is_of_environment, found.metadata.refs))
            if is_used or has_table_of_environment(opened):
                return
        super().evict(published)

    def building(self) -> tuple[str, ...]:
        """Return the branches and staging tables of runs, also in environments."""
        return (*super().building(), *self.building_in_environments())
