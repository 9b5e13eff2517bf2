"""The definition of a table, all of it but its rows.

It must not change between the beginning of a version and its publication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate


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
