"""Reading and writing relations with Spark, one module for each kind of relation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivet_dagster.engines.contract import WriteMode, cannot_read, cannot_write
from rivet_dagster.engines.pyspark.relations.arrow_rows import read_arrow_rows
from rivet_dagster.engines.pyspark.relations.catalog_table import read_catalog_table, write_catalog_table
from rivet_dagster.engines.pyspark.relations.files import (
    apply_projection,
    read_files,
    read_files_apart,
    refuse_unstorable,
    write_files,
)
from rivet_dagster.engines.pyspark.relations.jdbc_table import read_jdbc_table, write_jdbc_table
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, JdbcTable, Relation
from rivet_dagster.model.storage import Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivet_dagster.engines.pyspark.adapter import SparkAdapter
    from rivet_dagster.engines.pyspark.relations.arrow_rows import Spool

__all__ = ["read", "read_separated", "write"]


def read(adapter: SparkAdapter, relation: Relation, projection: Projection | None, spool: Spool) -> DataFrame:
    """Return a frame that reads ``relation``, with a source's inline transforms. Raises RVT-519."""
    match relation:
        case Files():
            return read_files(adapter.spark, relation, projection)
        case JdbcTable():
            return read_jdbc_table(adapter.spark, relation, projection)
        case CatalogTable():
            frame = read_catalog_table(adapter.spark, relation)
        case ArrowRows():
            frame = read_arrow_rows(adapter, relation, spool)
        case _:
            raise cannot_read("pyspark", relation)
    return frame if projection is None else apply_projection(frame, projection)


def read_separated(
    spark: SparkSession, relation: Relation, projection: Projection | None
) -> tuple[DataFrame, DataFrame] | None:
    """Return a frame as ``read`` does, without the records that cannot be parsed, and these; None if there are none."""
    return read_files_apart(spark, relation, projection) if isinstance(relation, Files) else None


def write(
    adapter: SparkAdapter, frame: DataFrame, target: Relation, split_by: str | None, mode: WriteMode = "append"
) -> None:
    """Run the frame's query and add its rows to ``target``. Raises RVT-316, RVT-503, RVT-519."""
    refuse_unstorable(frame)
    match target:
        case Files() if mode == "append":
            write_files(frame, target, split_by)
        case CatalogTable(snapshot=None, timestamp=None):
            write_catalog_table(_without(adapter.resolved(frame), split_by), target, mode)
        case JdbcTable() if mode == "append":
            write_jdbc_table(_without(frame, split_by), target)
        case _:
            raise cannot_write("pyspark", target)


def _without(frame: DataFrame, split_by: str | None) -> DataFrame:
    """Return the frame without the column by which files would be split: a table has its own layout."""
    return frame if split_by is None else frame.drop(split_by)
