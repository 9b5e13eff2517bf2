"""Isolated sessions of engines that run plain queries, on Arrow rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from rivet_dagster.engines.arrow.evaluation import evaluate
from rivet_dagster.engines.arrow.files import files_frame, write_files
from rivet_dagster.engines.arrow.frames import ArrowFrame, Names, columns_of, frame_of_reader, with_columns
from rivet_dagster.engines.arrow_types import plain_rows
from rivet_dagster.engines.arrow_values import arrow_rows, nullable, refuse_repeated, untyped_columns
from rivet_dagster.engines.contract import (
    EngineSession,
    Frame,
    Progress,
    QueryPlan,
    WriteMode,
    cannot_read,
    cannot_write,
)
from rivet_dagster.engines.duckdb.types import has_void, schema_json
from rivet_dagster.engines.duckdb.unions import united_columns
from rivet_dagster.engines.views import ScopedViews
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import ArrowRows, Files, Relation
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.plain_queries import PlainQuery, plain_query
from rivet_dagster.sql.source_query import projection as projected

_LOADED = "rivet_loaded"


class ArrowSession(EngineSession):
    """A session whose frames are read and written by pyarrow, batch by batch.

    A subclass with other frames says by ``_rows`` what rows they have, and by ``_frame`` how one is made of rows.
    """

    engine = "arrow"
    sql_remedy = "It runs Python joints and copies: write the joint in Python, or run it on Spark or DuckDB."
    """The remedy for SQL that the engine does not run."""

    def __init__(self, check_interrupt: Callable[[], None] | None = None) -> None:
        self._check_interrupt = check_interrupt or _nothing
        self._views = ScopedViews(_forget, _forget)

    def load(self, relation: Relation, projection: Projection | None = None) -> Frame:
        """Return a frame that reads Parquet files in place, or Arrow rows of this process."""
        self._check_interrupt()
        match relation:
            case Files():
                frame = self._load_files(relation)
            case ArrowRows():
                frame = self._load_rows(relation)
            case _:
                raise cannot_read(self.engine, relation)
        if projection in (None, Projection()):
            return frame
        with self.views():
            self.register(_LOADED, frame)
            return self.query(projected(_LOADED, projection.columns, projection.filter, projection.limit))

    def register(self, name: str, frame: Frame) -> None:
        """Give ``frame`` a name in the queries that are made from now on."""
        self._views.register(name, frame)

    def views(self) -> AbstractContextManager[None]:
        """Begin a scope of names."""
        return self._views.scope()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> Frame:
        """Return the lazy result of a plain query. Raises RVT-329 for others."""
        return self._frame(self._evaluated(self._parsed(sql), parameters))

    def union_by_name(self, frames: Sequence[Frame]) -> Frame:
        """Return all rows of ``frames``, matched by column name in the order of the first."""
        rows = [self._rows(frame) for frame in frames]
        columns = tuple(united_columns([each.columns for each in rows]))
        parts = [with_columns(each, columns) for each in rows]

        def batches(names: Names) -> Iterator[pa.RecordBatch]:
            for part in parts:
                yield from part.batches(None)

        return self._frame(ArrowFrame(columns, batches))

    def columns(self, frame: Frame) -> tuple[tuple[str, str], ...]:
        """Return names and types, as Spark's SQL writes them."""
        return tuple((name, str(kind)) for name, kind in self._rows(frame).columns)

    def schema(self, frame: Frame) -> str:
        """Return the JSON that Spark writes for these columns."""
        return schema_json(self._rows(frame).columns)

    def explain(self, frame: Frame) -> Callable[[], QueryPlan]:
        """Return a function that says how the rows pass."""
        return lambda: QueryPlan("pyarrow writes the rows batch by batch")

    def write(
        self,
        frame: Frame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
        mode: WriteMode = "append",
    ) -> None:
        """Write Parquet files; how much is done is not known. Raises RVT-316 for columns of the same name."""
        if not isinstance(target, Files) or target.format != "parquet" or mode != "append":
            raise cannot_write(self.engine, target)
        rows = self._rows(frame)
        refuse_repeated(name for name, _ in rows.columns)
        void = [name for name, kind in rows.columns if has_void(kind)]
        if void:
            raise untyped_columns(void)
        self._check_interrupt()
        self._write_files(frame, target, split_by)

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return rows as dictionaries; timestamps have a time zone. Raises RVT-329 for what is no plain query."""
        ends = None if timeout is None else time.monotonic() + timeout

        def check() -> None:
            self._check_interrupt()
            if ends is not None and time.monotonic() > ends:
                raise TimeoutError(f"no answer within {timeout:g} s")

        frame = self._evaluated(self._parsed(sql), parameters, check)
        table = pa.Table.from_batches(frame.batches(None), frame.schema)
        return plain_rows(table, table.column_names)

    def batches(self, frame: Frame) -> pa.RecordBatchReader:
        """Return the rows batch by batch."""
        rows = self._rows(frame)
        schema = nullable(rows.schema)
        batches = (batch.cast(schema) for batch in self._checked(rows.batches(None)))
        return pa.RecordBatchReader.from_batches(schema, batches)

    def from_value(self, value: Any) -> Frame | None:
        """Return a frame over a frame of this engine, pyarrow's tables and batches, or a pandas or polars frame.

        A reader is read when its rows are wanted, and once.
        """
        if isinstance(value, ArrowFrame):
            return value
        reader = arrow_rows(value)
        if reader is None:
            return None
        if isinstance(value, pa.RecordBatchReader):
            return self._frame(frame_of_reader(reader))
        table = reader.read_all()
        return self._frame(_of_table(table))

    def close(self) -> None:
        """Forget the names; rows are read by whoever asks for them, and nothing else runs."""
        self._views.clear()

    def _rows(self, frame: Frame) -> ArrowFrame:
        assert isinstance(frame, ArrowFrame)
        return frame

    def _frame(self, rows: ArrowFrame) -> Frame:
        return rows

    def _load_files(self, files: Files) -> Frame:
        return files_frame(files, self.engine)

    def _load_rows(self, relation: ArrowRows) -> Frame:
        columns = columns_of(relation.schema)
        return self._frame(ArrowFrame(columns, lambda names: frame_of_reader(relation.batches()).batches(names)))

    def _write_files(self, frame: Frame, target: Files, split_by: str | None) -> None:
        rows = self._rows(frame)
        write_files(self._checked(rows.batches(None)), rows.columns, target, self.engine, split_by)

    def _parsed(self, sql: str) -> PlainQuery:
        try:
            return plain_query(sql)
        except SqlError as error:
            message = f"the engine {self.engine} does not run Spark's SQL, and this query {error}"
            raise RivetError("RVT-329", message, line=error.line, remediation=self.sql_remedy) from error

    def _evaluated(
        self, query: PlainQuery, parameters: Mapping[str, Any] | None, check: Callable[[], None] | None = None
    ) -> ArrowFrame:
        def frame_of(name: str) -> ArrowFrame:
            rows = self._rows(self._named(name))
            return ArrowFrame(rows.columns, lambda names: self._checked(rows.batches(names), check))

        return evaluate(query, frame_of, parameters or {})

    def _named(self, name: str) -> Frame:
        frames = self._views.frames()
        if name.lower() not in frames:
            raise RivetError("RVT-503", f"there is no relation {name}")
        return frames[name.lower()]

    def _checked(
        self, batches: Iterator[pa.RecordBatch], check: Callable[[], None] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield batches, with the interrupt checked before each."""
        check = check or self._check_interrupt
        check()
        for batch in batches:
            check()
            yield batch


def _of_table(table: pa.Table) -> ArrowFrame:
    columns = columns_of(table.schema)
    frame = ArrowFrame(columns, lambda names: iter(table.to_batches()))
    return with_columns(frame, columns)


def _nothing() -> None:
    """Do nothing: a check without an interrupt."""


def _forget(*_: Any) -> None:
    """Do nothing when a name begins or ends: it is looked up in the scopes."""
