"""The types of DuckDB and those of Spark: which is which, and how each is written.

Spark's schemas as JSON, as Spark writes them into the footers of Parquet files.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType, parse_type

_SPARK = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "varchar": "string",
    "blob": "binary",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamp with time zone": "timestamp",
    "null": "void",
}
"""Spark's types, by DuckDB's ids of the types with the same values."""

_DUCKDB = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "void": '"NULL"',
}

_CAST = {
    "utinyint": "smallint",
    "usmallint": "int",
    "uinteger": "bigint",
    "ubigint": "decimal(20,0)",
    "hugeint": "decimal(38,0)",
    "enum": "string",
    "uuid": "string",
    "timestamp_s": "timestamp_ntz",
    "timestamp_ms": "timestamp_ntz",
    "timestamp_ns": "timestamp_ntz",
}
"""The types as which values of DuckDB's further types are stored, as of Arrow's types with the same names."""

_JSON = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
_FROM_JSON = {name: kind for kind, name in _JSON.items()}


def spark_type(type_: Any) -> SparkType | None:
    """Return Spark's type for the values of a type of DuckDB, given as ``DuckDBPyType``; None where it has none.

    Types that Spark does not have, but whose values it can store, give the type as which they are stored.
    """
    kind = type_.id
    if kind in _SPARK:
        return SparkType(_SPARK[kind])
    if kind in _CAST:
        return parse_type(_CAST[kind])
    if kind == "decimal":
        digits = dict(type_.children)
        return SparkType("decimal", precision=digits["precision"], scale=digits["scale"])
    if kind not in ("list", "array", "map", "struct"):
        return None
    inner = [(name, spark_type(part)) for name, part in type_.children if name != "size"]
    parts = tuple(part for _, part in inner if part is not None)
    if len(parts) < len(inner):
        return None
    names = tuple(name for name, _ in inner) if kind == "struct" else ()
    return SparkType({"list": "array"}.get(kind, kind), parts, names)


def duckdb_type(type_: SparkType) -> str:
    """Return the type of DuckDB whose values are those of one of Spark's, as DuckDB's SQL writes it.

    >>> duckdb_type(parse_type("map<string,array<struct<a:int,`b c`:decimal(4,2)>>>"))
    'MAP(VARCHAR, STRUCT("a" INTEGER, "b c" DECIMAL(4,2))[])'
    """
    parts = [duckdb_type(part) for part in type_.parts]
    match type_.kind:
        case "decimal":
            return f"DECIMAL({type_.precision},{type_.scale})"
        case "array":
            return f"{parts[0]}[]"
        case "map":
            return f"MAP({parts[0]}, {parts[1]})"
        case "struct":
            fields = zip(type_.names, parts, strict=True)
            return f"STRUCT({', '.join(f'{quoted(name)} {part}' for name, part in fields)})"
    if type_.kind not in _DUCKDB:
        message = f"DuckDB has no type with the values of Spark's {type_}"
        raise RivetError("RVT-519", message, remediation="Run the joint on Spark, or leave the column out.")
    return _DUCKDB[type_.kind]


def is_the_same(type_: Any, meant: SparkType) -> bool:
    """Return whether a type of DuckDB is the one that ``duckdb_type`` returns for ``meant``."""
    kind = type_.id
    if kind not in ("list", "map", "struct", "decimal"):
        return _SPARK.get(kind) == meant.kind
    if kind == "decimal":
        return spark_type(type_) == meant
    children = [part for _, part in type_.children]
    return {"list": "array"}.get(kind, kind) == meant.kind and all(
        is_the_same(child, part) for child, part in zip(children, meant.parts, strict=True)
    )


def with_zone(type_: SparkType) -> SparkType:
    """Return a type whose timestamps, nested ones too, have a time zone.

    >>> str(with_zone(parse_type("array<struct<at:timestamp_ntz>>")))
    'array<struct<at:timestamp>>'
    """
    kind = "timestamp" if type_.kind == "timestamp_ntz" else type_.kind
    return replace(type_, kind=kind, parts=tuple(map(with_zone, type_.parts)))


def has_void(type_: SparkType) -> bool:
    """Return whether a type, or one nested in it, is that of columns that hold nothing but NULL."""
    return type_.kind == "void" or any(map(has_void, type_.parts))


def schema_json(columns: tuple[tuple[str, SparkType], ...]) -> str:
    """Return the columns as the JSON that Spark writes into its files.

    >>> schema_json((("id", SparkType("bigint")),))
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
    """
    struct = SparkType("struct", tuple(kind for _, kind in columns), tuple(name for name, _ in columns))
    return json.dumps(_as_json(struct), ensure_ascii=False, separators=(",", ":"))


def _as_json(type_: SparkType) -> Any:
    parts = [_as_json(part) for part in type_.parts]
    match type_.kind:
        case "array":
            return {"type": "array", "elementType": parts[0], "containsNull": True}
        case "map":
            return {"type": "map", "keyType": parts[0], "valueType": parts[1], "valueContainsNull": True}
        case "struct":
            fields = zip(type_.names, parts, strict=True)
            return {"type": "struct", "fields": [_json_field(name, part) for name, part in fields]}
    return _JSON.get(type_.kind, str(type_))


def _json_field(name: str, type_: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "nullable": True, "metadata": {}}


def parse_json(schema: str) -> tuple[tuple[str, SparkType], ...]:
    """Return the columns of the JSON that Spark writes into its files. Raise ValueError for types DuckDB cannot read.

    >>> parse_json(schema_json((("n", parse_type("array<struct<a:decimal(4,2)>>")),))) == (
    ...     ("n", parse_type("array<struct<a:decimal(4,2)>>")),)
    True
    """
    return tuple((field["name"], _of_field(field)) for field in json.loads(schema)["fields"])


def _of_field(field: Any) -> SparkType:
    if "__COLLATIONS" in field.get("metadata", {}):
        raise ValueError(f"the column {field['name']} has a collation")
    return _of_json(field["type"])


def _of_json(type_: Any) -> SparkType:
    if isinstance(type_, str):
        return parse_type(_FROM_JSON.get(type_, type_))
    match type_["type"]:
        case "array":
            return SparkType("array", (_of_json(type_["elementType"]),))
        case "map":
            return SparkType("map", (_of_json(type_["keyType"]), _of_json(type_["valueType"])))
        case "struct":
            fields = type_["fields"]
            return SparkType("struct", tuple(map(_of_field, fields)), tuple(field["name"] for field in fields))
    return _of_json(type_["sqlType"])  # a user-defined type is stored as this one


def quoted(name: str) -> str:
    """Return a name as DuckDB's SQL quotes it.

    >>> quoted('a"b')
    '"a""b"'
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text as a literal of DuckDB's SQL, in which a backslash has no meaning.

    >>> literal("it's")
    "'it''s'"
    """
    return "'" + text.replace("'", "''") + "'"
