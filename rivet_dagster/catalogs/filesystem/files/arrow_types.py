"""The Spark SQL types of Arrow types, as Spark reads them from files of other writers."""

from __future__ import annotations

from typing import Any

from rivet_dagster.model.spark_type import field_name

_PLAIN = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
}


def sql_type(type_: Any) -> str | None:
    """Return the name of the type that Spark gives such a column; None if it has none, or if it is not certain.

    >>> import pyarrow as pa
    >>> sql_type(pa.map_(pa.string(), pa.list_(pa.struct([("at", pa.timestamp("us", "UTC")), ("n", pa.uint8())]))))
    'map<string,array<struct<at:timestamp,n:smallint>>>'
    """
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(type_):
        return sql_type(type_.value_type)
    if types.is_timestamp(type_):
        # Spark refuses nanoseconds.
        return None if type_.unit == "ns" else "timestamp" if type_.tz else "timestamp_ntz"
    if isinstance(type_, pa.Decimal128Type):
        return f"decimal({type_.precision},{type_.scale})"
    if types.is_fixed_size_binary(type_):
        return "binary"
    if types.is_map(type_):
        return _nested("map<{},{}>", type_.key_type, type_.item_type)
    if types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_):
        return _nested("array<{}>", type_.value_type)
    if types.is_struct(type_):
        kinds = [(field_name(field.name), sql_type(field.type)) for field in type_]
        known = [f"{name}:{kind}" for name, kind in kinds if kind is not None]
        return f"struct<{','.join(known)}>" if len(known) == len(kinds) else None
    return _PLAIN.get(str(type_))


def _nested(template: str, *types: Any) -> str | None:
    names = [sql_type(type_) for type_ in types]
    return None if None in names else template.format(*names)
