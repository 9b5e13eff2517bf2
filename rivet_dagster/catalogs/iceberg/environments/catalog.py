"""The catalog ``iceberg``, whose environments are branches: of the catalog on Nessie, of each table elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from rivet_dagster.catalogs.capabilities.environment_errors import of_another_profile
from rivet_dagster.catalogs.capabilities.environments import (
    ABANDONED_AFTER,
    BuiltTable,
    Environment,
    HasEnvironments,
)
from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.environments.branch import MERGING, EnvironmentBranch, branches_of, tags_of
from rivet_dagster.catalogs.iceberg.environments.branches.catalog import HasBranchEnvironments
from rivet_dagster.catalogs.iceberg.environments.merging import Merge
from rivet_dagster.catalogs.iceberg.environments.tables import EnvironmentTables
from rivet_dagster.catalogs.iceberg.nessie.run_branch import branches_without_base
from rivet_dagster.catalogs.iceberg.on_nessie import NessieTables
from rivet_dagster.catalogs.iceberg.reaching import reaching
from rivet_dagster.catalogs.iceberg.settings.options import NESSIE
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.storage import Published


class IcebergCatalog(IcebergTables):
    """Tables of Apache Iceberg; on Nessie it is a ``NessieIcebergCatalog``, else a ``BranchIcebergCatalog``."""

    def __new__(cls, spec: CatalogSpec, root: Path) -> IcebergCatalog:
        """Return a catalog with the capabilities of its kind."""
        of_kind = NessieIcebergCatalog if spec.options.get("catalog") == NESSIE else BranchIcebergCatalog
        return super().__new__(of_kind if cls is IcebergCatalog else cls)


class BranchIcebergCatalog(HasBranchEnvironments, IcebergCatalog):
    """Tables of Apache Iceberg in a catalog whose tables have branches; an environment is one of each table."""


class NessieIcebergCatalog(IcebergCatalog, NessieTables, HasEnvironments):
    """Tables of Apache Iceberg in Nessie; an environment is a branch of the server, made of the branch ``ref``."""

    def in_environment(self, name: str) -> EnvironmentTables:
        """Return the tables with those of the environment's branch in front."""
        return EnvironmentTables(self, self._environment(name))

    def use_environment(self, name: str, profile: str) -> None:
        """Make the branch at the base as it is now, unless there is one."""
        with reaching(self.name, code="RVT-404"):
            environment = self._environment(name)
            if environment.state() is None and not environment.is_merged():
                environment.create(profile)
            state = environment.required()
            if state.profile != profile:
                raise of_another_profile(name, state.profile, profile)
            environment.use(state)

    def environments(self) -> tuple[Environment, ...]:
        """Return those that have a branch."""
        with reaching(self.name):
            described = (self._described(name) for name in self._names())
            return tuple(environment for environment in described if environment is not None)

    def is_merged(self, name: str) -> bool:
        """Return whether there is the tag that a merge leaves."""
        with reaching(self.name):
            environment = self._environment(name)
            return environment.is_merged() and environment.state() is None

    def built(self, name: str) -> tuple[BuiltTable, ...]:
        """Return the tables whose snapshot on the branch is not the one that was taken over from the base."""
        with reaching(self.name):
            return self._merge(name).built()

    def merge(self, name: str) -> tuple[Published, ...]:
        """Publish all tables in one commit of Nessie."""
        with reaching(self.name, code="RVT-404"):
            return self._merge(name).finish()

    def drop(self, name: str) -> bool:
        """Remove the branch; the files that it alone names are left to Nessie's garbage collection."""
        with reaching(self.name, code="RVT-404"):
            environment = self._environment(name)
            if environment.state() is None and environment.is_merged():
                environment.required()
            return self._merge(name).remove()

    def sweep_environments(self, unused_for: timedelta = ABANDONED_AFTER) -> tuple[str, ...]:
        """Remove them, and what dead runs left in the others, each as ``environment/table/branch``."""
        removed: list[str] = []
        oldest = datetime.now(UTC) - unused_for
        with reaching(self.name, code="RVT-404"):
            for name in self._names():
                merge = self._merge(name)
                state = merge.environment.state()
                if state is not None:
                    removed += [f"{name}/{version}" for version in merge.tables.sweep()]
                    if datetime.fromisoformat(state.used_at) < oldest and not merge.is_alive() and self.drop(name):
                        removed.append(name)
            for branch in list(branches_without_base(self._nessie, branches_of(self._nessie.ref))):
                branch.remove()
                removed.append(branch.name)
            server = self._nessie.server
            for tag, at in list(server.references(tags_of(self._nessie.ref))):
                if datetime.fromisoformat(at) < oldest:
                    server.remove(tag)
        return tuple(removed)

    def building(self) -> tuple[str, ...]:
        """Return the branches and staging tables of runs, also in environments."""
        there = ((name, version) for name in self._names() for version in self.in_environment(name).building())
        return (*super().building(), *(f"{name}/{version}" for name, version in there))

    def _described(self, name: str) -> Environment | None:
        merge = self._merge(name)
        state = merge.environment.state()
        if state is None:
            return None
        tables = tuple(sorted(merge.tables.built_names()))
        return Environment(name, state.profile, state.created_at, state.used_at, tables, state.state == MERGING)

    def _names(self) -> list[str]:
        prefix = branches_of(self._nessie.ref)
        return sorted(name.removeprefix(prefix) for name, _ in self._nessie.server.references(prefix))

    def _environment(self, name: str) -> EnvironmentBranch:
        return EnvironmentBranch(self._nessie.server, self._nessie.ref, name)

    def _merge(self, name: str) -> Merge:
        return Merge(self, self.in_environment(name))
