"""The layout of a table that a joint's ``options`` declare: its partitions, sort order and properties."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.metadata.declared_layout import (
    FORMAT_VERSION,
    PartitionText,
    SortText,
    as_text,
    partition_text,
    sort_text,
    wrong_layout,
)
from rivet_dagster.errors import RivetError, nearest

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.sorting import SortField, SortOrder
    from pyiceberg.table.update import TableUpdate
    from pyiceberg.transforms import Transform
    from pyiceberg.types import NestedField

__all__ = [
    "IcebergLayout",
    "layout_updates",
    "order_of",
    "parse_layout",
    "retain_layout",
    "spec_of",
    "spec_updates",
    "table_properties",
    "wrong_layout",
]

OWN_PROPERTIES = "rivet.properties"
"""The property of a table that lists the properties that its joint has set."""


@dataclass(frozen=True)
class IcebergLayout:
    """The declared layout of a table; None leaves what the table has."""

    partitioned_by: tuple[PartitionText, ...] | None = None
    sort_order: tuple[SortText, ...] | None = None
    properties: Mapping[str, str] | None = None


def parse_layout(options: Mapping[str, Any]) -> IcebergLayout:
    """Return the layout that a joint's options declare. Raises RVT-203, RVT-204.

    >>> layout = parse_layout({"partitioned_by": ["days(at)", "truncate(name, 2)"], "sort_order": ["id desc"]})
    >>> [str(part) for part in layout.partitioned_by], layout.sort_order
    (['day(at)', 'truncate(2, name)'], (SortText(field=PartitionText(column=('id',), ...), descending=True, ...),))
    """
    for wrong in wrong_layout(options):
        raise RivetError(wrong.code, f"`{wrong.key}`: {wrong.message}", remediation=wrong.remediation)
    partitioned_by, sort_order = options.get("partitioned_by"), options.get("sort_order")
    return IcebergLayout(
        None if partitioned_by is None else tuple(partition_text(text) for text in partitioned_by),
        None if sort_order is None else tuple(sort_text(text) for text in sort_order),
        {key: as_text(value) for key, value in options.get("properties", {}).items()},
    )


def spec_of(
    layout: IcebergLayout, schema: Schema, base: PartitionSpec | None, last_partition_id: int | None
) -> PartitionSpec:
    """Return the declared partition spec; ``base`` if nothing is declared, or the same as it.

    A field that ``base`` has keeps its id; others get ids after ``last_partition_id``. Raises RVT-514 for a column that
    does not exist, or has no such transform.
    """
    return _spec(layout, schema, base, [base] if base else [], last_partition_id)


def order_of(layout: IcebergLayout, schema: Schema, base: SortOrder | None) -> SortOrder:
    """Return the declared sort order; ``base`` if nothing is declared, or the same as it. Raises RVT-514."""
    return _order(layout, schema, base, [base] if base else [])


def retain_layout(layout: IcebergLayout, schema: Schema, metadata: TableMetadata) -> IcebergLayout:
    """Return the layout of a table whose columns become those of ``schema``.

    Partitions or a sort order that are not declared, and are of columns that the table will not have any more, are
    taken for declared, of the columns with the same names. Raises RVT-514 where there are none of a type that fits.
    """
    if layout.partitioned_by is None:
        fields = _live(metadata.spec())
        if _lacks(schema, fields):
            texts = tuple(_retained_text("partitioned_by", field, schema, metadata) for field in fields)
            layout = replace(layout, partitioned_by=texts)
    if layout.sort_order is None:
        order = metadata.sort_order().fields
        if _lacks(schema, order):
            sorts = tuple(_retained_sort(field, schema, metadata) for field in order)
            layout = replace(layout, sort_order=sorts)
    return layout


def _lacks(schema: Schema, fields: Iterable[PartitionField | SortField]) -> bool:
    return any(field.source_id not in schema._lazy_id_to_field for field in fields)


def _retained_text(
    key: str, field: PartitionField | SortField, schema: Schema, metadata: TableMetadata
) -> PartitionText:
    paths = (_path(field.source_id, known.fields) for known in reversed(metadata.schemas))
    path = next((path for path in paths if path), ())
    name, _, size = str(field.transform).removesuffix("]").partition("[")
    text = PartitionText(path, name, int(size) if size else None)
    source = _column(path, schema.fields) if path else None
    if source is None or not field.transform.can_transform(source.field_type):
        what = "partitioned" if key == "partitioned_by" else "sorted"
        why = (
            "which it would not have any more" if source is None else f"which would be of the type {source.field_type}"
        )
        message = f"the table is {what} by '{text}', {why}"
        remedy = f"Declare `{key}` in the joint's `options`, `[]` for none, or have the query give that column."
        raise RivetError("RVT-514", message, remediation=remedy)
    return text


def _retained_sort(field: SortField, schema: Schema, metadata: TableMetadata) -> SortText:
    from pyiceberg.table.sorting import NullOrder, SortDirection

    text = _retained_text("sort_order", field, schema, metadata)
    return SortText(text, field.direction == SortDirection.DESC, field.null_order == NullOrder.NULLS_LAST)


def _path(id_: int, fields: Iterable[NestedField]) -> tuple[str, ...]:
    """Return the path through structs to a column; an empty one if there is no such column."""
    from pyiceberg.types import StructType

    for field in fields:
        if field.field_id == id_:
            return (field.name,)
        below = _path(id_, field.field_type.fields) if isinstance(field.field_type, StructType) else ()
        if below:
            return (field.name, *below)
    return ()


def table_properties(layout: IcebergLayout) -> dict[str, str]:
    """Return the properties with which a table of the layout is created."""
    properties = layout.properties or {}
    names = ",".join(sorted(properties.keys() - {FORMAT_VERSION}))
    return {**properties, **({OWN_PROPERTIES: names} if names else {})}


def layout_updates(layout: IcebergLayout, metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """Return the updates that give a table the declared layout; none if it has it.

    ``metadata`` is that after the change of columns, if they change. What the joint once set and no longer declares is
    removed. Raises RVT-514.
    """
    return (
        *_format_updates(layout, metadata),
        *_spec_updates(layout, metadata),
        *_order_updates(layout, metadata),
        *_property_updates(layout, metadata),
    )


def spec_updates(staged: PartitionSpec, metadata: TableMetadata) -> tuple[TableUpdate, ...]:
    """Return the updates that make the spec by which files were staged a table's default one; none if it is.

    A file has its partition as a list of values without names, so that no other spec may be said of it.
    """
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.table.update import AddPartitionSpecUpdate, SetDefaultSpecUpdate

    def of(spec: PartitionSpec) -> list[tuple[int, str]]:
        return [(field.source_id, str(field.transform)) for field in spec.fields]

    if of(metadata.spec()) == of(staged):
        return ()
    known = next((spec for spec in metadata.partition_specs if of(spec) == of(staged)), None)
    if known is not None:
        return (SetDefaultSpecUpdate.model_validate({"spec-id": known.spec_id}),)
    new = PartitionSpec(*staged.fields, **{"spec-id": max(spec.spec_id for spec in metadata.partition_specs) + 1})
    return (AddPartitionSpecUpdate(spec=new), SetDefaultSpecUpdate.model_validate({"spec-id": new.spec_id}))


def _format_updates(layout: IcebergLayout, metadata: TableMetadata) -> Iterator[TableUpdate]:
    from pyiceberg.table.update import UpgradeFormatVersionUpdate

    if FORMAT_VERSION in (layout.properties or {}) and metadata.format_version < 2:
        yield UpgradeFormatVersionUpdate.model_validate({"format-version": 2})


def _spec_updates(layout: IcebergLayout, metadata: TableMetadata) -> Iterator[TableUpdate]:
    from pyiceberg.table.update import AddPartitionSpecUpdate, SetDefaultSpecUpdate

    specs = metadata.partition_specs
    spec = _spec(layout, metadata.schema(), metadata.spec(), specs, metadata.last_partition_id)
    if spec.spec_id == metadata.default_spec_id:
        return
    if metadata.format_version < 2 and FORMAT_VERSION not in (layout.properties or {}):
        message = "the partitions of a table of Iceberg's format 1 cannot be changed"
        raise RivetError("RVT-514", message, remediation="Set `properties: {format-version: 2}`.")
    if all(known.spec_id != spec.spec_id for known in specs):
        yield AddPartitionSpecUpdate(spec=spec)
    yield SetDefaultSpecUpdate.model_validate({"spec-id": spec.spec_id})


def _order_updates(layout: IcebergLayout, metadata: TableMetadata) -> Iterator[TableUpdate]:
    from pyiceberg.table.update import AddSortOrderUpdate, SetDefaultSortOrderUpdate

    order = _order(layout, metadata.schema(), metadata.sort_order(), metadata.sort_orders)
    if order.order_id == metadata.default_sort_order_id:
        return
    if all(known.order_id != order.order_id for known in metadata.sort_orders):
        yield AddSortOrderUpdate.model_validate({"sort-order": order})
    yield SetDefaultSortOrderUpdate.model_validate({"sort-order-id": order.order_id})


def _property_updates(layout: IcebergLayout, metadata: TableMetadata) -> Iterator[TableUpdate]:
    from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate

    if layout.properties is None:
        return
    current = metadata.properties
    wanted = table_properties(layout)
    wanted.pop(FORMAT_VERSION, None)
    names = {key for key in current.get(OWN_PROPERTIES, "").split(",") if key}
    changed = {key: value for key, value in wanted.items() if current.get(key) != value}
    removed = sorted(((names | {OWN_PROPERTIES}) & current.keys()) - wanted.keys())
    if changed:
        yield SetPropertiesUpdate(updates=changed)
    if removed:
        yield RemovePropertiesUpdate(removals=removed)


def _spec(
    layout: IcebergLayout,
    schema: Schema,
    base: PartitionSpec | None,
    specs: Sequence[PartitionSpec],
    last_id: int | None,
) -> PartitionSpec:
    from pyiceberg.partitioning import PARTITION_FIELD_ID_START, UNPARTITIONED_PARTITION_SPEC, PartitionSpec

    if layout.partitioned_by is None:
        return base or UNPARTITIONED_PARTITION_SPEC
    sources = [(text, *_source("partitioned_by", text, schema)) for text in layout.partitioned_by]
    wanted = [(source.field_id, str(transform)) for _, source, transform in sources]
    for spec in ([base] if base else []) + list(specs):
        if [(field.source_id, str(field.transform)) for field in _live(spec)] == wanted:
            return spec
    known = {(field.source_id, str(field.transform)): field for spec in specs for field in _live(spec)}
    names = {field.name for spec in specs for field in spec.fields}
    ids = count(max(last_id or 0, PARTITION_FIELD_ID_START - 1) + 1)
    fields = []
    for text, source, transform in sources:
        field = known.get((source.field_id, str(transform)))
        if field is None:
            field = _new_field(text, source, transform, schema, names, ids)
            names.add(field.name)
        fields.append(field)
    return PartitionSpec(*fields, **{"spec-id": max((spec.spec_id for spec in specs), default=-1) + 1})


def _live(spec: PartitionSpec) -> list[PartitionField]:
    """Return the fields but those that were dropped from a table of format 1."""
    return [field for field in spec.fields if str(field.transform) != "void"]


def _new_field(
    text: PartitionText,
    source: NestedField,
    transform: Transform[Any, Any],
    schema: Schema,
    names: set[str],
    ids: Iterator[int],
) -> PartitionField:
    """Return a field under the name that CREATE TABLE gives it, or a longer one where that is taken."""
    from pyiceberg.partitioning import PartitionField

    column = schema.find_column_name(source.field_id)
    assert column is not None
    is_identity = text.transform == "identity"
    plain = column if is_identity else f"{column}_{_ENDINGS.get(text.transform, text.transform)}"
    sized = [] if text.size is None else [f"{plain}_{text.size}"]
    taken = names | {name for name in schema.column_names if not (is_identity and name == column)}
    id_ = next(ids)
    name = next(name for name in (plain, *sized, f"{plain}_{id_}") if name not in taken)
    return PartitionField(source.field_id, id_, transform, name)


_ENDINGS = {"truncate": "trunc"}


def _order(layout: IcebergLayout, schema: Schema, base: SortOrder | None, orders: Sequence[SortOrder]) -> SortOrder:
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder

    if layout.sort_order is None:
        return base or UNSORTED_SORT_ORDER
    fields = []
    for text in layout.sort_order:
        source, transform = _source("sort_order", text.field, schema)
        direction = SortDirection.DESC if text.descending else SortDirection.ASC
        nulls = NullOrder.NULLS_LAST if text.nulls_last else NullOrder.NULLS_FIRST
        fields.append(SortField(source.field_id, transform, direction, nulls))
    if not fields:
        return UNSORTED_SORT_ORDER
    wanted = [str(field) for field in fields]
    for order in ([base] if base else []) + list(orders):
        if [str(field) for field in order.fields] == wanted:
            return order
    return SortOrder(*fields, **{"order-id": max((order.order_id for order in orders), default=0) + 1})


def _source(key: str, text: PartitionText, schema: Schema) -> tuple[NestedField, Transform[Any, Any]]:
    """Return the column of a field, and its transform. Raises RVT-514."""
    from pyiceberg.transforms import parse_transform

    source = _column(text.column, schema.fields)
    if source is None:
        name = ".".join(text.column)
        known = [column for column in schema.column_names if not {"element", "key", "value"} & {*column.split(".")[1:]}]
        message = f"`{key}`: the table has no column '{name}'{nearest(name, known)}"
        raise RivetError("RVT-514", message, remediation=_COLUMN_REMEDY)
    transform = parse_transform(text.transform if text.size is None else f"{text.transform}[{text.size}]")
    if not transform.can_transform(source.field_type):
        message = f"`{key}`: a column of the type {source.field_type} does not have '{text}'"
        raise RivetError("RVT-514", message, remediation=_COLUMN_REMEDY)
    return source, transform


_COLUMN_REMEDY = "Correct the sink's `options`, or have the query give that column."


def _column(path: tuple[str, ...], fields: Iterable[NestedField]) -> NestedField | None:
    """Return the column at a path through structs; letter case matters only where names differ in nothing else."""
    from pyiceberg.types import StructType

    named = [field for field in fields if field.name.lower() == path[0].lower()]
    column = next((field for field in named if field.name == path[0]), named[0] if named else None)
    if column is None or len(path) == 1:
        return column
    return _column(path[1:], column.field_type.fields) if isinstance(column.field_type, StructType) else None
