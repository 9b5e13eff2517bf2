"""Isolated sessions on a SQL warehouse, each a connection of its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from rivet_dagster.engines.arrow.files import write_files
from rivet_dagster.engines.arrow_types import arrow_schema, plain_rows
from rivet_dagster.engines.arrow_values import arrow_rows, convertible, nullable, refuse_repeated, untyped_columns
from rivet_dagster.engines.contract import (
    EngineSession,
    Progress,
    QueryPlan,
    WriteMode,
    cannot_read,
    cannot_write,
)
from rivet_dagster.engines.databricks.messages import warehouse_error
from rivet_dagster.engines.databricks.parameters import native_parameters
from rivet_dagster.engines.databricks.tables import in_catalog
from rivet_dagster.engines.duckdb.types import has_void, schema_json
from rivet_dagster.engines.pyspark.results import columns_of_arrow
from rivet_dagster.engines.views import ScopedViews
from rivet_dagster.engines.waiting import stream, wait_for
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable, Files, Relation
from rivet_dagster.model.schema import SparkType, parse_type
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.source_query import projection as projected

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Columns = tuple[tuple[str, SparkType], ...]

_LOADED = "rivet_loaded"
_BATCH_ROWS = 65_536


@dataclass(frozen=True, eq=False)
class WarehouseFrame:
    """A lazy result: a whole query with the values of its parameters, and its columns.

    ``lines`` are how many lines of ``sql`` come before the query as it was written, and how many it has. The frame of
    a value that a Python joint returned has its ``rows`` instead, which no query can read.
    """

    columns: Columns
    sql: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    lines: tuple[int, int] = (0, 0)
    rows: pa.Table | None = None

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns]


class WarehouseSession(EngineSession):
    """A connection to a warehouse. Views are common table expressions of the queries that name them.

    So a query's names are resolved when it is made, and the warehouse stores nothing. A query is described when it is
    made, and computed when its rows are read.
    """

    queries_at_once = 25
    threads_at_once = 2  # most of the time goes into planning, which uses one core

    def __init__(
        self, connect: Callable[[], Any], catalog: str, check_interrupt: Callable[[], None] | None = None
    ) -> None:
        self.own_catalog = catalog
        self._connect = connect
        self._check_interrupt = check_interrupt or _nothing
        self._named: dict[str, WarehouseFrame] = {}
        self._views = ScopedViews(self._bind, self._unbind)
        self._open: list[Any] = []
        self._closed = False
        self._connection = wait_for(connect, lambda: None, grace=0, tick=self._check_interrupt)

    def load(self, relation: Relation, projection: Projection | None = None) -> WarehouseFrame:
        """Return a frame that reads a table of the warehouse's own catalog."""
        is_current = isinstance(relation, CatalogTable) and not any(
            (relation.branch, relation.snapshot, relation.timestamp, relation.after)
        )
        table = in_catalog(relation, self.own_catalog)
        if not is_current or table is relation or not isinstance(table, CatalogTable):
            raise cannot_read("databricks", relation)
        frame = self._made(f"SELECT * FROM {'.'.join(map(_quoted, table.identifier))}", {})
        if projection in (None, Projection()):
            return frame
        with self.views():
            self.register(_LOADED, frame)
            return self.query(projected(_LOADED, projection.columns, projection.filter, projection.limit))

    def register(self, name: str, frame: WarehouseFrame) -> None:
        """Give ``frame`` a name in the queries that are made from now on."""
        self._views.register(name, frame)

    def views(self) -> AbstractContextManager[None]:
        """Begin a scope of names."""
        return self._views.scope()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> WarehouseFrame:
        """Return the lazy result of ``sql``. Raises RVT-519 for one that reads what a Python joint returned."""
        text, bound, lines = self._composed(sql, parameters or {})
        return self._made(text, bound, lines)

    def union_by_name(self, frames: Sequence[WarehouseFrame]) -> WarehouseFrame:
        """Return all rows of ``frames``, matched by column name in the order of the first."""
        if len(frames) == 1:
            return frames[0]
        first, names = frames[0], [name.lower() for name in frames[0].names]
        for frame in frames[1:]:
            if sorted(name.lower() for name in frame.names) != sorted(names):
                message = f"the columns {', '.join(first.names)} are not {', '.join(frame.names)}"
                raise RivetError("RVT-503", message)
        items = ", ".join(_quoted(name) for name in first.names)
        queries = [f"SELECT {items} FROM (\n{_readable(frame).sql}\n)" for frame in frames]
        bound: dict[str, Any] = {}
        for frame in frames:
            _bind_parameters(bound, frame.parameters)
        return self._made("\nUNION ALL\n".join(queries), bound)

    def columns(self, frame: WarehouseFrame) -> tuple[tuple[str, str], ...]:
        """Return names and types, as Spark's SQL writes them."""
        return tuple((name, str(kind)) for name, kind in frame.columns)

    def schema(self, frame: WarehouseFrame) -> str:
        """Return the JSON that Spark writes for these columns."""
        return schema_json(frame.columns)

    def explain(self, frame: WarehouseFrame) -> Callable[[], QueryPlan]:
        """Return a function that returns the warehouse's plan; it plans the query anew."""

        def plan() -> QueryPlan:
            if frame.rows is not None:
                return QueryPlan("rows of a Python joint")
            rows = self._fetched(f"EXPLAIN FORMATTED {frame.sql}", frame.parameters)
            return QueryPlan("\n".join(str(text) for (text,) in rows.to_pydict().values()).strip())

        return plan

    def write(
        self,
        frame: WarehouseFrame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
        mode: WriteMode = "append",
    ) -> None:
        """Fetch the rows, and write them to Parquet files of this machine; there is no progress of it.

        Raises RVT-316 for columns of the same name.
        """
        if not isinstance(target, Files) or target.format != "parquet" or mode != "append":
            raise cannot_write("databricks", target)
        refuse_repeated(frame.names)
        if void := [name for name, kind in frame.columns if has_void(kind)]:
            raise untyped_columns(void)
        write_files(self.batches(frame), frame.columns, target, "databricks", split_by)

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return rows as dictionaries; timestamps have a time zone."""
        text, bound, lines = self._composed(sql, parameters or {})
        table = self._fetched(text, bound, lines, timeout)
        return plain_rows(table.cast(_in_utc(table.schema)), table.column_names)

    def batches(self, frame: WarehouseFrame) -> pa.RecordBatchReader:
        """Return the rows as the warehouse sends them, on a connection of their own."""
        import pyarrow as pa

        schema = nullable(arrow_schema(frame.columns))
        if frame.rows is not None:
            return frame.rows.cast(schema).to_reader(_BATCH_ROWS)
        return pa.RecordBatchReader.from_batches(schema, self._batches(frame, schema))

    def from_value(self, value: Any) -> WarehouseFrame | None:
        """Return a frame over a frame of this session, a pandas or polars frame, or pyarrow's tables and batches.

        It can be written, and no query can read it: a warehouse takes no rows.
        """
        if isinstance(value, WarehouseFrame):
            return value
        reader = arrow_rows(value)
        if reader is None:
            return None
        with convertible(value):
            rows = reader.read_all()
            columns = tuple((name, parse_type(kind)) for name, kind in columns_of_arrow(rows.schema))
        return WarehouseFrame(columns, rows=rows)

    def close(self) -> None:
        """Stop what still runs, and end the connections."""
        if self._closed:
            return
        self._closed = True
        for connection in (*self._open, self._connection):
            with suppress(Exception):  # a connection that is lost has nothing to end
                connection.close()

    def _bind(self, name: str, frame: WarehouseFrame) -> None:
        self._named[name.lower()] = frame

    def _unbind(self, name: str) -> None:
        del self._named[name.lower()]

    def _composed(self, sql: str, parameters: Mapping[str, Any]) -> tuple[str, dict[str, Any], tuple[int, int]]:
        """Return a text with the views that it may name, the parameters of all, and the lines before it and of it."""
        named = {name: frame for name, frame in self._named.items() if _may_name(sql, name)}
        bound, lines = dict(parameters), sql.count("\n") + 1
        if not named:
            return sql, bound, (0, lines)
        for frame in named.values():
            _bind_parameters(bound, _readable(frame).parameters)
        views = ", ".join(f"{_quoted(name)} AS (\n{frame.sql}\n)" for name, frame in named.items())
        before = f"WITH {views}\nSELECT * FROM (\n"
        return f"{before}{sql}\n)", bound, (before.count("\n"), lines)

    def _made(self, text: str, parameters: Mapping[str, Any], lines: tuple[int, int] = (0, 0)) -> WarehouseFrame:
        """Return the frame of a whole query, which is described."""
        table = self._fetched(f"DESCRIBE QUERY {text}", parameters, lines)
        columns = []
        for name, kind in zip(table["col_name"].to_pylist(), table["data_type"].to_pylist(), strict=True):
            try:
                columns.append((name, parse_type(kind)))
            except ValueError as error:
                message = f"the column {name} is of the type {kind}, which is not stored"
                raise RivetError("RVT-503", message, remediation="Cast it to a STRING, or leave it out.") from error
        return WarehouseFrame(tuple(columns), text, parameters, lines)

    def _fetched(
        self,
        text: str,
        parameters: Mapping[str, Any],
        lines: tuple[int, int] = (0, 0),
        timeout: float | None = None,
    ) -> pa.Table:
        """Return all rows of a statement, which an interrupt, or ``check_interrupt``, cancels."""
        with self._connection.cursor() as cursor, _errors_of(lines):
            self._check_interrupt()
            native = native_parameters(parameters)
            return wait_for(
                lambda: cursor.execute(text, native or None).fetchall_arrow(),
                cursor.cancel,
                timeout,
                tick=self._check_interrupt,
            )

    def _batches(self, frame: WarehouseFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        connection = self._connect()
        self._open.append(connection)
        try:
            with connection.cursor() as cursor, _errors_of(frame.lines):
                self._check_interrupt()
                native = native_parameters(frame.parameters)

                def work() -> Iterator[pa.RecordBatch]:
                    cursor.execute(frame.sql, native or None)
                    while (rows := cursor.fetchmany_arrow(_BATCH_ROWS)).num_rows:
                        yield from rows.rename_columns(schema.names).cast(schema).to_batches()

                yield from stream(work, cursor.cancel, self._check_interrupt)
        finally:
            self._open.remove(connection)
            connection.close()


def _nothing() -> None:
    """Do nothing: a check without an interrupt."""


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _may_name(sql: str, name: str) -> bool:
    """Return whether a text has a name anywhere in it.

    >>> _may_name("SELECT * FROM Orders", "orders"), _may_name("SELECT * FROM orders_2", "orders")
    (True, False)
    """
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sql, re.IGNORECASE) is not None


def _readable(frame: WarehouseFrame) -> WarehouseFrame:
    """Return a frame that queries can read. Raises RVT-519 for rows of this process."""
    if frame.rows is not None:
        message = "a SQL warehouse takes no rows, so that no query of it reads what a Python joint has returned"
        raise RivetError("RVT-519", message)
    return frame


def _bind_parameters(bound: dict[str, Any], others: Mapping[str, Any]) -> None:
    """Add parameters of a query that becomes a part of another one. Raises RVT-503 for one with two values."""
    for name, value in others.items():
        if bound.setdefault(name, value) != value:
            raise RivetError("RVT-503", f"the parameter :{name} has two values in one query of a SQL warehouse")


def _in_utc(schema: pa.Schema) -> pa.Schema:
    import pyarrow as pa

    utc = [
        each.with_type(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(each.type) and each.type.tz else each
        for each in schema
    ]
    return pa.schema(utc)


@contextmanager
def _errors_of(lines: tuple[int, int]) -> Iterator[None]:
    """Turn errors of the connector in the block into RivetErrors about a query with these ``lines`` of a frame."""
    from databricks.sql import exc

    try:
        yield
    except exc.Error as error:
        raise warehouse_error(error, *lines) from error
