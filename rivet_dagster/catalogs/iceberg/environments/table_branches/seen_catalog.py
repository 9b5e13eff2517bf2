"""A PyIceberg catalog as an environment sees it: what is committed to a table goes to its branch there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableResponse, CreateTableTransaction, Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    RemovePropertiesUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

from rivet_dagster.catalogs.environments.state import missing_environment
from rivet_dagster.catalogs.iceberg.commits.updates import branch_is_at, remove_properties, set_branch, set_properties
from rivet_dagster.catalogs.iceberg.environments.table_branches.record import Identifier, store_name
from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import (
    MAIN,
    SeenTable,
    as_property,
    built,
    first_record,
    property_of,
    with_ids,
)
from rivet_dagster.catalogs.iceberg.metadata.summary import ENVIRONMENT, ENVIRONMENT_OF, STAGED_FOR
from rivet_dagster.catalogs.iceberg.names import (
    ENVIRONMENTS,
    OWN_TABLE,
    environment_branch,
    environment_tag,
    staging_of,
)
from rivet_dagster.catalogs.iceberg.writes.staged_table import DATA_PATH
from rivet_dagster.errors import EnvironmentMissing


class SeenCatalog:
    """The catalog ``real`` as the environment ``name`` sees it.

    Tables in the namespace of environments, and staging tables, are what they are. ``touched`` is called with each
    table of the base before anything of the environment is first committed to it; it returns when the environment was
    made, and raises RVT-415 if there is none any more.
    """

    def __init__(self, real: Catalog, name: str, touched: Callable[[Identifier], str]) -> None:
        self.real = real
        self.name = name
        self._touched = touched
        self._of: dict[Identifier, Identifier] = {}

    def __getattr__(self, method: str) -> Any:
        """Return a method of the real catalog."""
        return getattr(self.real, method)

    def own(self, identifier: Identifier) -> Identifier:
        """Return the table of the environment in place of one that the base does not have."""
        plain = ".".join(identifier)
        name = f"{OWN_TABLE}{store_name(identifier[-1])[:60]}_{store_name(f'{self.name}/{plain}')[-8:]}"
        self._of[ENVIRONMENTS, name] = identifier
        return (ENVIRONMENTS, name)

    def load_table(self, identifier: str | Identifier) -> Table:
        """Return a table as the environment sees it. Raises NoSuchTableError."""
        iceberg_table = self.real.load_table(identifier)
        parts = self.real.identifier_to_tuple(identifier)
        return iceberg_table if self._is_plain(parts) else SeenTable(iceberg_table, self.name, self)  # type: ignore[arg-type]

    def create_table_transaction(self, identifier: Identifier, schema: Schema) -> CreateTableTransaction:
        """Return a transaction that makes a table; the data of one that the base does not have lie where its will."""
        return self.real.create_table_transaction(identifier, schema, properties=self._properties(identifier))

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit the updates to the environment's branch of the table, which begins with the first of them."""
        if not isinstance(table, SeenTable):
            mine = (*updates, *set_properties(self._properties(table.name())))
            if any(isinstance(requirement, AssertCreate) for requirement in requirements):
                return self._created(table, requirements, mine)
            return self.real.commit_table(table, requirements, mine)
        if self._begins(table, updates):
            self._touched(table.name())
        translated = _Translation(self.name, table)
        mine = tuple(translated.updates(updates))
        return self.real.commit_table(table.real, (*translated.requirements(requirements, updates),), mine)

    def purge_table(self, identifier: str | Identifier) -> None:
        """Remove a table of the environment with its files; do nothing to one of the base."""
        if self._is_plain(self.real.identifier_to_tuple(identifier)):
            self.real.purge_table(identifier)

    def _created(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Make a table, and remove it again if the environment was dropped meanwhile. Raises RVT-415."""
        base = self._base_of(table.name(), updates)
        made = self._touched(base)
        answer = self.real.commit_table(table, requirements, updates)
        try:
            if self._touched(base) != made:
                raise missing_environment(self.name)
        except EnvironmentMissing:  # whoever has dropped it may not have seen the table
            self.real.purge_table(table.name())
            raise
        return answer

    def _begins(self, table: SeenTable, updates: Sequence[TableUpdate]) -> bool:
        is_new = environment_branch(self.name) not in table.real.metadata.refs
        return is_new and any(isinstance(update, SetSnapshotRefUpdate | SetPropertiesUpdate) for update in updates)

    def _is_plain(self, identifier: Identifier) -> bool:
        return identifier[0] == ENVIRONMENTS or staging_of(identifier[-1]) is not None

    def _base_of(self, identifier: Identifier, updates: Sequence[TableUpdate]) -> Identifier:
        """Return the table of the base for which a table of the environment, or a staging table, is made."""
        properties = [update.updates for update in updates if isinstance(update, SetPropertiesUpdate)]
        staged_for = next((known[STAGED_FOR] for known in properties if STAGED_FOR in known), None)
        of = identifier if staged_for is None else tuple(staged_for.split("."))
        return self._of.get(of, of)

    def _properties(self, identifier: Identifier) -> dict[str, str]:
        """Return the properties of a table that the base does not have; none of another one."""
        base = self._of.get(identifier)
        if base is None:
            return {}
        self.real.create_namespace_if_not_exists(base[:-1])
        planned = self.real.create_table_transaction(base, Schema())._table
        folder = planned.metadata.properties.get(DATA_PATH) or f"{planned.metadata.location.rstrip('/')}/data"
        return {ENVIRONMENT: self.name, ENVIRONMENT_OF: json.dumps(base), DATA_PATH: folder}


class _Translation:
    """The translation of a commit to a table of an environment into one to its branch."""

    def __init__(self, name: str, table: SeenTable) -> None:
        self._name, self._real, self._seen = name, table.real, table.metadata
        self._built = built(table.real, name)

    def updates(self, updates: Sequence[TableUpdate]) -> Iterator[TableUpdate]:
        """Yield the updates of the real table."""
        heads = [u.snapshot_id for u in updates if isinstance(u, SetSnapshotRefUpdate) and u.ref_name == MAIN]
        ids: dict[str, int] = {}
        binds_new_columns = _binds_new_columns(updates)
        for update in updates:
            if isinstance(update, SetCurrentSchemaUpdate) and binds_new_columns:
                yield update
            yield from self._update(update, heads, ids)
        ids = self._resolved(updates, ids)
        if binds_new_columns:
            yield SetCurrentSchemaUpdate.model_validate({"schema-id": self._real.metadata.current_schema_id})
        if not heads:
            return
        record = self._built
        if record is None:
            record = first_record(self._real)
            if record.snapshot is not None:
                yield SetSnapshotRefUpdate.model_validate(
                    {
                        "ref-name": environment_tag(self._name),
                        "type": SnapshotRefType.TAG,
                        "snapshot-id": record.snapshot,
                    }
                )
        yield set_branch(environment_branch(self._name), heads[-1])
        yield from set_properties(as_property(self._name, with_ids(record, ids)))

    def requirements(
        self, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
    ) -> Iterator[TableRequirement]:
        """Yield the requirements of the real table: the branch, until there is one the base, is what it was.

        What the columns and partitions of the environment are is recorded with each change of its branch.
        """
        branch = environment_branch(self._name)
        for requirement in requirements:
            if self._built is not None and isinstance(requirement, AssertCurrentSchemaId | AssertDefaultSpecId):
                continue
            if not isinstance(requirement, AssertRefSnapshotId) or requirement.ref != MAIN:
                yield requirement
            elif self._built is not None:
                yield branch_is_at(branch, requirement.snapshot_id)
            else:
                if self._real.metadata.snapshots:  # PyIceberg takes it for unmet where there is none
                    yield branch_is_at(branch, None)
                yield branch_is_at(MAIN, requirement.snapshot_id)

    def _update(self, update: TableUpdate, heads: Sequence[int], ids: dict[str, int]) -> Iterator[TableUpdate]:
        match update:
            case AddSnapshotUpdate() if update.snapshot.snapshot_id in heads:
                yield AddSnapshotUpdate(snapshot=_marked(update.snapshot, self._name))
            case SetSnapshotRefUpdate() if update.ref_name == MAIN:
                return
            case SetCurrentSchemaUpdate():
                ids["schema"] = update.schema_id
            case SetDefaultSpecUpdate():
                ids["spec"] = update.spec_id
            case SetDefaultSortOrderUpdate():
                ids["order"] = update.sort_order_id
            case SetPropertiesUpdate():
                yield from set_properties(self._recorded(update.updates))
            case RemovePropertiesUpdate():
                yield from self._removed(update.removals)
            case UpgradeFormatVersionUpdate():
                return
            case _:
                yield update

    def _recorded(self, properties: dict[str, Any]) -> dict[str, str]:
        return {property_of(self._name, key): json.dumps(value) for key, value in properties.items()}

    def _removed(self, names: Sequence[str]) -> Iterator[TableUpdate]:
        """Yield the updates that remove properties there: of those of the base only the record says so."""
        known = self._real.metadata.properties
        yield from set_properties(self._recorded(dict.fromkeys(name for name in names if name in known)))
        properties = (property_of(self._name, name) for name in names if name not in known)
        yield from remove_properties(name for name in properties if name in known)

    def _resolved(self, updates: Sequence[TableUpdate], ids: dict[str, int]) -> dict[str, int]:
        """Return ids in place of -1, which is the one that was added last."""
        added = {
            "schema": [u.schema_.schema_id for u in updates if isinstance(u, AddSchemaUpdate)],
            "spec": [u.spec.spec_id for u in updates if isinstance(u, AddPartitionSpecUpdate)],
            "order": [u.sort_order.order_id for u in updates if isinstance(u, AddSortOrderUpdate)],
        }
        return {key: added[key][-1] if id_ == -1 else id_ for key, id_ in ids.items()}


def _marked(snapshot: Snapshot, name: str) -> Snapshot:
    """Return a snapshot that says that it was published in an environment."""
    assert snapshot.summary is not None
    facts = {**snapshot.summary.additional_properties, ENVIRONMENT: name}
    return snapshot.model_copy(update={"summary": Summary(snapshot.summary.operation, **facts)})


def _binds_new_columns(updates: Sequence[TableUpdate]) -> bool:
    kinds = {type(update) for update in updates}
    return AddSchemaUpdate in kinds and bool({AddPartitionSpecUpdate, AddSortOrderUpdate} & kinds)
