"""The environments of a Nessie catalog: each is a branch of the server, made of the branch ``ref``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rivet_dagster.catalogs.iceberg.access import NessieAccess
from rivet_dagster.catalogs.iceberg.environments.iceberg_environments import IcebergEnvironments
from rivet_dagster.catalogs.iceberg.environments.nessie.branch import EnvironmentBranch, branches_of, tags_of
from rivet_dagster.catalogs.iceberg.environments.nessie.merging import NessieEnvironment
from rivet_dagster.catalogs.iceberg.environments.nessie.tables import NessieEnvironmentTables
from rivet_dagster.catalogs.iceberg.nessie.run_branch import branches_without_base


@dataclass(frozen=True)
class NessieEnvironments(IcebergEnvironments):
    """The branches of environments."""

    access: NessieAccess

    def stored(self, name: str) -> NessieEnvironment:
        """Return the environment on the branch of its name."""
        branch = EnvironmentBranch(self.access.nessie.server, self.access.nessie.ref, name)
        there = self.access.at(name, branch.ref)
        return NessieEnvironment(self.base, NessieEnvironmentTables(self.access, there, self.through(there), branch))

    def names(self) -> list[str]:
        """Return those that have a branch."""
        prefix = branches_of(self.access.nessie.ref)
        return sorted(name.removeprefix(prefix) for name, _ in self.access.nessie.server.references(prefix))

    def sweep_remains(self, oldest: datetime) -> list[str]:
        """Remove branches of runs whose environment is gone, and the tags of environments that were merged long ago."""
        removed, nessie = [], self.access.nessie
        for branch in list(branches_without_base(nessie, branches_of(nessie.ref))):
            branch.remove()
            removed.append(branch.name)
        for tag, at in list(nessie.server.references(tags_of(nessie.ref))):
            if datetime.fromisoformat(at) < oldest:
                nessie.server.remove(tag)
        return removed
