"""The rows of a table for engines that do not know Iceberg: its data files, or Arrow rows as PyIceberg reads them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from rivet_dagster.catalogs.iceberg.access import TableAccess
from rivet_dagster.catalogs.iceberg.metadata.types import schema_of, sql_columns
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, Relation
from rivet_dagster.model.schema import field_name

if TYPE_CHECKING:
    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.table import DataScan, FileScanTask, Table

_SPARK = "Run the joint on Spark."
_OTHERWISE = frozenset({"uuid", "fixed", "time", "timestamp_ns", "timestamptz_ns", "unknown"})
"""Types of Iceberg whose values Spark reads as those of another one."""


def rows_without_spark(access: TableAccess, relation: CatalogTable) -> Relation:
    """Return the rows of a state of a table. Raises RVT-403, and RVT-519 for what PyIceberg does not read.

    Data files are read in place where none of their rows are deleted and their columns have never been changed.
    """
    name = ".".join(relation.identifier)
    with access.reaching(name):
        table = access.catalog.load_table(relation.identifier[1:])
    if relation.after is not None:
        raise _refused(name, "only the rows that were appended after a snapshot")
    snapshot = _snapshot(table, relation)
    schema = schema_of(table, snapshot)
    columns = sql_columns(schema)
    types = {str(field.field_type).partition("[")[0].partition("(")[0] for field in schema.fields}
    if types & _OTHERWISE or "time" in {kind for _, kind in columns}:
        raise _refused(name, f"columns of the types {', '.join(sorted(types & _OTHERWISE))}")
    ddl = ", ".join(f"{field_name(column)} {kind}" for column, kind in columns)
    try:
        files = local_files(table, snapshot)
    except (NotImplementedError, ValueError) as error:
        raise _refused(name, f"this table: {error}") from error
    if files is not None:
        return Files("parquet", files, {"schema": ddl})
    return _arrow_rows(table.scan(snapshot_id=snapshot), name)


def local_files(table: Table, snapshot: int | None, null: str | None = None) -> tuple[str, ...] | None:
    """Return the paths of the data files of a snapshot if they can be read in place, by the names of the columns.

    Those alone that may have rows in which the column ``null`` is NULL, if one is given. None where they are not local
    Parquet files, rows in them are deleted, or the columns have ever been changed. Raises NotImplementedError or
    ValueError for deletions that PyIceberg does not know.
    """
    from pyiceberg.expressions import AlwaysTrue, IsNull, Reference

    if snapshot is None:
        return ()
    wanted: BooleanExpression = AlwaysTrue() if null is None else IsNull(term=Reference(null))
    tasks = list(table.scan(wanted, snapshot_id=snapshot).plan_files())
    paths = [path for task in tasks if (path := _local_path(task)) is not None]
    return tuple(paths) if len(paths) == len(tasks) and (not tasks or _has_one_schema(table)) else None


def _snapshot(table: Table, relation: CatalogTable) -> int | None:
    """Return the id of the state that is meant; None for a table that has none yet."""
    if relation.snapshot is not None:
        return relation.snapshot
    snapshot: Any = table.current_snapshot()
    if relation.branch is not None:
        snapshot = table.snapshot_by_name(relation.branch)
    elif relation.timestamp is not None:
        moment = datetime.fromisoformat(relation.timestamp)
        snapshot = table.snapshot_as_of_timestamp(int(moment.timestamp() * 1000))
    return None if snapshot is None else int(snapshot.snapshot_id)


def _has_one_schema(table: Table) -> bool:
    """Return whether the names in all data files are those of the columns, which have never been changed."""
    return len(table.metadata.schemas) == 1 and not any(
        field.initial_default is not None for field in table.schema().fields
    )


def _local_path(task: FileScanTask) -> str | None:
    """Return the path of a data file that can be read as it is, None for others."""
    file = task.file
    if task.delete_files or str(getattr(file.file_format, "value", file.file_format)).upper() != "PARQUET":
        return None
    address = urlsplit(file.file_path)
    if address.scheme == "file":
        return unquote(address.path)
    return file.file_path if file.file_path.startswith("/") else None


def _arrow_rows(scan: DataScan, name: str) -> ArrowRows:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    def batches() -> Any:
        try:
            return scan.to_arrow_batch_reader()
        except (NotImplementedError, ValueError) as error:
            raise _refused(name, f"this table: {error}") from error

    return ArrowRows(schema_to_pyarrow(scan.projection()), batches)


def _refused(name: str, what: str) -> RivetError:
    message = f"PyIceberg does not read {what} as Spark does: {name}"
    return RivetError("RVT-519", message, remediation=_SPARK)
