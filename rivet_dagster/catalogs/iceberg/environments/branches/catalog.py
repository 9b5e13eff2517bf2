"""Environments by branches of tables: the capability of catalogs whose server has no branches itself."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from rivet_dagster.catalogs.capabilities.environment_errors import merged, of_another_profile
from rivet_dagster.catalogs.capabilities.environments import (
    ABANDONED_AFTER,
    BuiltTable,
    Environment,
    HasEnvironments,
)
from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.environments.branches.merging import Merge
from rivet_dagster.catalogs.iceberg.environments.branches.record import (
    DROPPED,
    MERGED,
    OPEN,
    EnvironmentRecord,
    all_records,
)
from rivet_dagster.catalogs.iceberg.environments.branches.tables import BranchTables
from rivet_dagster.catalogs.iceberg.names import is_of_environment
from rivet_dagster.catalogs.iceberg.reaching import reaching
from rivet_dagster.catalogs.iceberg.tables_of_environments import has_table_of_environment
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published


class HasBranchEnvironments(IcebergTables, HasEnvironments):
    """Tables of Apache Iceberg; an environment is a branch of each table that was built there."""

    def in_environment(self, name: str) -> BranchTables:
        """Return the tables with those of the environment in front."""
        return BranchTables(self, name)

    def use_environment(self, name: str, profile: str) -> None:
        """Make the record of the environment; its tables have no branch before they are published there."""
        with reaching(self.name, code="RVT-404"):
            record = self._record(name)
            state = record.state()
            if state is not None and state.state == DROPPED:
                if not self._finish_drop(name):
                    message = f"the environment '{name}' is being removed: a commit of its merge may still be under way"
                    raise RivetError("RVT-417", message, remediation="Take another name, or wait for a day.")
                state = None
            if state is None:
                self._remove_remains({name})
                record.create(profile)
            state = record.required()
            if state.profile != profile:
                raise of_another_profile(name, state.profile, profile)
            record.use(state)

    def environments(self) -> tuple[Environment, ...]:
        """Return those that have a record."""
        with reaching(self.name):
            described = [self._described(record) for record in all_records(self._catalog, self.name)]
        return tuple(environment for environment in described if environment is not None)

    def is_merged(self, name: str) -> bool:
        """Return whether the record says so."""
        with reaching(self.name):
            state = self._record(name).state()
        return state is not None and state.state == MERGED

    def built(self, name: str) -> tuple[BuiltTable, ...]:
        """Return the tables that have a branch of the environment, and those that it alone has."""
        with reaching(self.name):
            return self._merge(name).built()

    def merge(self, name: str) -> tuple[Published, ...]:
        """Publish one table after another, each in one commit that copies no data."""
        with reaching(self.name, code="RVT-404"):
            return self._merge(name).finish()

    def drop(self, name: str) -> bool:
        """Remove the branches and what they alone have. Raises RVT-417 while a merge is alive."""
        with reaching(self.name, code="RVT-404"):
            record = self._record(name)
            state = record.state()
            if state is None:
                return False
            if state.state == MERGED:
                raise merged(name)
            if self._merge(name).is_being_merged():
                message = f"the environment '{name}' is being merged"
                raise RivetError("RVT-417", message, remediation="Wait until the merge has ended, or a minute.")
            record.set(DROPPED)
            self._finish_drop(name)
        return True

    def sweep_environments(self, unused_for: timedelta = ABANDONED_AFTER) -> tuple[str, ...]:
        """Remove them, and what dead runs left in the others, each as ``environment/table/branch``."""
        removed: list[str] = []
        oldest = datetime.now(UTC) - unused_for
        with reaching(self.name, code="RVT-404"):
            removed += self._remove_remains()
            for record in list(all_records(self._catalog, self.name)):
                name, state, merge = record.name, record.state(), self._merge(record.name)
                if state is None:
                    continue
                is_old = datetime.fromisoformat(state.used_at) < oldest
                if state.state == DROPPED:
                    if self._finish_drop(name):
                        removed.append(name)
                elif state.state == MERGED:
                    if is_old:
                        record.remove()
                else:
                    removed += [f"{name}/{version}" for version in merge.tables.sweep()]
                    if is_old and not merge.is_alive() and not merge.is_being_merged() and self.drop(name):
                        removed.append(name)
        return tuple(removed)

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
        with reaching(self.name):
            names = [record.name for record in all_records(self._catalog, self.name)]
        there = ((name, version) for name in names for version in self.in_environment(name).building())
        return (*super().building(), *(f"{name}/{version}" for name, version in there))

    def _finish_drop(self, name: str) -> bool:
        """Remove the data of a dropped environment, then its record, unless something must stay for now."""
        record = self._record(name)
        state = record.state()
        if state is not None:
            if not self._merge(name).remove_data(state):
                return False
            record.remove()
        return True

    def _remove_remains(self, names: Collection[str] | None = None) -> list[str]:
        """Remove the tables of environments that have no record any more, of all or of those with these ``names``."""
        from rivet_dagster.catalogs.iceberg.environments.branches.removing import remove_remains

        def is_over(name: str) -> bool:
            return (names is None or name in names) and self._record(name).state() is None

        return remove_remains(self._catalog, self.name, is_over)

    def _described(self, record: EnvironmentRecord) -> Environment | None:
        state = record.state()
        if state is None or state.state in (MERGED, DROPPED):
            return None
        tables = tuple(sorted(self.in_environment(record.name).built_names()))
        is_merging = state.state != OPEN
        return Environment(record.name, state.profile, state.created_at, state.used_at, tables, is_merging)

    def _record(self, name: str) -> EnvironmentRecord:
        return EnvironmentRecord(self._catalog, self.name, name)

    def _merge(self, name: str) -> Merge:
        return Merge(self, self.in_environment(name))
