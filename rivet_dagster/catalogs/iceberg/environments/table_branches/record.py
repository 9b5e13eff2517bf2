"""The record of an environment: a table without rows, whose properties say what the environment is.

Each kind of catalog keeps the properties of tables where every machine sees them, and makes a table in one step::

    rivet_environments.state_pr_7_107cc1ad   rivet.environment, rivet.profile, rivet.created-at, rivet.used-at,
                                             rivet.state, and rivet.table.shop.orders of each table that was to be
                                             written there: its name in the joint, and where heartbeats of runs are
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.environments.state import (
    DROPPED,
    OPEN,
    EnvironmentState,
    StateOfEnvironment,
    refuse_wrong_name,
)
from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit, create
from rivet_dagster.catalogs.iceberg.commits.updates import set_properties
from rivet_dagster.catalogs.iceberg.metadata.summary import ENVIRONMENT
from rivet_dagster.catalogs.iceberg.names import ENVIRONMENTS, TableName
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, tables_in
from rivet_dagster.catalogs.iceberg.writes.staged_table import creation, planned_table

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

_PROFILE, _CREATED, _USED, _STATE = "rivet.profile", "rivet.created-at", "rivet.used-at", "rivet.state"
_TABLE, _RECORD = "rivet.table.", "state_"
_PRECISION = timedelta(minutes=1)
_OTHER = re.compile(r"[^a-z0-9_]")

Identifier = tuple[str, ...]


@dataclass(frozen=True)
class EnvironmentTable:
    """A table of the base that was to be written in an environment, and the location where heartbeats of runs are.

    ``declared`` is its name as the joint has it, empty for an error table.
    """

    identifier: Identifier
    declared: str = ""
    location: str = ""


@dataclass(frozen=True)
class RecordedState(EnvironmentState):
    """The contents of the record; ``location`` is its own."""

    tables: tuple[EnvironmentTable, ...]
    location: str


@dataclass(frozen=True)
class EnvironmentRecord(StateOfEnvironment[RecordedState]):
    """The record of the environment ``name`` of a PyIceberg catalog that the profile calls ``catalog_name``."""

    catalog: Catalog
    catalog_name: str
    name: str

    def __post_init__(self) -> None:
        refuse_wrong_name(self.name)

    @property
    def table(self) -> OpenedTable:
        """The table, whose name is one that every store allows."""
        return OpenedTable(
            self.catalog, TableName(self.catalog_name, (ENVIRONMENTS,), f"{_RECORD}{store_name(self.name)}")
        )

    def state(self) -> RecordedState | None:
        """Return what is recorded; None if there is no such environment."""
        iceberg_table = self.table.load_if_any()
        return None if iceberg_table is None else _state(iceberg_table)

    def create(self, profile: str) -> None:
        """Make the record, if there is none."""
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
        from pyiceberg.schema import Schema
        from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
        from pyiceberg.types import NestedField, StringType

        self.catalog.create_namespace_if_not_exists((ENVIRONMENTS,))
        planned, now = planned_table(self.table), _now()
        properties = {ENVIRONMENT: self.name, _PROFILE: profile, _CREATED: now, _USED: now, _STATE: OPEN}
        schema = Schema(NestedField(1, "environment", StringType()))
        layout = (UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER)
        create(self.catalog, planned, creation(self.catalog, schema, *layout, planned.metadata.location, properties))

    def use(self, state: RecordedState) -> None:
        """Record that it is used now, to the minute."""
        if datetime.now(UTC) - datetime.fromisoformat(state.used_at) > _PRECISION:
            self._set({_USED: _now()})

    def set(self, state: str, instead_of: str | None = None) -> None:
        """Change the state, unless it is another one by now than ``instead_of``."""
        self._set({_STATE: state, _USED: _now()}, instead_of)

    def add(self, written: EnvironmentTable) -> str:
        """Record a table that is to be written there, and return when the environment was made. Raises RVT-415.

        What is known of the table stays, unless something else is told now.
        """
        state = self._required()
        known = {table.identifier: table for table in state.tables}.get(written.identifier)
        old = known or EnvironmentTable(written.identifier)
        new = {"declared": written.declared or old.declared, "location": written.location or old.location}
        if known is None or new != {"declared": known.declared, "location": known.location}:
            self._set({_TABLE + ".".join(written.identifier): json.dumps(new)})
        return state.created_at

    def remove(self) -> None:
        """Remove the record, if there is one."""
        from pyiceberg.exceptions import NoSuchTableError

        if self.table.load_if_any() is not None:
            try:
                self.catalog.purge_table(self.table.name.identifier)
            except NoSuchTableError:
                return

    def _required(self) -> RecordedState:
        state = self.state()
        if state is None or state.state == DROPPED:
            raise self._missing()
        return state

    def _set(self, properties: Mapping[str, str], instead_of: str | None = None) -> None:
        def changes(iceberg_table: Table) -> Changes:
            is_wanted = instead_of in (None, iceberg_table.metadata.properties[_STATE])
            return Changes(set_properties(properties)) if is_wanted else Changes()

        commit(self.table.load, changes, str(self.table.name))


def all_records(catalog: Catalog, catalog_name: str) -> Iterator[EnvironmentRecord]:
    """Yield the records of a catalog, those of merged and half dropped environments too, in order of their names."""
    names = []
    for identifier in tables_in(catalog, (ENVIRONMENTS,)):
        if identifier[-1].startswith(_RECORD):
            iceberg_table = OpenedTable(catalog, TableName(catalog_name, (ENVIRONMENTS,), identifier[-1])).load_if_any()
            names += [iceberg_table.metadata.properties[ENVIRONMENT]] if iceberg_table is not None else []
    yield from (EnvironmentRecord(catalog, catalog_name, name) for name in sorted(names))


def store_name(name: str) -> str:
    """Return a name for a table that each store allows: of lower-case letters, digits and ``_``; a hash tells apart.

    >>> store_name("pr_7"), store_name("pr-7")
    ('pr_7', 'pr_7_107cc1ad')
    """
    plain = _OTHER.sub("_", name.lower())[:80]
    return plain if plain == name else f"{plain}_{sha1(name.encode(), usedforsecurity=False).hexdigest()[:8]}"


def _state(iceberg_table: Table) -> RecordedState:
    properties = iceberg_table.metadata.properties
    tables = sorted((key.removeprefix(_TABLE), value) for key, value in properties.items() if key.startswith(_TABLE))
    return RecordedState(
        properties[_PROFILE],
        properties[_CREATED],
        properties[_USED],
        properties[_STATE],
        tuple(_written(name, json.loads(value)) for name, value in tables),
        iceberg_table.metadata.location,
    )


def _written(name: str, known: Mapping[str, Any]) -> EnvironmentTable:
    return EnvironmentTable(tuple(name.split(".")), known["declared"], known["location"])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
