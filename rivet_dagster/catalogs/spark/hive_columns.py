"""The columns of a Hive table as DDL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rivet_dagster.errors import RivetError

_TYPES = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    **{name: name.upper() for name in ("boolean", "float", "double", "string", "binary", "date", "timestamp")},
}
"""Types that Hive's metastore has, by their names in the JSON of a schema; DECIMAL(p, s) is another."""


def columns_ddl(schema: str) -> str:
    """Return the columns of a schema, which is the JSON of Spark's StructType, as they stand in CREATE TABLE.

    Raises RVT-404 for columns of types that Hive's metastore does not have.

    >>> columns_ddl('{"type": "struct", "fields": [{"name": "id", "type": "long"}, {"name": "at", "type": "date"}]}')
    '`id` BIGINT, `at` DATE'
    """
    fields = json.loads(schema)["fields"]
    unknown = [(field["name"], name) for field in fields for name in _unknown(field["type"])]
    if unknown:
        columns = ", ".join(f"'{column}' ({name})" for column, name in unknown)
        raise RivetError(
            "RVT-404",
            f"a Hive table has no columns of these types: {columns}",
            remediation="Give the columns other types, with CAST; a TIMESTAMP_NTZ can be a TIMESTAMP.",
        )
    return ", ".join(f"{_quoted(field['name'])} {_ddl(field['type'])}" for field in fields)


def _unknown(type_: Any) -> Iterator[str]:
    match type_:
        case str():
            if type_ not in _TYPES and not type_.startswith("decimal("):
                yield type_
        case {"type": "struct", "fields": fields}:
            for field in fields:
                yield from _unknown(field["type"])
        case {"type": "array", "elementType": element}:
            yield from _unknown(element)
        case {"type": "map", "keyType": key, "valueType": value}:
            yield from _unknown(key)
            yield from _unknown(value)
        case _:
            yield str(type_.get("type"))


def _ddl(type_: Any) -> str:
    match type_:
        case {"type": "struct", "fields": fields}:
            members = (f"{_quoted(field['name'])}: {_ddl(field['type'])}" for field in fields)
            return f"STRUCT<{', '.join(members)}>"
        case {"type": "array", "elementType": element}:
            return f"ARRAY<{_ddl(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"MAP<{_ddl(key)}, {_ddl(value)}>"
    return _TYPES.get(type_) or str(type_).upper()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
