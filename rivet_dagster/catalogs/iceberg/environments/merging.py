"""Merging: publishing the tables that were built in an environment to the base, in one commit, which ends it.

Nessie's own merge would refuse a table that the environment took over from the base after it was made. So a branch is
made at the base as it is now, the tables that were judged are put there whatever it has, and it is merged into the
base: that Nessie refuses if the base of one of them has moved since it was judged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rivet_dagster.catalogs.capabilities.environment_errors import moved, written_by_a_run
from rivet_dagster.catalogs.capabilities.environments import BuiltTable
from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.environments.branch import MERGING, OPEN, EnvironmentBranch, State
from rivet_dagster.catalogs.iceberg.environments.tables import EnvironmentTables, heartbeat_name
from rivet_dagster.catalogs.iceberg.heartbeat import heartbeats_of
from rivet_dagster.catalogs.iceberg.names import key_of
from rivet_dagster.catalogs.iceberg.nessie.server import Key, NessieConflictError, NessieServer, Reference
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published

_PROPERTY = "rivet.environment"


@dataclass(frozen=True)
class Merge:
    """The merge of the environment that sees ``tables`` into the ``base``."""

    base: IcebergTables
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
        server.remove(environment.merging_ref)
        server.remove(environment.ref)
        return published

    def is_alive(self) -> bool:
        """Return whether a run that is alive, or has just died, writes in the environment."""
        from pyiceberg.io import load_file_io

        own = re.compile(re.escape(key_of(heartbeat_name(self.environment))) + "[0-9a-f]{8}(_[0-9]+)?")
        locations = {seed.location for seed in self.environment.seeds()} - {""}
        found = (
            heartbeat
            for location in sorted(locations)
            for heartbeat in heartbeats_of(load_file_io(self.base._catalog.properties, location), location)
        )
        return any(own.fullmatch(heartbeat.key) and heartbeat.is_alive() for heartbeat in found)

    def _refuse(self) -> None:
        if self.is_alive():
            raise written_by_a_run(self.environment.name)
        self._refuse_if_moved()

    def _refuse_if_moved(self) -> None:
        others = [table.table for table in self.built() if table.moved]
        if others:
            raise moved(self.environment.name, others)

    def _publish(self, names: tuple[str, ...], state: State) -> None:
        environment, server = self.environment, self.environment.server
        source, base = server.reference(environment.ref), server.reference(environment.base)
        self._refuse_if_moved()  # until the base was at that hash
        server.remove(environment.merging_ref)
        server.make(environment.merging_ref, base)
        message = f"Merge the environment {environment.name}"
        into = Reference(environment.merging_ref, base.hash)
        server.merge(into, source, message, {}, self._keys(names, base, server))
        try:
            properties = {_PROPERTY: self._mark(state)}
            server.merge(
                server.reference(environment.base), server.reference(environment.merging_ref), message, properties
            )
        except NessieConflictError as error:
            raise moved(environment.name, names) from error

    def _keys(self, names: tuple[str, ...], base: Reference, server: NessieServer) -> list[Key]:
        """Return the keys to merge: of the tables, of their error tables, and of namespaces that the base lacks."""
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import error_tables

        keys: dict[Key, None] = {}
        for name in names:
            for each in (name, *error_tables(self.tables._required(name))):
                keys[self.tables._name(each).identifier] = None
        there = self.environment.contents(list(keys))
        tables = [key for key in keys if key in there]
        above = list(dict.fromkeys(key[:length] for key in tables for length in range(1, len(key))))
        known = server.contents(f"{base.name}@{base.hash}", above)[1]
        return [*tables, *(key for key in above if key not in known)]

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
