"""The definition of a table in Hive's metastore, as far as Spark's SQL has no one statement that changes it.

Each change is one call of Spark's client of the metastore, together with the table's location.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.spark.names import SparkTableName
from rivet_dagster.errors import RivetError

_SCHEMA = "spark.sql.sources.schema"
_OLD = (_SCHEMA, "spark.sql.statistics")
"""Properties of the old definition: columns, with the letter case that Hive loses, and statistics."""
_IN_BUCKETS = re.compile(rf"{re.escape(_SCHEMA)}\.(?:num(?:Buckets|BucketCols|SortCols)|(?:bucket|sort)Col\.\d+)")
"""The properties of a table in which Spark keeps its buckets."""
_OF_COLUMNS = re.compile(rf"{re.escape(_SCHEMA)}(?:\.numParts|\.part\.\d+)?")
"""The properties of a table in which Spark keeps its columns."""
VERSION = "rivet.version"
"""The property of a table that is PARTITIONED BY with the version that it was switched to last."""
VERSION_BEFORE = "rivet.version.before"
"""That with the version before it, which is there as long as it is not certain that the switch has happened."""
NOTHING = "none"
"""Its value if nothing was published before: not all metastores keep an empty text."""
_LONGEST = 4000
"""The length of the longest value that all metastores take; Spark divides a longer schema."""


def redefine(spark: Any, name: SparkTableName, schema: str, folder: Path) -> None:
    """Give a table the columns of ``schema``, which is the JSON of a StructType, and ``folder`` as its location.

    Raises RVT-402 on Spark Connect, through which the metastore's client is not within reach.
    """
    if is_remote(spark):
        raise RivetError(
            "RVT-402",
            f"the new version of {name} has other columns, which Spark Connect cannot switch with the rows",
            remediation="Have the query give the table's columns, drop the table, or run it on a `master`.",
        )
    others = {key: value for key, value in _properties(spark, name).items() if not key.startswith(_OLD)}
    columns = spark._jvm.org.apache.spark.sql.types.DataType.fromJson(schema)
    _alter(spark, name, folder, {"schema": columns}, others | schema_properties(schema))


@dataclass(frozen=True)
class Buckets:
    """The buckets of a table: Hive's number, columns and sort columns, and the properties in which Spark keeps them.

    A table that was created with USING has the properties alone, one of Hive's own may have none.
    """

    properties: Mapping[str, str]
    hives: tuple[int, Sequence[str], Sequence[str]] | None = None

    @classmethod
    def of(cls, spark: Any, name: SparkTableName) -> Buckets:
        """Return the buckets of a table that has some. Raises RVT-402 on Spark Connect."""
        if is_remote(spark):
            message = f"{name} has buckets, which Spark Connect cannot take from it together with its location"
            raise RivetError("RVT-402", message, remediation="Take it over with an engine that runs on a `master`.")
        found = client_of(spark).getTable(name.database, name.table).bucketSpec()
        properties = {key: value for key, value in _properties(spark, name).items() if _IN_BUCKETS.fullmatch(key)}
        if found.isEmpty():
            return cls(properties)
        spec = found.get()
        columns, sorted_by = (_texts(names) for names in (spec.bucketColumnNames(), spec.sortColumnNames()))
        return cls(properties, (spec.numBuckets(), columns, sorted_by))


def set_buckets(spark: Any, name: SparkTableName, folder: Path, buckets: Buckets | None) -> None:
    """Give a table these buckets, or none, and ``folder`` as its location; it is not on Spark Connect."""
    jvm, spec = spark._jvm, None
    if buckets is not None and buckets.hives is not None:
        number, *columns = buckets.hives
        to_seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        spec = jvm.org.apache.spark.sql.catalyst.catalog.BucketSpec(number, *map(to_seq, map(list, columns)))
    others = {key: value for key, value in _properties(spark, name).items() if not _IN_BUCKETS.fullmatch(key)}
    properties = others | dict(buckets.properties if buckets is not None else {})
    _alter(spark, name, folder, {"bucketSpec": jvm.scala.Option.apply(spec)}, properties)


def is_remote(spark: Any) -> bool:
    """Return whether a session is one of Spark Connect, through which the metastore's client is not within reach."""
    return ".connect." in type(spark).__module__


def client_of(spark: Any) -> Any:
    """Return Spark's client of the metastore: its SQL has no statement that changes this and the location at once."""
    return spark._jsparkSession.sharedState().externalCatalog().unwrapped().client()


def _properties(spark: Any, name: SparkTableName) -> dict[str, str]:
    return dict(entries_of(client_of(spark).getTable(name.database, name.table).properties()))


def set_version(spark: Any, name: SparkTableName, version: Mapping[str, str], more: Sequence[str] = ()) -> None:
    """Give a table that is PARTITIONED BY the properties ``version`` in place of all others of ours, in one change.

    ``more`` are columns that it gets, too, before those of its partitions; each is the JSON of a StructField. The table
    is not on Spark Connect.
    """
    others = {
        key: value
        for key, value in _properties(spark, name).items()
        if not key.startswith((VERSION, "spark.sql.statistics"))
    }
    changes = {}
    if more:
        table = spark._jsparkSession.sharedState().externalCatalog().getTable(name.database, name.table)
        fields = json.loads(table.schema().json())["fields"]
        at = len(fields) - table.partitionColumnNames().size()
        schema = json.dumps({"type": "struct", "fields": [*fields[:at], *map(json.loads, more), *fields[at:]]})
        others = {key: value for key, value in others.items() if not _OF_COLUMNS.fullmatch(key)}
        others |= schema_properties(schema)
        changes["schema"] = spark._jvm.org.apache.spark.sql.types.DataType.fromJson(schema)
    _alter(spark, name, None, changes, others | dict(version))


def _alter(
    spark: Any, name: SparkTableName, folder: Path | None, changes: Mapping[str, Any], properties: Mapping[str, str]
) -> None:
    """Change the properties and other fields of a table, and its location, in one change of the metastore."""
    jvm, client = spark._jvm, client_of(spark)
    table = client.getTable(name.database, name.table)
    scala_map = jvm.org.apache.spark.api.python.PythonUtils.toScalaMap
    if folder is None:
        client.alterTable(
            name.database, name.table, copy_with(table, {"properties": scala_map(dict(properties)), **changes})
        )
        return
    location = jvm.org.apache.hadoop.fs.Path(f"file:{folder}").toUri()
    # A table that was created with USING has its location here, too.
    options = {
        key: f"file:{folder}" if key == "path" else value for key, value in entries_of(table.storage().properties())
    }
    places = {"locationUri": jvm.scala.Option.apply(location), "properties": scala_map(options)}
    storage = copy_with(table.storage(), places)
    changed = copy_with(table, {"storage": storage, "properties": scala_map(dict(properties)), **changes})
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


def copy_with(record: Any, changed: Mapping[str, Any]) -> Any:
    """Return a copy of a Scala case class with some fields changed."""
    names = [record.productElementName(position) for position in range(record.productArity())]
    return record.copy(*(changed.get(name, record.productElement(at)) for at, name in enumerate(names)))


def entries_of(scala_map: Any) -> list[tuple[str, str]]:
    """Return the entries of a Scala map."""
    entries, iterator = [], scala_map.iterator()
    while iterator.hasNext():
        entry = iterator.next()
        entries.append((entry._1(), entry._2()))
    return entries


def _texts(scala_seq: Any) -> list[str]:
    return [scala_seq.apply(position) for position in range(scala_seq.size())]
