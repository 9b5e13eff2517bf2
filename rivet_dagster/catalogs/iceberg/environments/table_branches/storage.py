"""The environments of a catalog whose tables have branches: each is a branch of every table that was built there.

A merge publishes these tables to the base, one after another. The commit that publishes one also removes the
environment's branch of it, and has the branch and the base as they were judged as its condition: what an interrupted
merge has published is not built in the environment any more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.environments.catalog import StoredEnvironment
from rivet_dagster.catalogs.environments.state import DROPPED, MERGED, BuiltTable, merged_environment, moved_base
from rivet_dagster.catalogs.iceberg.commits.committing import OutcomeUnknownError
from rivet_dagster.catalogs.iceberg.environments.iceberg_environments import IcebergEnvironments
from rivet_dagster.catalogs.iceberg.environments.table_branches.record import (
    EnvironmentRecord,
    RecordedState,
    all_records,
)
from rivet_dagster.catalogs.iceberg.environments.table_branches.tables import BranchAccess, BranchTables
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat, heartbeats_of
from rivet_dagster.catalogs.iceberg.names import environment_of, identity_there, is_of_environment, key_of
from rivet_dagster.catalogs.iceberg.opened import has_table_of_environment
from rivet_dagster.catalogs.versions.heartbeat import send_heartbeats
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from rivet_dagster.catalogs.iceberg.metadata.summary import TextBounds
    from rivet_dagster.catalogs.iceberg.writes.errors import BegunWrite


@dataclass(frozen=True)
class BranchEnvironment(StoredEnvironment):
    """An environment by branches of tables, which sees ``tables``, and which is merged into the ``base``."""

    base: HasTargets
    tables: BranchTables

    @property
    def name(self) -> str:
        """The name of the environment."""
        return self.tables.name

    @property
    def environment(self) -> EnvironmentRecord:
        """The record, which holds the state."""
        return self.tables.record

    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment."""
        return tuple(self._described(name) for name in self.tables.built_names())

    @contextmanager
    def excluding_others(self, state: RecordedState) -> Iterator[None]:
        """Send heartbeats, for which a drop waits."""
        heartbeat = self._heartbeat(state)
        heartbeat.begin()
        try:
            with send_heartbeats(heartbeat.beat, self.name):
                yield
        finally:
            heartbeat.end()

    def publish(self, tables: Sequence[BuiltTable], state: RecordedState) -> tuple[Published, ...]:
        """Publish one table after another, those that were published first in front, each in one commit."""
        heartbeat = self._heartbeat(state)
        return tuple(self._publish(table, heartbeat) for table in sorted(tables, key=self._published_at))

    def remove_data(self, state: RecordedState) -> bool:
        """Remove what the environment still has of its tables, and return whether nothing must stay for now."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.removing import remove_from

        names = [self.tables.access.plain_name(written.identifier) for written in state.tables]
        removed = [remove_from(self.tables.access.seen, name) for name in names]
        return all(removed)

    def drop(self) -> bool:
        """Remove the branches and what they alone have. Raises RVT-415, RVT-417 while a merge is alive."""
        state = self.environment.state()
        if state is None:
            return False
        if state.state == MERGED:
            raise merged_environment(self.name)
        if self.is_being_merged():
            message = f"the environment '{self.name}' is being merged"
            raise RivetError("RVT-417", message, remediation="Wait until the merge has ended, or a minute.")
        self.environment.set(DROPPED)
        self.finish_drop()
        return True

    def is_being_merged(self) -> bool:
        """Return whether a merge is alive, or has just died."""
        state = self.environment.state()
        return state is not None and self._is_alive_at(state.location)

    def finish_drop(self) -> bool:
        """Remove the data of a dropped environment, then its record, unless something must stay for now."""
        state = self.environment.state()
        if state is not None:
            if not self.remove_data(state):
                return False
            self.environment.remove()
        return True

    def remove_state(self) -> None:
        """Remove the record of a merged environment."""
        self.environment.remove()

    def before_creation(self) -> None:
        """Finish an interrupted drop, and remove tables of an environment of the name that has no record any more."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.removing import remove_remains

        if not self.finish_drop():
            message = f"the environment '{self.name}' is being removed: a commit of its merge may still be under way"
            raise RivetError("RVT-417", message, remediation="Take another name, or wait for a day.")
        remove_remains(self.tables.base.catalog, self.base.name, lambda name: name == self.name)

    def is_alive(self) -> bool:
        """Return whether a run that is alive, or has just died, writes in the environment."""
        state = self.environment.state()
        locations = {written.location for written in state.tables} - {""} if state is not None else set()
        return any(self._is_alive_at(location) for location in sorted(locations))

    def _is_alive_at(self, location: str) -> bool:
        from pyiceberg.io import load_file_io

        heartbeats = heartbeats_of(load_file_io(self.tables.base.catalog.properties, location), location)
        return any(environment_of(heartbeat.key) == self.name and heartbeat.is_alive() for heartbeat in heartbeats)

    def _heartbeat(self, state: RecordedState) -> ObjectHeartbeat:
        io = self.tables.access.seen.real._load_file_io(location=state.location)
        return ObjectHeartbeat(io, state.location, self._key)

    @cached_property
    def _key(self) -> str:
        """The name of the heartbeat of this merge, which no other has."""
        return key_of(identity_there(self.name))

    def _published_at(self, table: BuiltTable) -> int:
        snapshot = self.tables.access.load(table.table).current_snapshot()
        assert snapshot is not None, "it was just found to be built"
        return int(snapshot.timestamp_ms)

    def _publish(self, table: BuiltTable, heartbeat: ObjectHeartbeat) -> Published:
        """Publish a table to the base, unless an interrupted merge has."""
        from rivet_dagster.catalogs.iceberg.metadata.layout import IcebergLayout
        from rivet_dagster.catalogs.iceberg.reaching import unknown_outcome
        from rivet_dagster.catalogs.iceberg.writes.beginning import begin_upon_current

        done = self.base.published_by(table.table, self.identity_of(table.table, table.current))
        if done is not None:
            return done
        begin = begin_upon_current(
            self.tables.base.open(table.table), table.table, IcebergLayout(), self.base.name, self.tables.base.open
        )
        if self._described(table.table).moved:  # since all tables were looked at
            raise moved_base(self.name, [table.table])
        try:
            return _TableMerge(self, table, begin, heartbeat).publish()
        except OutcomeUnknownError as error:
            identity = self.identity_of(table.table, table.current)
            raise unknown_outcome(f"the table {begin.table.name}", identity, error) from error

    def _described(self, name: str) -> BuiltTable:
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable, built
        from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import current_version, same_files

        current, base = self.tables.catalog.current(name), self.tables.base_of(name)
        assert current is not None, "it was just found to be built"
        iceberg_table = self.tables.access.load(name)
        record = built(iceberg_table.real, self.name) if isinstance(iceberg_table, SeenTable) else None
        of_base = self.tables.base.open(name).load_if_any()
        now = current_version(of_base) if of_base is not None else None
        if record is None or of_base is None:
            moved = of_base is not None
        else:
            moved = now != record.version or record.is_overtaken(of_base.metadata)
        if moved and self.base.published_by(name, self.identity_of(name, current)) is not None:
            moved = False  # an interrupted merge has published it
        same = record is not None and same_files(
            iceberg_table, record.snapshot, iceberg_table.metadata.current_snapshot_id
        )
        return BuiltTable(name, base, current, moved, same)

    def identity_of(self, table: str, current: Published) -> str:
        """Return the identity under which the merge publishes a version."""
        return f"environment {self.name}/{table}/{current.version}"


@dataclass(frozen=True)
class _TableMerge:
    """The publication of one table, and of its errors just before."""

    merge: BranchEnvironment
    table: BuiltTable
    begin: BegunWrite
    heartbeat: ObjectHeartbeat

    def publish(self) -> Published:
        """Publish, and return the version in the base."""
        from rivet_dagster.catalogs.iceberg.commits.snapshots import new_snapshot_id
        from rivet_dagster.catalogs.iceberg.metadata.history import publication_for
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import last_publication
        from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS

        iceberg_table, new = self.merge.tables.access.load(self.table.table), new_snapshot_id()
        head = iceberg_table.current_snapshot()
        assert head is not None, "it was just found to be built"
        known = replace(
            publication_for(iceberg_table, head), text_bounds=self._text_bounds(iceberg_table, head.snapshot_id)
        )
        identity = self.merge.identity_of(self.table.table, self.table.current)
        properties = known.again(identity, self.begin.rows_before).properties()
        last = last_publication(iceberg_table, head)
        errors = last.facts.get(ERRORS) if last is not None else None
        if last is not None and errors:
            properties[ERRORS] = errors
            self._publish_errors(errors, last.version, new)
        self._release(iceberg_table, int(head.snapshot_id), new, properties, self._marks(iceberg_table, new))
        return self.begin.described(new)

    def _text_bounds(self, iceberg_table: Table, head: int) -> TextBounds:
        """Return what the published snapshot records of its files, which those of a table of its own are added to."""
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable
        from rivet_dagster.catalogs.iceberg.metadata.text_bounds import all_are_whole, recorded_bounds

        if isinstance(iceberg_table, SeenTable):
            return recorded_bounds(iceberg_table, head)
        return ((1, None),) if all_are_whole(iceberg_table, head) else ()

    def _marks(self, iceberg_table: Table, new: int) -> dict[str, str]:
        """Return the properties of the table that go with the publication: a watermark that was set by hand."""
        from rivet_dagster.catalogs.iceberg.metadata.summary import OVERRIDE
        from rivet_dagster.catalogs.iceberg.published_tables import override_of

        override = override_of(iceberg_table, self.table.current.version)
        return {} if override is None else {OVERRIDE: json.dumps({"version": str(new), "value": override.value})}

    def _publish_errors(self, name: str, of_rows: int, new: int) -> None:
        from rivet_dagster.catalogs.iceberg.commits.snapshots import new_snapshot_id
        from rivet_dagster.catalogs.iceberg.metadata.layout import IcebergLayout
        from rivet_dagster.catalogs.iceberg.metadata.summary import DATA_SNAPSHOT, ERRORS_OF, IDENTITY
        from rivet_dagster.catalogs.iceberg.writes.beginning import begin_upon_current
        from rivet_dagster.catalogs.iceberg.writes.errors import errors_of_rows

        merge = self.merge
        iceberg_table = merge.tables.access.load(name)
        snapshot = errors_of_rows(iceberg_table, of_rows)
        if snapshot is None:
            raise RivetError("RVT-401", f"the errors of '{self.table.table}' in '{name}' have expired")
        of = ".".join(self.begin.table.name.identifier)
        identity = merge.identity_of(self.table.table, self.table.current)
        properties = {DATA_SNAPSHOT: str(new), ERRORS_OF: of, IDENTITY: identity}
        begin = begin_upon_current(
            merge.tables.base.open(name), name, IcebergLayout(), merge.base.name, merge.tables.base.open
        )
        errors = _TableMerge(merge, self.table, begin, self.heartbeat)
        errors._release(iceberg_table, snapshot, new_snapshot_id(), properties, {ERRORS_OF: of}, ends=False)

    def _release(
        self,
        iceberg_table: Table,
        snapshot: int,
        new: int,
        properties: dict[str, str],
        marks: dict[str, str],
        ends: bool = True,
    ) -> None:
        from rivet_dagster.catalogs.iceberg.environments.table_branches.release import MergeRelease
        from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import SeenTable
        from rivet_dagster.catalogs.iceberg.metadata.layout import IcebergLayout

        begin, name = self.begin, self.merge.name
        existing_properties = {} if isinstance(iceberg_table, SeenTable) else _own_properties(iceberg_table)
        release = MergeRelease(
            begin.table,
            begin.upon,
            new,
            properties,
            IcebergLayout(),
            existing_properties | marks,
            begin.begun,
            environment=name,
            ends=ends,
        )
        if isinstance(iceberg_table, SeenTable):
            release.of_snapshot(snapshot)
            return
        rows = iceberg_table.snapshot_by_id(snapshot)
        assert rows is not None, "it was just found"
        identifier = tuple(iceberg_table.name())
        table = begin.table.beside(replace(begin.table.name, namespace=identifier[:-1], name=identifier[-1]))
        release.of_own_table(table, iceberg_table, rows, begin.location, self.heartbeat)


def _own_properties(iceberg_table: Table) -> dict[str, str]:
    """Return the properties of an environment's own table that the table in the base will have."""
    from rivet_dagster.catalogs.iceberg.metadata.layout import OWN_PROPERTIES
    from rivet_dagster.catalogs.iceberg.writes.staged_table import DATA_PATH

    known = iceberg_table.metadata.properties
    declared = {*known.get(OWN_PROPERTIES, "").split(","), OWN_PROPERTIES}
    return {key: value for key, value in known.items() if key in declared and key != DATA_PATH}


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
            iceberg_table = opened.load_if_any()
            is_branched = iceberg_table is not None and any(map(is_of_environment, iceberg_table.metadata.refs))
            return is_branched or has_table_of_environment(opened)
