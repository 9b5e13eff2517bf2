"""Reading files in place, with a source's inline transforms, and writing them."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, cast

from rivet_dagster.engines.pyspark.relations.projection import projected, quoted
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Projection

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


def write_files(frame: DataFrame, target: Files, split_by: str | None = None) -> None:
    """Run the frame's query and add its rows to the one folder of ``target``. Raises RVT-503.

    The rows of each value of ``split_by`` go into a subfolder, whose name alone holds that column.
    """
    if split_by is not None:
        frame = frame.hint("rebalance", split_by)
    writer = frame.write.format(target.format).options(**target.options).mode("append")
    if split_by is not None:
        writer = writer.partitionBy(split_by)
    writer.save(located(target.paths[0]))


def located(path: str) -> str:
    """A local path as a URI: a plain path would mean the cluster's default store."""
    return f"file://{path}" if path.startswith("/") else path


def readable(path: str) -> str:
    """A path as Spark's readers take it, to whom each is a glob: one that exists as it is written means itself."""
    return located(_GLOB_CHARACTERS.sub(r"\\\1", path) if os.path.lexists(path) else path)
