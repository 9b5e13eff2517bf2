"""Rows and types of Spark's frames as plain Python values, names in Spark's SQL and Arrow schemas."""

from __future__ import annotations

from datetime import UTC
from inspect import signature
from typing import TYPE_CHECKING, Any

from rivet_dagster.model.spark_type import field_name

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType


def sql_type(type_: DataType) -> str:
    """Return the type as SQL writes it: Spark's ``simpleString``, with quotes around names of fields that need them."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    match type_:
        case StructType():
            fields = ",".join(f"{field_name(field.name)}:{sql_type(field.dataType)}" for field in type_.fields)
            return f"struct<{fields}>"
        case ArrayType():
            return f"array<{sql_type(type_.elementType)}>"
        case MapType():
            return f"map<{sql_type(type_.keyType)},{sql_type(type_.valueType)}>"
    return type_.simpleString()


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


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the schema as Arrow has it, as in the result of ``toArrow``: a TIMESTAMP is in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    # From Spark 4.2 on the time zone must be named; before, it is UTC, and the parameter does not exist.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    return to_arrow_schema(schema, **zone)
