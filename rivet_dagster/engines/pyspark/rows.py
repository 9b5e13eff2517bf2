"""Rows of Spark as plain Python values."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def collected(frame: DataFrame) -> list[dict[str, Any]]:
    """Return all rows of a small frame; a TIMESTAMP as a datetime in UTC, a TIMESTAMP_NTZ as a naive one."""
    # Not toArrow(): if the driver runs out of memory in it, Spark 4.1 never returns.
    fields = frame.schema.fields
    return [
        {field.name: _plain(value, field.dataType) for field, value in zip(fields, row, strict=True)}
        for row in frame.collect()
    ]


def _plain(value: Any, type_: Any) -> Any:
    if value is None:
        return None
    match type_.typeName():
        case "timestamp":  # pyspark returns it naive, in the time zone of this process
            return value.astimezone(UTC)
        case "array":
            return [_plain(item, type_.elementType) for item in value]
        case "map":
            return {_plain(k, type_.keyType): _plain(v, type_.valueType) for k, v in value.items()}
        case "struct":
            return {f.name: _plain(v, f.dataType) for f, v in zip(type_.fields, value, strict=True)}
    return value
