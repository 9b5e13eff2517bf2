"""The types of Spark SQL and those of Iceberg, and the schema that a table has after a write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import field_name

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import IcebergType, NestedField

_ICEBERG = {
    "boolean": "BooleanType",
    "byte": "IntegerType",
    "short": "IntegerType",
    "integer": "IntegerType",
    "long": "LongType",
    "float": "FloatType",
    "double": "DoubleType",
    "date": "DateType",
    "timestamp": "TimestamptzType",
    "timestamp_ntz": "TimestampType",
    "string": "StringType",
    "binary": "BinaryType",
}
"""PyIceberg's types by those of Spark's JSON schema."""

_SQL = {
    "long": "bigint",
    "timestamptz": "timestamp",
    "timestamp": "timestamp_ntz",
    "uuid": "string",
    "unknown": "void",
}
"""Spark's SQL types by Iceberg's, where they differ."""

_TEXT = re.compile(r"(?:var)?char\(\d+\)")
_SMALL = re.compile(r"\b(?:tinyint|smallint)\b")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")


def iceberg_schema(spark_json: str, base: Schema | None = None, first_id: int = 1) -> Schema:
    """Return the Iceberg schema of Spark's schema, as JSON, with all fields optional. Raises RVT-514.

    A column of ``base``, whose name may be spelled in another case, keeps its ids if its type is the same, or can be
    promoted. All other fields get new ids, from ``first_id`` on. The schema's own id is 0.

    >>> field = {"name": "id", "type": "integer", "nullable": False, "metadata": {"comment": "key"}}
    >>> schema = iceberg_schema(json.dumps({"type": "struct", "fields": [field]}))
    >>> print(schema)
    table { 1: id: optional int (key) }
    >>> print(iceberg_schema(json.dumps({"type": "struct", "fields": [{"name": "ID", "type": "long"}]}), schema, 2))
    table { 1: ID: optional long (key) }
    """
    from pyiceberg.schema import Schema

    ids = count(first_id)
    known = {field.name.lower(): field for field in reversed(base.fields if base else ())}
    columns = json.loads(spark_json)["fields"]
    return Schema(*(_column(column, known.pop(column["name"].lower(), None), ids) for column in columns))


def schema_of(table: Table, snapshot: int | None) -> Schema:
    """Return the columns of a snapshot; without one, or where it does not say, those of the table."""
    of_snapshot = table.snapshot_by_id(snapshot) if snapshot is not None else None
    if of_snapshot is None or of_snapshot.schema_id is None:
        return table.schema()
    return table.schemas()[of_snapshot.schema_id]


def sql_columns(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return the names and types of a schema's columns, as Spark's SQL writes them."""
    return tuple((field.name, sql_type(field.field_type)) for field in schema.fields)


def sql_type(type_: IcebergType) -> str:
    """Return an Iceberg type as Spark's SQL writes it.

    >>> from pyiceberg.types import ListType, NestedField, StructType, TimestamptzType
    >>> sql_type(ListType(1, StructType(NestedField(2, "at", TimestamptzType()))))
    'array<struct<at:timestamp>>'
    """
    from pyiceberg.types import FixedType, ListType, MapType, StructType

    match type_:
        case StructType():
            fields = ",".join(f"{field_name(field.name)}:{sql_type(field.field_type)}" for field in type_.fields)
            return f"struct<{fields}>"
        case ListType():
            return f"array<{sql_type(type_.element_type)}>"
        case MapType():
            return f"map<{sql_type(type_.key_type)},{sql_type(type_.value_type)}>"
        case FixedType():
            return "binary"
    name = str(type_).replace(", ", ",")
    return _SQL.get(name, name)


def same_columns(schema: Schema, columns: Sequence[tuple[str, str]]) -> bool:
    """Return whether a schema has these columns: the same names, types and order.

    Columns of types that Iceberg stores as another (tinyint, char) are the same as that one.
    """
    return sql_columns(schema) == tuple((name, _stored(type_)) for name, type_ in columns)


def _stored(type_: str) -> str:
    return _TEXT.sub("string", _SMALL.sub("int", type_))


def _column(column: Any, base: NestedField | None, ids: Iterator[int]) -> NestedField:
    from pyiceberg.types import NestedField

    name = column["name"]
    comment = _comment(column)
    if base is not None:
        wanted = _type(column["type"], count(1), name)
        if sql_type(wanted) == sql_type(base.field_type):
            return NestedField(base.field_id, name, _optional(base.field_type), doc=comment or base.doc)
        if _is_promotion(base.field_type, wanted):
            return NestedField(base.field_id, name, wanted, doc=comment or base.doc)
    return NestedField(next(ids), name, _type(column["type"], ids, name), doc=comment)


def _is_promotion(old: IcebergType, new: IcebergType) -> bool:
    from pyiceberg.types import DecimalType

    if isinstance(old, DecimalType) and isinstance(new, DecimalType):
        return old.scale == new.scale and old.precision < new.precision
    return (str(old), str(new)) in (("int", "long"), ("float", "double"))


def _optional(type_: IcebergType) -> IcebergType:
    """Return a type with the same ids, and all of its fields optional but the keys of maps."""
    from pyiceberg.types import ListType, MapType, StructType

    match type_:
        case StructType():
            fields = ((field, {"field_type": _optional(field.field_type), "required": False}) for field in type_.fields)
            return StructType(*(field.model_copy(update=changes) for field, changes in fields))
        case ListType():
            return ListType(type_.element_id, _optional(type_.element_type), element_required=False)
        case MapType():
            value = _optional(type_.value_type)
            return MapType(type_.key_id, type_.key_type, type_.value_id, value, value_required=False)
    return type_


def _type(type_: Any, ids: Iterator[int], path: str) -> IcebergType:
    """Return the Iceberg type of one of Spark's JSON schema. Raises RVT-514."""
    from pyiceberg import types

    if isinstance(type_, dict):
        return _nested_type(type_, ids, path)
    if decimal := _DECIMAL.fullmatch(type_):
        return types.DecimalType(int(decimal[1]), int(decimal[2]))
    name = _ICEBERG.get(_TEXT.sub("string", type_))
    if name is None:
        message = f"the column {path} is of the type {type_}, which tables of Iceberg's format 2 cannot store"
        raise RivetError("RVT-514", message, remediation="Cast it in the query to a type that they can store.")
    plain: IcebergType = getattr(types, name)()
    return plain


def _nested_type(type_: Any, ids: Iterator[int], path: str) -> IcebergType:
    from pyiceberg.types import ListType, MapType, NestedField, StructType

    match type_["type"]:
        case "struct":
            numbered = [(next(ids), field) for field in type_["fields"]]
            types = [_type(field["type"], ids, f"{path}.{field['name']}") for _, field in numbered]
            fields = zip(numbered, types, strict=True)
            return StructType(*(NestedField(id_, f["name"], kind, doc=_comment(f)) for (id_, f), kind in fields))
        case "array":
            return ListType(next(ids), _type(type_["elementType"], ids, path), element_required=False)
        case "map":
            key, value = next(ids), next(ids)
            key_type, value_type = _type(type_["keyType"], ids, path), _type(type_["valueType"], ids, path)
            return MapType(key, key_type, value, value_type, value_required=False)
    return _type(type_["sqlType"], ids, path)  # a user-defined type is stored as this one


def _comment(field: Any) -> str | None:
    comment: str | None = field.get("metadata", {}).get("comment")
    return comment
