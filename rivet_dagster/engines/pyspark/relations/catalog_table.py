"""Tables of the Spark catalogs that are configured in the session, and of its own catalog."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rivet_dagster.engines.contract import WriteMode, cannot_write
from rivet_dagster.engines.pyspark.relations.files import quote_identifier
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_OWN = "spark_catalog"
"""The session's own catalog, whose tables are written by ``saveAsTable``."""

_AUDIT = ("spark.wap.branch", "spark.wap.id")


def read_catalog_table(spark: SparkSession, table: CatalogTable) -> DataFrame:
    """Return a frame that reads the table, at the branch, snapshot or timestamp that it names."""
    return spark.read.options(**_state(table)).table(table_name(table))


def write_catalog_table(frame: DataFrame, table: CatalogTable, mode: WriteMode = "append") -> None:
    """Write the rows to the table, which must exist, or to its branch; columns are matched by name."""
    if table.identifier[0] == _OWN or (len(table.identifier) < 3 and table.branch is None):
        if mode != "append":
            raise cannot_write("pyspark", table)
        frame.sparkSession.table(table_name(table))  # saveAsTable would create it
        frame.write.mode("append").saveAsTable(table_name(table))
        return
    refuse_audit_settings(frame.sparkSession)
    # Spark would analyze the frame's own query a second time, with the views of now.
    writer = frame.select("*").writeTo(written_name(table))
    match mode:
        case "append":
            writer.append()
        case "overwrite":
            from pyspark.sql.functions import lit

            writer.overwrite(lit(True))
        case "overwrite_partitions":
            writer.overwritePartitions()


def refuse_audit_settings(spark: SparkSession) -> None:
    """Raise RVT-502 if Iceberg's write-audit-publish has the session write elsewhere than its statements say."""
    for key in _AUDIT:
        if spark.conf.get(key, ""):
            message = f"Spark's setting `{key}` sends rows to another branch, or to none, than they are written to"
            remedy = f"Remove `{key}` from the engine's `config` and from Spark's defaults: versions are judged here."
            raise RivetError("RVT-502", message, remediation=remedy)


def written_name(table: CatalogTable) -> str:
    """Return the name under which statements of Spark's SQL write to the table, or to its branch.

    >>> written_name(CatalogTable(("lake", "shop", "orders"), branch="audit"))
    '`lake`.`shop`.`orders`.`branch_audit`'
    """
    return table_name(table) + ("" if table.branch is None else f".{quote_identifier(f'branch_{table.branch}')}")


def table_name(table: CatalogTable) -> str:
    """Return the name as Spark's SQL writes it.

    >>> table_name(CatalogTable(("lake", "shop", "orders")))
    '`lake`.`shop`.`orders`'
    """
    return ".".join(map(quote_identifier, table.identifier))


def _state(table: CatalogTable) -> dict[str, str]:
    """Return the reader options for a branch, snapshot or timestamp, or for the rows appended between two snapshots.

    >>> _state(CatalogTable(("t",), timestamp="2024-01-01T00:00:00Z"))
    {'timestampAsOf': '2024-01-01T00:00:00+00:00'}
    >>> _state(CatalogTable(("t",), snapshot=2, after=1))
    {'start-snapshot-id': '1', 'end-snapshot-id': '2'}
    """
    if table.after is not None:
        return {"start-snapshot-id": str(table.after), "end-snapshot-id": str(table.snapshot)}
    if table.branch is not None:
        return {"versionAsOf": table.branch}
    if table.snapshot is not None:
        return {"versionAsOf": str(table.snapshot)}
    if table.timestamp is not None:
        moment = datetime.fromisoformat(table.timestamp)
        return {"timestampAsOf": (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat()}
    return {}
