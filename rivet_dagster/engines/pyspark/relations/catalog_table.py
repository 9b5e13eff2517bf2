"""Tables of the Spark catalogs that are configured in the session, and of its own catalog."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rivet_dagster.engines.pyspark.relations.projection import quoted
from rivet_dagster.model.relations import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWN = "spark_catalog"
"""The session's own catalog, whose tables are written by ``saveAsTable``."""


def read_catalog_table(spark: SparkSession, table: CatalogTable) -> DataFrame:
    """Return a frame that reads the table, at the branch, snapshot or timestamp that it names."""
    return spark.read.options(**_state(table)).table(table_name(table))


def write_catalog_table(frame: DataFrame, table: CatalogTable) -> None:
    """Append the rows to the table, which must exist, or to its branch; columns are matched by name."""
    name = table_name(table)
    if table.identifier[0] == _OWN or (len(table.identifier) < 3 and table.branch is None):
        frame.sparkSession.table(name)  # saveAsTable would create it
        frame.write.mode("append").saveAsTable(name)
    else:
        branch = "" if table.branch is None else f".{quoted(f'branch_{table.branch}')}"
        frame.writeTo(name + branch).append()


def table_name(table: CatalogTable) -> str:
    """Return the name as Spark's SQL writes it.

    >>> table_name(CatalogTable(("lake", "shop", "orders")))
    '`lake`.`shop`.`orders`'
    """
    return ".".join(map(quoted, table.identifier))


def _state(table: CatalogTable) -> dict[str, str]:
    """Return the reader options for a branch, snapshot or timestamp.

    >>> _state(CatalogTable(("t",), timestamp="2024-01-01T00:00:00Z"))
    {'as-of-timestamp': '1704067200000'}
    """
    if table.branch is not None:
        return {"branch": table.branch}
    if table.snapshot is not None:
        return {"snapshot-id": str(table.snapshot)}
    if table.timestamp is not None:
        moment = datetime.fromisoformat(table.timestamp)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return {"as-of-timestamp": str(round(moment.timestamp() * 1000))}
    return {}
