"""The environments of a Nessie catalog: each is a branch of the server, made of the branch ``ref``.

Each table is merged by itself, and all in one commit, which is made upon the state of the base that was judged: Nessie
refuses it if the base of one of them has changed since.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.environments.catalog import StoredEnvironment
from rivet_dagster.catalogs.environments.state import MERGING, BuiltTable, merged_environment, moved_base
from rivet_dagster.catalogs.iceberg.access import NessieAccess
from rivet_dagster.catalogs.iceberg.environments.iceberg_environments import IcebergEnvironments
from rivet_dagster.catalogs.iceberg.environments.nessie.branch import (
    BranchState,
    EnvironmentBranch,
    branches_of,
    tags_of,
)
from rivet_dagster.catalogs.iceberg.environments.nessie.tables import NessieEnvironmentTables
from rivet_dagster.catalogs.iceberg.nessie.run_branch import RunBranch, branches_of_runs, branches_without_base
from rivet_dagster.catalogs.iceberg.nessie.server import Key, NessieConflictError
from rivet_dagster.model.storage import Published

_PROPERTY = "rivet.environment"
_TRIES = 10


@dataclass(frozen=True)
class NessieEnvironment(StoredEnvironment):
    """An environment on a branch of the server, which sees ``tables``, and which is merged into the ``base``."""

    base: HasTargets
    tables: NessieEnvironmentTables

    @property
    def environment(self) -> EnvironmentBranch:
        """The branch, which holds the state."""
        return self.tables.environment

    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment."""
        state = self.environment.state()
        is_published = state is not None and self.is_published(state)
        return tuple(self._described(name, is_published) for name in self.tables.built_names())

    def is_alive(self) -> bool:
        """Return whether a run that is alive, or has just died, writes in the environment."""
        return any(branch.is_alive() for branch in self._branches_of_runs())

    def is_published(self, state: BranchState) -> bool:
        """Return whether the commit of the merge is in the base."""
        environment = self.environment
        return state.state == MERGING and environment.server.has_commit(
            environment.base, _PROPERTY, self._mark(state), state.base
        )

    def published_before(self) -> tuple[Published, ...]:
        """Return the versions of the base."""
        return self._versions(self.tables.built_names())

    def publish(self, tables: Sequence[BuiltTable], state: BranchState) -> tuple[Published, ...]:
        """Publish all tables in one commit."""
        names = [table.table for table in tables]
        if names:
            self._commit(names, state)
        return self._versions(names)

    def end(self, state: BranchState) -> None:
        """Leave a tag at the commit of the merge, and remove the branch."""
        server = self.environment.server
        server.make(self.environment.merged_ref, server.reference(self.environment.base), "TAG")
        self.remove_data(state)

    def remove_data(self, state: BranchState | None = None) -> bool:
        """Remove the branch of the environment, and those of runs there; return whether there was one."""
        was_there = self.environment.server.remove(self.environment.ref)
        for branch in self._branches_of_runs():
            branch.remove()
        return was_there

    def drop(self) -> bool:
        """Remove the branch; the files that it alone names are left to Nessie's garbage collection."""
        if self.environment.is_merged():
            raise merged_environment(self.environment.name)
        return self.remove_data()

    def remove_state(self) -> None:
        """Remove the tag of a merged environment."""
        self.environment.server.remove(self.environment.merged_ref)

    def _branches_of_runs(self) -> list[RunBranch]:
        return list(branches_of_runs(self.tables.base.nessie.at(self.environment.ref)))

    def _versions(self, names: Iterable[str]) -> tuple[Published, ...]:
        versions = (self.base.current(name) for name in names)
        return tuple(version for version in versions if version is not None)

    def _commit(self, names: Sequence[str], state: BranchState) -> None:
        from rivet_dagster.catalogs.iceberg.environments.nessie.merged_tables import TableMerge

        environment, server = self.environment, self.environment.server
        message, properties = f"Merge the environment {environment.name}", {_PROPERTY: self._mark(state)}
        for _ in range(_TRIES):
            base = server.reference(environment.base)
            self.refuse_moved(self.built())  # until the base was at that hash
            merge = TableMerge(self.tables.base.nessie, environment, base)
            try:
                operations = merge.operations(self._keys(names))
                server.commit(base, message, operations, properties)
                return
            except NessieConflictError:  # others have changed one of the tables, or the answer was lost
                if self.is_published(replace(state, state=MERGING)):
                    return
                merge.discard()
        raise moved_base(environment.name, names)

    def _keys(self, names: Iterable[str]) -> list[Key]:
        """Return the keys to merge: of the tables, and of their error tables."""
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import error_tables

        keys: dict[Key, None] = {}
        for name in names:
            for each in (name, *error_tables(self.tables.access.load(name))):
                keys[self.tables.access.table_name(each).identifier] = None
        return list(keys)

    def _mark(self, state: BranchState) -> str:
        return f"{self.environment.name} {state.token}"

    def _described(self, name: str, is_published: bool) -> BuiltTable:
        from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import current_version, same_files

        current, base = self.tables.catalog.current(name), self.tables.base_of(name)
        assert current is not None, "it was just found to be built"
        iceberg_table = self.tables.base.open(name).load_if_any()
        now = current_version(iceberg_table) if iceberg_table is not None else None
        moved = not is_published and str(now or "") != self.tables.seed_of(name).version
        there = self.tables.access.load(name)
        same = same_files(there, int(self.tables.seed_of(name).snapshot or 0), there.metadata.current_snapshot_id)
        return BuiltTable(name, base, current, moved, same)


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
