"""The updates of a table's metadata that a publication is made of, and what must hold for them.

The definition of a table, all of it but its rows, must not change between the beginning of a version and its
publication. NOT NULLs and identifier fields that another tool has declared stay when the columns change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.metadata.types import sql_type

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate
    from pyiceberg.types import NestedField


MAIN = "main"


def set_branch(name: str, snapshot: int) -> TableUpdate:
    """Return the update that makes ``snapshot`` the head of a branch, which is made if it does not exist."""
    from pyiceberg.table.update import SetSnapshotRefUpdate

    return SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": "branch", "snapshot-id": snapshot})


def remove_ref(name: str) -> TableUpdate:
    """Return the update that removes a branch."""
    from pyiceberg.table.update import RemoveSnapshotRefUpdate

    return RemoveSnapshotRefUpdate.model_validate({"ref-name": name})


def branch_is_at(name: str, snapshot: int | None) -> TableRequirement:
    """Return the requirement that ``snapshot`` is the head of a branch; with None that there is no such branch."""
    from pyiceberg.table.update import AssertRefSnapshotId

    return AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": snapshot})


def set_properties(properties: Mapping[str, str]) -> tuple[TableUpdate, ...]:
    """Return the update that sets properties of the table, if there are any."""
    from pyiceberg.table.update import SetPropertiesUpdate

    return (SetPropertiesUpdate(updates=dict(properties)),) if properties else ()


def remove_properties(names: Iterable[str]) -> tuple[TableUpdate, ...]:
    """Return the update that removes properties of the table, if there are any."""
    from pyiceberg.table.update import RemovePropertiesUpdate

    removals = list(names)
    return (RemovePropertiesUpdate(removals=removals),) if removals else ()


def changed_schema(metadata: TableMetadata, schema: Schema) -> tuple[tuple[TableUpdate, ...], TableMetadata]:
    """Return the updates that make ``schema`` the current one of a table, and its metadata with it.

    One that the table has had before is taken again, as servers do, under the id that it has. The partitions and the
    sort order may not fit it yet.
    """
    from pyiceberg.table.update import SetCurrentSchemaUpdate

    if _same_columns(schema, metadata.schema()):
        return (), metadata
    same = [known for known in metadata.schemas if _same_columns(schema, known)]
    if same:
        id_ = same[0].schema_id
        update = SetCurrentSchemaUpdate.model_validate({"schema-id": id_})
        return (update,), metadata.model_copy(update={"current_schema_id": id_})
    new = schema.model_copy(update={"schema_id": max(known.schema_id for known in metadata.schemas) + 1})
    last_id = max(metadata.last_column_id, schema.highest_field_id)
    changes = {"schemas": [*metadata.schemas, new], "current_schema_id": new.schema_id, "last_column_id": last_id}
    return new_schema(new), metadata.model_copy(update=changes)


def _same_columns(one: Schema, other: Schema) -> bool:
    return one.fields == other.fields and {*one.identifier_field_ids} == {*other.identifier_field_ids}


def new_schema(schema: Schema) -> tuple[TableUpdate, ...]:
    """Return the updates that make ``schema``, with the ids of its fields, the table's current one."""
    from pyiceberg.table.update import AddSchemaUpdate, SetCurrentSchemaUpdate

    added = AddSchemaUpdate.model_validate({"schema": schema})
    return (added, SetCurrentSchemaUpdate.model_validate({"schema-id": -1}))


@dataclass(frozen=True)
class Definition:
    """The table itself, its current columns and partitions, and the last ids that were given to fields of both."""

    uuid: str
    schema: int
    spec: int
    last_column: int
    last_partition: int | None

    @staticmethod
    def of(metadata: TableMetadata) -> Definition:
        """Return the definition of a table as it is now."""
        return Definition(
            str(metadata.table_uuid),
            metadata.current_schema_id,
            metadata.default_spec_id,
            metadata.last_column_id,
            metadata.last_partition_id,
        )

    def requirements(self, updates: Sequence[TableUpdate]) -> tuple[TableRequirement, ...]:
        """Return the requirements of a commit of ``updates`` that nobody has changed the definition."""
        from pyiceberg.table import update

        required: list[TableRequirement] = [
            update.AssertTableUUID.model_validate({"uuid": self.uuid}),
            update.AssertCurrentSchemaId.model_validate({"current-schema-id": self.schema}),
            update.AssertDefaultSpecId.model_validate({"default-spec-id": self.spec}),
            update.AssertLastAssignedFieldId.model_validate({"last-assigned-field-id": self.last_column}),
        ]
        adds_spec = any(isinstance(each, update.AddPartitionSpecUpdate) for each in updates)
        if adds_spec and self.last_partition is not None:
            partition = {"last-assigned-partition-id": self.last_partition}
            required.append(update.AssertLastAssignedPartitionId.model_validate(partition))
        return tuple(required)


def with_constraints(columns: Schema, existing: Schema) -> Schema:
    """Return ``columns`` with the NOT NULLs that those among them have in ``existing``, and its identifier fields.

    Identifier fields stay together or, if one of them goes, not at all: fewer would not identify a row.
    """
    from pyiceberg.schema import Schema

    known = {field.field_id: field for field in existing.fields}
    fields = [_constrained(field, known.get(field.field_id)) for field in columns.fields]
    plain = Schema(*fields, schema_id=columns.schema_id)
    ids = existing.identifier_field_ids
    identifiers = ids if {*ids} <= {*plain.field_ids} else []
    return Schema(*fields, schema_id=columns.schema_id, identifier_field_ids=identifiers)


def _constrained(field: NestedField, known: NestedField | None) -> NestedField:
    if known is None:
        return field
    same = sql_type(field.field_type) == sql_type(known.field_type)
    type_ = known.field_type if same else field.field_type
    return field.model_copy(update={"field_type": type_, "required": known.required})
