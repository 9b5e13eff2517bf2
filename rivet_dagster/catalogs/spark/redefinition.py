"""A new definition of a Hive table: its columns and its location at once.

Spark's SQL changes them one after the other, and cannot drop a column of a Hive table at all; in between, readers would
see the old files with the new columns. So the client of the metastore, inside Spark, is given the whole definition, as
Spark itself does for each change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.spark.names import SparkTableName
from rivet_dagster.errors import RivetError

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
