"""The catalog ``iceberg``, whose environments are branches: of the catalog on Nessie, of each table elsewhere."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.environments.errors import IcebergEnvironments
from rivet_dagster.catalogs.iceberg.environments.nessie.branch import EnvironmentBranch, branches_of, tags_of
from rivet_dagster.catalogs.iceberg.environments.nessie.merging import NessieEnvironment
from rivet_dagster.catalogs.iceberg.environments.nessie.tables import NessieEnvironmentTables
from rivet_dagster.catalogs.iceberg.environments.table_branches.catalog import HasBranchEnvironments
from rivet_dagster.catalogs.iceberg.nessie.run_branch import branches_without_base
from rivet_dagster.catalogs.iceberg.on_nessie import NessieTables
from rivet_dagster.catalogs.iceberg.settings.options import NESSIE
from rivet_dagster.model.profile import CatalogSpec


class IcebergCatalog(IcebergTables):
    """Tables of Apache Iceberg; on Nessie it is a ``NessieIcebergCatalog``, else a ``BranchIcebergCatalog``."""

    def __new__(cls, spec: CatalogSpec, root: Path) -> IcebergCatalog:
        """Return a catalog with the capabilities of its kind."""
        of_kind = NessieIcebergCatalog if spec.options.get("catalog") == NESSIE else BranchIcebergCatalog
        return super().__new__(of_kind if cls is IcebergCatalog else cls)


class BranchIcebergCatalog(HasBranchEnvironments, IcebergCatalog):
    """Tables of Apache Iceberg in a catalog whose tables have branches; an environment is one of each table."""


class NessieIcebergCatalog(IcebergEnvironments, IcebergCatalog, NessieTables):
    """Tables of Apache Iceberg in Nessie; an environment is a branch of the server, made of the branch ``ref``."""

    def in_environment(self, name: str) -> NessieEnvironmentTables:
        """Return the tables with those of the environment's branch in front."""
        return NessieEnvironmentTables(self, EnvironmentBranch(self._nessie.server, self._nessie.ref, name))

    def stored_environment(self, name: str) -> NessieEnvironment:
        """Return the environment on the branch of its name."""
        return NessieEnvironment(self, self.in_environment(name))

    def environment_names(self) -> list[str]:
        """Return those that have a branch."""
        prefix = branches_of(self._nessie.ref)
        return sorted(name.removeprefix(prefix) for name, _ in self._nessie.server.references(prefix))

    def sweep_remains(self, oldest: datetime) -> list[str]:
        """Remove branches of runs whose environment is gone, and the tags of environments that were merged long ago."""
        removed = []
        for branch in list(branches_without_base(self._nessie, branches_of(self._nessie.ref))):
            branch.remove()
            removed.append(branch.name)
        server = self._nessie.server
        for tag, at in list(server.references(tags_of(self._nessie.ref))):
            if datetime.fromisoformat(at) < oldest:
                server.remove(tag)
        return removed

    def building(self) -> tuple[str, ...]:
        """Return the branches and staging tables of runs, also in environments."""
        return (*super().building(), *self.building_in_environments())
