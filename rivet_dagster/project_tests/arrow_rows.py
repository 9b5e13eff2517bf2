"""Rows of Arrow as plain values with Spark's types, and back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rivet_dagster.model.schema import SparkType

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Table:
    """Rows in memory: structs are dicts and maps lists of pairs."""

    columns: tuple[tuple[str, SparkType], ...]
    rows: tuple[tuple[Any, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(name for name, _ in self.columns)


def table_of(fields: Iterable[pa.Field], columns: Iterable[pa.Array | pa.ChunkedArray], rows: int) -> Table:
    """Return the rows of columns of Arrow."""
    described = tuple((field.name, spark_type(field.type)) for field in fields)
    values = [column.to_pylist() for column in columns]
    return Table(described, tuple(zip(*values, strict=True)) if values else ((),) * rows)


def spark_type(type_: pa.DataType) -> SparkType:
    """Return the type of Spark; one of which nothing but its name is known where a test cannot hold its values.

    >>> import pyarrow as pa
    >>> str(spark_type(pa.map_(pa.string(), pa.list_(pa.struct([("at", pa.timestamp("us", "UTC"))])))))
    'map<string,array<struct<at:timestamp>>>'
    """
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(type_):
        return spark_type(type_.value_type)
    if types.is_timestamp(type_):
        return SparkType("timestamp" if type_.tz else "timestamp_ntz")
    if types.is_decimal(type_):
        return SparkType("decimal", precision=type_.precision, scale=type_.scale)
    if types.is_map(type_):
        return SparkType("map", (spark_type(type_.key_type), spark_type(type_.item_type)))
    if types.is_list(type_) or types.is_large_list(type_):
        return SparkType("array", (spark_type(type_.value_type),))
    if types.is_struct(type_):
        fields = [pa.field(field.name, field.type) for field in type_]
        return SparkType("struct", tuple(spark_type(f.type) for f in fields), tuple(f.name for f in fields))
    return SparkType(_PLAIN.get(str(type_), str(type_)))


_PLAIN = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "large_string": "string",
    "string_view": "string",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
    "null": "void",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
}
