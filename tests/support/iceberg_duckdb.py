"""An engine for tables of Iceberg that needs no JVM: DuckDB computes the rows, PyIceberg reads and writes them.

It makes the same commits as Spark: one for each write, and for each statement.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import sqlglot
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import ArrowScan, _dataframe_to_data_files, schema_to_pyarrow
from pyiceberg.table import Table
from sqlglot import exp

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.model.plugins import SPARK
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, Kinds, Relation
from rivet_dagster.model.storage import Projection
from support.duckdb_engine import DuckDBEngine, DuckDBSession, _bound, _projected

_SPARK_JSON = {"int": "integer", "bigint": "long"}
_BRANCH = "branch_"
_TRIES = 20


class IcebergDuckDBEngine(DuckDBEngine):
    """The engine of a project; its option ``lakes`` are the options of the Iceberg catalogs, by their names."""

    options: ClassVar[frozenset[str]] = frozenset({"lakes"})
    reads: ClassVar[Kinds] = frozenset({Files, ArrowRows, CatalogTable})
    writes: ClassVar[Kinds] = frozenset({Files, CatalogTable})

    def __init__(self, spec: Any, connect: Any = None, check_interrupt: Any = None, needs: Any = ()) -> None:
        super().__init__(spec, connect, check_interrupt, needs)
        self._lakes = spec.options["lakes"]

    def session(self) -> IcebergDuckDB:
        """Begin a separate database."""
        return session(Path(), **self._lakes)


class IcebergDuckDB(DuckDBSession):
    """A session that reaches the Iceberg catalogs ``lakes``, by their names; ``of_ref`` opens one at another ref."""

    def __init__(self, lakes: Mapping[str, Catalog], of_ref: Callable[[str, str], Catalog] | None = None) -> None:
        super().__init__(frozenset({Files, ArrowRows}), lambda: None)
        self._lakes = lakes
        self._of_ref = of_ref

    def load(self, relation: Relation, projection: Projection | None = None) -> str:
        """Read the rows of a snapshot, or those that were appended after another one."""
        if not isinstance(relation, CatalogTable):
            return super().load(relation, projection)
        frame = self._of(_rows(self._table(relation), relation).to_reader())
        return frame if projection is None else self.query(_projected(frame, projection))

    def schema(self, frame: str) -> str:
        """Return the columns as Spark's JSON."""
        fields = [
            {"name": name, "type": _SPARK_JSON.get(kind, kind), "nullable": True, "metadata": {}}
            for name, kind in self.columns(frame)
        ]
        return json.dumps({"type": "struct", "fields": fields})

    def write(
        self, frame: str, target: Relation, progress: Any = None, split_by: Any = None, mode: str = "append"
    ) -> None:
        """Write the rows by one commit."""
        if not isinstance(target, CatalogTable):
            super().write(frame, target, progress, split_by)
            return
        rows = self.to_arrow(frame)
        for _ in range(_TRIES):
            table = self._table(target)
            fitted = _fitted(rows, schema_to_pyarrow(table.schema()))
            try:
                if mode == "append":
                    table.append(fitted, branch=target.branch or "main")
                else:
                    _overwrite(table, fitted, target.branch or "main")
                return
            except (CommitFailedException, ValueError) as error:  # others committed; Iceberg's Java retries by itself
                last = error
        raise last

    def execute(self, sql: str, parameters: Mapping[str, Any] | None = None, progress: Any = None) -> None:
        """Carry out a MERGE or DELETE in DuckDB, and replace the rows of the branch by its result, in one commit."""
        statement = sqlglot.parse_one(sql, read=SPARK)
        written = statement.this
        written = statement.this if isinstance(statement.this, exp.Table) else statement.this.this
        *name, branch = [part.name for part in written.parts]
        target = CatalogTable(tuple(name), branch=branch.removeprefix(_BRANCH))
        rows = self.load(target)
        written.replace(exp.to_table(rows, alias=written.alias or None))
        for update in statement.find_all(exp.Update):
            for assigned in update.expressions:
                assigned.this.set("table", None)
        self._run(lambda: self._database.execute(statement.sql("duckdb"), _bound(sql, parameters)))
        self.write(rows, target, mode="overwrite")

    def _table(self, relation: CatalogTable) -> Table:
        catalog, *namespace, last = relation.identifier
        name, _, ref = last.partition("@")
        if ref:
            assert self._of_ref is not None
            return self._of_ref(catalog, ref).load_table((*namespace, name))
        return self._lakes[catalog].load_table((*namespace, name))


def session(root: Path, **options: Mapping[str, Any]) -> IcebergDuckDB:
    """Begin a session with catalogs by their names and options, ``session(root, lake=options)``."""

    def of_ref(name: str, ref: str) -> Catalog:
        return connect_catalog(name, {**options[name], "ref": ref}, root)

    return IcebergDuckDB({name: connect_catalog(name, own, root) for name, own in options.items()}, of_ref)


def _rows(table: Table, relation: CatalogTable) -> pa.Table:
    snapshot = relation.snapshot
    if relation.branch is not None:
        snapshot = table.metadata.refs[relation.branch].snapshot_id
    scan = table.scan(snapshot_id=snapshot)
    if relation.after is None:
        return scan.to_arrow()
    before = {task.file.file_path for task in table.scan(snapshot_id=relation.after).plan_files()}
    added = [task for task in scan.plan_files() if task.file.file_path not in before]
    return ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter).to_table(added)


def _overwrite(table: Table, rows: pa.Table, branch: str) -> None:
    """Replace the rows of a branch by one snapshot; PyIceberg's own overwrite makes two."""
    ref = table.metadata.refs.get(branch)
    old = list(table.scan(snapshot_id=ref.snapshot_id).plan_files()) if ref is not None else []
    with table.transaction() as transaction, transaction.update_snapshot(branch=branch).overwrite() as files:
        for task in old:
            files.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, rows, table.io):
            files.append_data_file(file)


def _fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows with the columns of a table; one that has been added to it meanwhile is NULL, as Spark has it."""
    given = {name: rows[name] if name in rows.column_names else pa.nulls(len(rows)) for name in schema.names}
    return pa.table(given).cast(schema)
