"""NOT NULLs and identifier fields of a table that another tool made, which stay when its columns change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.metadata.types import sql_type

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField


def with_constraints(columns: Schema, existing: Schema) -> Schema:
    """Return ``columns`` with the NOT NULLs that those among them have in ``existing``, and its identifier fields.

    Identifier fields stay together or, if one of them goes, not at all: fewer would not identify a row.
    """
    from pyiceberg.schema import Schema

    known = {field.field_id: field for field in existing.fields}
    fields = [_constrained(field, known.get(field.field_id)) for field in columns.fields]
    plain = Schema(*fields, schema_id=columns.schema_id)
    ids = existing.identifier_field_ids
    kept = ids if {*ids} <= {*plain.field_ids} else []
    return Schema(*fields, schema_id=columns.schema_id, identifier_field_ids=kept)


def _constrained(field: NestedField, known: NestedField | None) -> NestedField:
    if known is None:
        return field
    same = sql_type(field.field_type) == sql_type(known.field_type)
    type_ = known.field_type if same else field.field_type
    return field.model_copy(update={"field_type": type_, "required": known.required})
