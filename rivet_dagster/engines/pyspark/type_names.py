"""The types of frames as Spark's SQL writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.model.spark_type import field_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


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
