"""Merging: publishing the tables that were built in an environment to the base, in one commit, which ends it.

Each table is merged by itself, and the commit is made upon the state of the base that was judged: Nessie refuses it if
the base of one of them has changed since.
"""

from __future__ import annotations

from dataclasses import dataclass

from rivet_dagster.catalogs.capabilities.environment_errors import moved, written_by_a_run
from rivet_dagster.catalogs.capabilities.environments import BuiltTable
from rivet_dagster.catalogs.iceberg.environments.branch import MERGING, OPEN, EnvironmentBranch, State
from rivet_dagster.catalogs.iceberg.environments.tables import EnvironmentTables
from rivet_dagster.catalogs.iceberg.nessie.run_branch import RunBranch, branches_of_runs
from rivet_dagster.catalogs.iceberg.nessie.server import Key, NessieConflictError
from rivet_dagster.catalogs.iceberg.on_nessie import NessieTables
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published

_PROPERTY = "rivet.environment"
_TRIES = 10


@dataclass(frozen=True)
class Merge:
    """The merge of the environment that sees ``tables`` into the ``base``."""

    base: NessieTables
    tables: EnvironmentTables

    @property
    def environment(self) -> EnvironmentBranch:
        """The environment."""
        return self.tables.environment

    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment."""
        state = self.environment.state()
        is_published = state is not None and state.state == MERGING and self._is_published(state)
        return tuple(self._described(name, is_published) for name in self.tables.built_names())

    def finish(self) -> tuple[Published, ...]:
        """Merge, from wherever an earlier merge was interrupted. Raises what ``HasEnvironments.merge`` does."""
        environment = self.environment
        state = environment.required(OPEN, MERGING)
        names = self.tables.built_names()
        if not (state.state == MERGING and self._is_published(state)):
            environment.set(state=MERGING)
            try:
                self._refuse()
                if names:
                    self._publish(names, state)
            except RivetError as error:
                if error.code in ("RVT-405", "RVT-417"):  # there is something to do in the environment first
                    environment.set(state=OPEN)
                raise
        versions = (self.base.current(name) for name in names)
        published = tuple(version for version in versions if version is not None)
        server = environment.server
        server.make(environment.merged_ref, server.reference(environment.base), "TAG")
        self.remove()
        return published

    def remove(self) -> bool:
        """Remove the branch of the environment, and those of runs there; return whether there was one."""
        was_there = self.environment.server.remove(self.environment.ref)
        for branch in self._branches_of_runs():
            branch.remove()
        return was_there

    def is_alive(self) -> bool:
        """Return whether a run that is alive, or has just died, writes in the environment."""
        return any(branch.is_alive() for branch in self._branches_of_runs())

    def _branches_of_runs(self) -> list[RunBranch]:
        return list(branches_of_runs(self.base._nessie.at(self.environment.ref)))

    def _refuse(self) -> None:
        if self.is_alive():
            raise written_by_a_run(self.environment.name)
        self._refuse_if_moved()

    def _refuse_if_moved(self) -> None:
        others = [table.table for table in self.built() if table.moved]
        if others:
            raise moved(self.environment.name, others)

    def _publish(self, names: tuple[str, ...], state: State) -> None:
        from rivet_dagster.catalogs.iceberg.environments.merged_tables import TableMerge

        environment, server = self.environment, self.environment.server
        message, properties = f"Merge the environment {environment.name}", {_PROPERTY: self._mark(state)}
        for _ in range(_TRIES):
            base = server.reference(environment.base)
            self._refuse_if_moved()  # until the base was at that hash
            merge = TableMerge(self.base._nessie, environment, base)
            try:
                operations = merge.operations(self._keys(names))
                server.commit(base, message, operations, properties)
                return
            except NessieConflictError:  # others have changed one of the tables, or the answer was lost
                if self._is_published(state):
                    return
                merge.discard()
        raise moved(environment.name, names)

    def _keys(self, names: tuple[str, ...]) -> list[Key]:
        """Return the keys to merge: of the tables, and of their error tables."""
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import error_tables

        keys: dict[Key, None] = {}
        for name in names:
            for each in (name, *error_tables(self.tables._required(name))):
                keys[self.tables._name(each).identifier] = None
        return list(keys)

    def _is_published(self, state: State) -> bool:
        environment = self.environment
        return environment.server.has_commit(environment.base, _PROPERTY, self._mark(state), state.base)

    def _mark(self, state: State) -> str:
        return f"{self.environment.name} {state.token}"

    def _described(self, name: str, is_published: bool) -> BuiltTable:
        from rivet_dagster.catalogs.iceberg.metadata.same_files import same_files
        from rivet_dagster.catalogs.iceberg.metadata.same_rows import current_version

        current, base = self.tables.current(name), self.tables.base_of(name)
        assert current is not None, "it was just found to be built"
        found = self.base._opened(name).load_if_any()
        now = current_version(found) if found is not None else None
        moved = not is_published and str(now or "") != self.tables.seed_of(name).version
        there = self.tables._required(name)
        same = same_files(there, int(self.tables.seed_of(name).snapshot or 0), there.metadata.current_snapshot_id)
        return BuiltTable(name, base, current, moved, same)
