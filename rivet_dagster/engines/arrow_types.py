"""The Arrow types and Python values of columns, the same as those that Spark gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from rivet_dagster.model.schema import SparkType

_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
}


def arrow_schema(columns: Sequence[tuple[str, SparkType]]) -> pa.Schema:
    """Return the schema of columns."""
    return pa.schema([(name, arrow_type(kind)) for name, kind in columns])


def arrow_type(type_: SparkType) -> pa.DataType:
    """Return the Arrow type of one of Spark's.

    >>> from rivet_dagster.model.schema import parse_type
    >>> arrow_type(parse_type("array<struct<at:timestamp>>"))
    ListType(list<element: struct<at: timestamp[us, tz=UTC]>>)
    """
    parts = [arrow_type(part) for part in type_.parts]
    match type_.kind:
        case "decimal":
            return pa.decimal128(type_.precision, type_.scale)
        case "array":
            return pa.list_(pa.field("element", parts[0]))
        case "map":
            return pa.map_(*parts)
        case "struct":
            return pa.struct(list(zip(type_.names, parts, strict=True)))
    return _TYPES[type_.kind]


def plain_rows(table: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows as dictionaries; maps are dictionaries, too."""
    columns = [column.to_pylist(maps_as_pydicts="strict") for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
