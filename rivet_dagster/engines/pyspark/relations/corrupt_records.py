"""Reading CSV and JSON files and separating the records that do not fit the columns."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rivet_dagster.engines.pyspark.relations.files import declared_schema, load_files, only_declared, projected, quoted
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

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
    corrupt = frame.where(f"{quoted(_COLUMN)} IS NOT NULL").selectExpr(f"{quoted(_COLUMN)} AS record")
    good = frame.where(f"{quoted(_COLUMN)} IS NULL").drop(_COLUMN)
    if projection is None:
        return good, corrupt
    return projected(good if files.schema is None else only_declared(good, schema), projection), corrupt


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
    nulls = ", ".join(f"isnull({quoted(name)})" for name in frame.columns)
    return frame.where(f"size(array({nulls})) > 0")
