"""Reading files in place, with a source's inline transforms, and writing them."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, cast

from rivet_dagster.engines.arrow_values import refuse_repeated, untyped
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.balance import in_parentheses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_GLOB_CHARACTERS = re.compile(r"([\\*?\[\]{}])")


def read_files(spark: SparkSession, files: Files, projection: Projection | None) -> DataFrame:
    """A frame over ``files``; nothing is read but what Spark needs to know the columns.

    A ``schema`` names all columns of a source, in their order.
    """
    options = {key: value for key, value in files.options.items() if key.lower() != "schema"}
    schema = next((value for key, value in files.options.items() if key.lower() == "schema"), None)
    reader = spark.read.format(files.format).options(**options)
    if schema is not None:
        reader = reader.schema(_parsed(schema))
    frame = reader.load([readable(path) for path in files.paths])
    if projection is None:
        return frame
    return projected(frame if schema is None else _declared(frame, schema), projection)


def _declared(frame: DataFrame, schema: str) -> DataFrame:
    """The columns of the schema alone: Spark appends those of folders like ``day=1``."""
    from pyspark.sql.types import StructType

    parsed = _parsed(schema)
    declared = parsed if isinstance(parsed, StructType) else cast("StructType", StructType.fromDDL(parsed))
    names = declared.names
    return frame if frame.columns == names else frame.select(*map(quoted, names))


def _parsed(schema: str) -> StructType | str:
    """A schema as Spark's readers take it: DDL as it stands, what Spark wrote as JSON read."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema)) if schema.startswith("{") else schema


def projected(frame: DataFrame, projection: Projection) -> DataFrame:
    """The rows that pass the filter, then their columns, then as many as the limit allows."""
    if projection.filter is not None:
        frame = frame.where(projection.filter)
    if projection.columns:
        frame = frame.selectExpr(*(_selected(name, expression) for name, expression in projection.columns))
    return frame if projection.limit is None else frame.limit(projection.limit)


def write_files(frame: DataFrame, target: Files, split_by: str | None = None) -> None:
    """Run the frame's query and add its rows to the one folder of ``target``. Raises RVT-316, RVT-503.

    The rows of each value of ``split_by`` go into a subfolder, whose name alone holds that column.
    """
    refuse_repeated(frame.columns)
    void = [field.name for field in frame.schema.fields if "void" in _type_names(field.dataType)]
    if void:
        raise untyped(void)  # Spark 4.1 does write such a column, but not every Parquet reader can read it
    if split_by is not None:
        frame = frame.hint("rebalance", split_by)
    writer = frame.write.format(target.format).options(**target.options).mode("append")
    if split_by is not None:
        writer = writer.partitionBy(split_by)
    writer.save(located(target.paths[0]))


def quoted(name: str) -> str:
    """An identifier that means exactly this column.

    >>> quoted("unit price")
    '`unit price`'
    """
    return "`" + name.replace("`", "``") + "`"


def located(path: str) -> str:
    """A local path as a URI: a plain path would mean the cluster's default store."""
    return f"file://{path}" if path.startswith("/") else path


def readable(path: str) -> str:
    """A path as Spark's readers take it, to whom each is a glob: one that exists as it is written means itself."""
    return located(_GLOB_CHARACTERS.sub(r"\\\1", path) if os.path.lexists(path) else path)


def _selected(name: str, expression: str | None) -> str:
    return f"{in_parentheses(expression)} AS {quoted(name)}" if expression else quoted(name)


def _type_names(type_: Any) -> set[str]:
    """The names of a type and of all within it."""
    inner = [field.dataType for field in getattr(type_, "fields", ())]
    inner += [getattr(type_, part) for part in ("elementType", "keyType", "valueType") if hasattr(type_, part)]
    return {type_.typeName()}.union(*(_type_names(part) for part in inner))
