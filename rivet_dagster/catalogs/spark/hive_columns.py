"""The columns of a Hive table as DDL."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.spark.names import SparkTableName
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


_SCHEMA = "spark.sql.sources.schema"
_OLD = (_SCHEMA, "spark.sql.statistics")
"""Properties of the old definition: columns, with the letter case that Hive loses, and statistics."""
_LONGEST = 4000
"""The length of the longest value that all metastores take; Spark divides a longer schema."""


def redefine(spark: Any, name: SparkTableName, schema: str, folder: Path) -> None:
    """Give a table the columns of ``schema``, which is the JSON of a StructType, and ``folder`` as its location.

    Raises RVT-402 on Spark Connect, through which the metastore's client is not within reach.
    """
    if ".connect." in type(spark).__module__:
        raise RivetError(
            "RVT-402",
            f"the new version of {name} has other columns, which Spark Connect cannot switch with the rows",
            remediation="Have the query give the table's columns, drop the table, or run it on a `master`.",
        )
    jvm, client = spark._jvm, spark._jsparkSession.sharedState().externalCatalog().unwrapped().client()
    table = client.getTable(name.database, name.table)
    location = jvm.org.apache.hadoop.fs.Path(f"file:{folder}").toUri()
    storage = _copy(table.storage(), {"locationUri": jvm.scala.Option.apply(location)})
    kept = {key: value for key, value in _entries(table.properties()) if not key.startswith(_OLD)}
    properties = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap(kept | schema_properties(schema))
    columns = jvm.org.apache.spark.sql.types.DataType.fromJson(schema)
    changed = _copy(table, {"storage": storage, "schema": columns, "properties": properties})
    client.alterTable(name.database, name.table, changed)


def schema_properties(schema: str) -> dict[str, str]:
    """Return the properties of a table in which Spark keeps its columns.

    >>> schema_properties("x" * 4001) == {
    ...     "spark.sql.sources.schema.numParts": "2",
    ...     "spark.sql.sources.schema.part.0": "x" * 4000,
    ...     "spark.sql.sources.schema.part.1": "x",
    ... }
    True
    """
    if len(schema) <= _LONGEST:
        return {_SCHEMA: schema}
    parts = [schema[start : start + _LONGEST] for start in range(0, len(schema), _LONGEST)]
    numbered = {f"{_SCHEMA}.part.{number}": part for number, part in enumerate(parts)}
    return {f"{_SCHEMA}.numParts": str(len(parts)), **numbered}


def _copy(record: Any, changed: Mapping[str, Any]) -> Any:
    """Return a copy of a Scala case class with some fields changed."""
    names = [record.productElementName(position) for position in range(record.productArity())]
    return record.copy(*(changed.get(name, record.productElement(at)) for at, name in enumerate(names)))


def _entries(scala_map: Any) -> list[tuple[str, str]]:
    entries, iterator = [], scala_map.iterator()
    while iterator.hasNext():
        entry = iterator.next()
        entries.append((entry._1(), entry._2()))
    return entries
