"""Reading files in place, with a source's inline transforms, and writing them.

Reading CSV and JSON files and separating the records that do not fit the columns.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from rivet_dagster.engines.arrow_values import refuse_repeated, untyped_columns
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.parsing.embedding import in_parentheses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


_WHOLE_BOUNDS = {"parquet.statistics.truncate.length": str(2**31 - 1)}
"""Parquet's default, whatever the session's settings: watermarks and checks believe the bounds of short texts."""

_ROW_GROUPS_OF_PARTS = {"parquet.block.row.count.limit": str(2**18)}
"""Often one task writes a whole part, which several read at once if it has several row groups."""

_GLOB_CHARACTERS = re.compile(r"([\\*?\[\]{}])")


def read_files(spark: SparkSession, files: Files, projection: Projection | None) -> DataFrame:
    """Return a frame over ``files``; nothing is read but what Spark needs to infer the columns.

    The option ``schema`` of a source names all its columns, in order.
    """
    frame = load_files(spark, files)
    if projection is None:
        return frame
    return apply_projection(
        frame if files.schema is None else only_declared(frame, declared_schema(files.schema)), projection
    )


def load_files(spark: SparkSession, files: Files, schema: StructType | None = None) -> DataFrame:
    """Return a frame with the columns of the files; with those of ``schema``, or of their own option, if there is one.

    Spark appends the columns of partition folders like ``day=1``.
    """
    options = {key: value for key, value in files.options.items() if key.lower() != "schema"}
    reader = spark.read.format(files.format).options(**options)
    given = schema if schema is not None or files.schema is None else _parsed(files.schema)
    if given is not None:
        reader = reader.schema(given)
    return reader.load([readable(path) for path in files.paths])


def only_declared(frame: DataFrame, schema: StructType) -> DataFrame:
    """Return only the columns of the schema, without those of partition folders.

    They are named also where the frame has no others: to find out, a server would analyze the frame once more.
    """
    return frame.select(*map(quote_identifier, schema.names))


def declared_schema(schema: str) -> StructType:
    """Return the schema that an option ``schema`` declares."""
    from pyspark.sql.types import StructType

    parsed = _parsed(schema)
    return parsed if isinstance(parsed, StructType) else cast("StructType", StructType.fromDDL(parsed))


def _parsed(schema: str) -> StructType | str:
    """Return a schema in the form that Spark's readers take: DDL unchanged, Spark's JSON parsed."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(json.loads(schema)) if schema.startswith("{") else schema


def write_files(frame: DataFrame, target: Files, split_by: str | None = None) -> None:
    """Run the frame's query and append its rows to the one folder of ``target``. Raises RVT-503.

    The rows of each value of ``split_by`` go into a subfolder, whose name alone holds that column.
    """
    options = {**_WHOLE_BOUNDS, **({} if split_by is None else _ROW_GROUPS_OF_PARTS), **target.options}
    if split_by is not None:
        frame = frame.hint("rebalance", split_by)
    writer = frame.write.format(target.format).options(**options).mode("append")
    if split_by is not None:
        writer = writer.partitionBy(split_by)
    writer.save(local_uri(target.paths[0]))


def local_uri(path: str) -> str:
    """Return a local path as a URI, since a plain path would be one of the cluster's default file system."""
    return f"file://{path}" if path.startswith("/") else path


def readable(path: str) -> str:
    """Return a path for Spark's readers, which take each for a glob; a URI or an existing path is escaped."""
    means_itself = "://" in path or os.path.lexists(path)
    return local_uri(_GLOB_CHARACTERS.sub(r"\\\1", path) if means_itself else path)


def refuse_unstorable(frame: DataFrame) -> None:
    """Raise RVT-316 for columns of the same name, RVT-503 for columns that hold nothing but NULL and have no type."""
    refuse_repeated(frame.columns)
    void = [field.name for field in frame.schema.fields if "void" in _type_names(field.dataType)]
    if void:
        raise untyped_columns(void)  # Spark 4.1 writes such a column, but not every Parquet reader can read it


def _type_names(type_: Any) -> set[str]:
    """Return the names of a type and of all types nested in it."""
    inner = [field.dataType for field in getattr(type_, "fields", ())]
    inner += [getattr(type_, part) for part in ("elementType", "keyType", "valueType") if hasattr(type_, part)]
    return {type_.typeName()}.union(*(_type_names(part) for part in inner))


def apply_projection(frame: DataFrame, projection: Projection) -> DataFrame:
    """Apply the filter, then the column expressions, then the limit."""
    if projection.filter is not None:
        frame = frame.where(projection.filter)
    if projection.columns:
        frame = frame.selectExpr(*(_selected(name, expression) for name, expression in projection.columns))
    return frame if projection.limit is None else frame.limit(projection.limit)


def quote_identifier(name: str) -> str:
    """Return the name as a quoted identifier.

    >>> quote_identifier("unit price")
    '`unit price`'
    """
    return "`" + name.replace("`", "``") + "`"


def _selected(name: str, expression: str | None) -> str:
    return f"{in_parentheses(expression)} AS {quote_identifier(name)}" if expression else quote_identifier(name)


_FORMATS = ("csv", "json")
_OPTION, _SETTING = "columnNameOfCorruptRecord", "spark.sql.columnNameOfCorruptRecord"
_COLUMN = "rivet corrupt record"
"""The column in which Spark puts the text of a record that does not fit the others."""


def read_files_apart(
    spark: SparkSession, files: Files, projection: Projection | None
) -> tuple[DataFrame, DataFrame] | None:
    """Return the rows as ``read_files`` does, and the column ``record`` of the records that do not fit the columns.

    None for files of other formats, and for those whose options say what becomes of such records: a `mode` other than
    PERMISSIVE, or a column of theirs for it. Spark infers columns as for ``read_files``, at most once.
    """
    options = {key.lower(): value for key, value in files.options.items()}
    if files.format not in _FORMATS or options.get("mode", "permissive").lower() != "permissive":
        return None
    if "singlevariantcolumn" in options:
        return None  # every record fits, and Spark takes no schema
    if files.schema is not None:
        named, schema = options.get(_OPTION.lower()) or spark.conf.get(_SETTING), declared_schema(files.schema)
    else:
        named = options.get(_OPTION.lower())
        inferred = load_files(spark, files if named is not None else _with_column(files)).schema
        schema = type(inferred)([field for field in inferred.fields if field.name != _COLUMN])
    if named in schema.names or not schema.fields:
        return None
    frame = _all_columns(load_files(spark, _with_column(files), _and_column(schema)))
    corrupt = frame.where(f"{quote_identifier(_COLUMN)} IS NOT NULL").selectExpr(
        f"{quote_identifier(_COLUMN)} AS record"
    )
    good = frame.where(f"{quote_identifier(_COLUMN)} IS NULL").drop(_COLUMN)
    if projection is None:
        return good, corrupt
    return apply_projection(good if files.schema is None else only_declared(good, schema), projection), corrupt


def _with_column(files: Files) -> Files:
    options = {key: value for key, value in files.options.items() if key.lower() != _OPTION.lower()}
    return replace(files, options={**options, _OPTION: _COLUMN})


def _and_column(schema: StructType) -> StructType:
    return type(schema)(schema.fields).add(_COLUMN, "string")


def _all_columns(frame: DataFrame) -> DataFrame:
    """Return a frame that reads all its columns, whichever of them a query uses.

    Spark parses only the columns that are used, and finds a record to be corrupt only by these. The condition always
    holds, but Spark's optimizer does not know that.
    """
    nulls = ", ".join(f"isnull({quote_identifier(name)})" for name in frame.columns)
    return frame.where(f"size(array({nulls})) > 0")
