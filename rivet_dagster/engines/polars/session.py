"""Isolated sessions of Polars: their frames are Polars' own lazy frames."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import polars as pl
import pyarrow as pa

from rivet_dagster.engines.arrow.files import ParquetTable, parquet_table, stored_schema, target_folder
from rivet_dagster.engines.arrow.frames import ArrowFrame, Columns, Names, cast
from rivet_dagster.engines.arrow.session import ArrowSession
from rivet_dagster.engines.arrow_types import arrow_schema
from rivet_dagster.engines.arrow_values import refuse_repeated
from rivet_dagster.engines.contract import QueryPlan
from rivet_dagster.engines.duckdb.unions import united_columns
from rivet_dagster.engines.duckdb.writing import codec_of
from rivet_dagster.engines.polars.types import polars_type, spark_columns, with_types
from rivet_dagster.engines.waiting import TICK_SECONDS, stream
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Files
from rivet_dagster.secrets.redaction import redacted
from rivet_dagster.sql.plain_queries import Node, PlainQuery

_BATCH_ROWS = 65_536
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 3.0
_CODECS = {"lz4_raw": "lz4"}
"""Polars' names of codecs, by DuckDB's, where they differ."""

_PLAN = re.compile(r"\n\s*(Resolved plan until failure|This error occurred).*", re.DOTALL)
_LINE = re.compile(r"\bLine: (\d+)")
_NAMED = re.compile(r"""(?:column|relation)[^"'\n]*["']([\w.]+)["']""")


class PolarsSession(ArrowSession):
    """A session that runs queries of Polars' SQL, and reads and writes Parquet by Polars, as a stream where it can."""

    engine = "polars"
    sql_remedy = "Write the joint in Polars' SQL (`dialect: polars`) or in Python, or run it on Spark or DuckDB."

    def query_in(self, dialect: str, sql: str, parameters: Mapping[str, Any] | None = None) -> pl.LazyFrame:
        """Return the lazy result of one query of Polars' SQL, which has no parameters. Raises RVT-503."""
        self._check_interrupt()
        with _translated_errors(sql):
            return _stored(pl.SQLContext(self._views.frames(), eager=False).execute(sql))

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pl.LazyFrame:
        """Return the lazy result of a plain query: of columns and casts as a lazy frame, of others by their rows."""
        query = self._parsed(sql)
        if not _is_projection(query):
            return self._frame(self._evaluated(query, parameters))
        assert isinstance(query.source, str)
        lazy = self._named(query.source)
        # Only the evaluation on no rows knows which columns there are, and their types.
        columns = self._evaluated(query, parameters).columns
        if query.items is not None:
            names = {name.lower(): name for name in lazy.collect_schema().names()}
            lazy = lazy.select([_expression(node, names).alias(name) for name, node in query.items])
        return with_types(lazy if query.limit is None else lazy.head(query.limit), columns)

    def union_by_name(self, frames: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
        """Return all rows of ``frames``, matched by column name in the order of the first."""
        columns = united_columns([spark_columns(frame) for frame in frames])
        parts = []
        for frame in frames:
            names = {name.lower(): name for name in frame.collect_schema().names()}
            parts.append(
                frame.select(
                    [pl.col(names[name.lower()]).cast(polars_type(kind)).alias(name) for name, kind in columns]
                )
            )
        return pl.concat(parts, how="vertical")

    def explain(self, frame: pl.LazyFrame) -> Callable[[], QueryPlan]:
        """Return a function that returns Polars' plan."""

        def plan() -> QueryPlan:
            with _translated_errors():
                return QueryPlan(frame.explain(engine="streaming"))

        return plan

    def from_value(self, value: Any) -> pl.LazyFrame | None:
        """Return a lazy frame over a polars frame, pyarrow's tables and batches, or a pandas frame."""
        if isinstance(value, pl.DataFrame):
            value = value.lazy()
        if not isinstance(value, pl.LazyFrame):
            return super().from_value(value)
        with _translated_errors():
            refuse_repeated(value.collect_schema().names())
            return _stored(value)

    def _rows(self, frame: pl.LazyFrame) -> ArrowFrame:
        with _translated_errors():
            columns = spark_columns(frame)

        def batches(names: Names) -> Iterator[pa.RecordBatch]:
            wanted = [(name, kind) for name, kind in columns if names is None or name.lower() in names]
            # Of no columns at all the rows are still counted.
            wanted = wanted or list(columns[:1])
            schema, lazy = arrow_schema(wanted), frame.select([name for name, _ in wanted])

            def work() -> Iterator[pa.RecordBatch]:
                for part in lazy.collect_batches(chunk_size=_BATCH_ROWS, engine="streaming"):
                    yield from part.to_arrow().to_batches()

            with _translated_errors():
                for batch in stream(work, _nothing, self._check_interrupt):
                    yield cast(batch, schema)

        return ArrowFrame(columns, batches)

    def _frame(self, rows: ArrowFrame) -> pl.LazyFrame:
        table = pa.Table.from_batches(self._checked(rows.batches(None)), rows.schema)
        with _translated_errors():
            if not rows.columns:
                return pl.LazyFrame()
            frame = pl.from_arrow(table)
            assert isinstance(frame, pl.DataFrame)
            return with_types(frame.lazy(), rows.columns)

    def _load_files(self, files: Files) -> pl.LazyFrame:
        table = parquet_table(files, self.engine)
        schema = {name: polars_type(kind) for name, kind in table.columns}
        if not table.files:
            return pl.LazyFrame(schema=schema)
        with _translated_errors():
            parts = [_scan(paths, columns, table) for columns, paths in _alike(table).items()]
            return pl.concat(parts, how="vertical") if len(parts) > 1 else parts[0]

    def _write_files(self, frame: pl.LazyFrame, target: Files, split_by: str | None) -> None:
        if split_by is not None:
            super()._write_files(frame, target, split_by)
            return
        columns = spark_columns(frame)
        codec: Any = codec_of(target.options, self.engine)
        metadata = stored_schema(columns).metadata
        stopped = threading.Event()

        def pass_on(part: pl.DataFrame) -> pl.DataFrame:
            if stopped.is_set():
                raise _Stopped
            return part

        checked = frame.map_batches(
            pass_on, streamable=True, schema=frame.collect_schema(), validate_output_schema=False
        )
        sink = checked.sink_parquet(
            target_folder(target, self.engine) / f"part-{uuid4()}.parquet",
            compression=_CODECS.get(codec, codec),
            metadata={key.decode(): value.decode() for key, value in metadata.items()},
            lazy=True,
        )
        with _translated_errors():
            self._run(sink, stopped)

    def _run(self, sink: pl.LazyFrame, stopped: threading.Event) -> None:
        """Run a query in Polars' own threads, while the interrupt is checked.

        ``stopped`` fails the query at its next batch of results. Polars does not stop a step that has none yet, such as
        an aggregation: it ends in the background, and what it would write is lost.
        """
        running = sink.collect(engine="streaming", background=True)
        checked = time.monotonic()
        try:
            while running.fetch() is None:
                time.sleep(_POLL_SECONDS)
                if time.monotonic() > checked + TICK_SECONDS:
                    self._check_interrupt()
                    checked = time.monotonic()
        except pl.exceptions.PolarsError:
            raise
        except BaseException:
            stopped.set()
            running.cancel()
            _wait_for_end(running)
            raise


class _Stopped(Exception):
    """The end of a query that was interrupted."""


def _wait_for_end(running: Any) -> None:
    """Wait a little, so that a query that ends at once has ended before its files are removed."""
    ends = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < ends:
        try:
            if running.fetch() is not None:
                return
        except (_Stopped, pl.exceptions.PolarsError):
            return
        time.sleep(_POLL_SECONDS)


def _stored(lazy: pl.LazyFrame) -> pl.LazyFrame:
    """Return a lazy frame whose types are those that tables have. Raises RVT-503."""
    return with_types(lazy, spark_columns(lazy))


def _is_projection(query: PlainQuery) -> bool:
    """Return whether a query is columns, casts and a limit, which Polars computes as a part of a stream."""
    if not isinstance(query.source, str) or query.where is not None or query.keys:
        return False
    return all(node.kind in ("column", "cast", "literal") for _, item in query.items or () for node in item.walk())


def _expression(node: Node, names: Mapping[str, str]) -> pl.Expr:
    if node.kind == "column":
        first, *fields = node.value
        value = pl.col(names[first.lower()])
        for name in fields:
            value = value.struct.field(name)
        return value
    # The types of the result are given to all columns together.
    return _expression(node.parts[0], names) if node.kind == "cast" else pl.lit(node.value)


def _alike(table: ParquetTable) -> dict[Columns, list[str]]:
    """Return the files by the columns that they have."""
    groups: dict[Columns, list[str]] = {}
    for path, columns in table.files:
        groups.setdefault(columns, []).append(path)
    return groups


def _scan(paths: list[str], stored_columns: Columns, table: ParquetTable) -> pl.LazyFrame:
    """Return the rows of files with the same columns, with the columns of the table; those that they lack are NULL."""
    stored = {name.lower(): name for name, _ in stored_columns}
    columns = {name: polars_type(kind) for name, kind in table.columns}
    lazy = pl.scan_parquet(paths, glob=False, hive_partitioning=False, extra_columns="ignore")
    items = []
    for name, to in columns.items():
        value = pl.col(stored[name.lower()]) if name.lower() in stored else pl.lit(None)
        items.append(value.cast(to).alias(name))
    return lazy.select(items) if items else lazy


def _nothing() -> None:
    """Do nothing: a stream of batches ends when nobody reads it."""


@contextmanager
def _translated_errors(sql: str | None = None) -> Iterator[None]:
    """Turn errors of Polars in the block into RVT-503, with the line of ``sql`` that they are about."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        message = _PLAN.sub("", str(error)).strip()
        line = None if sql is None else _line_of(message, sql)
        raise RivetError("RVT-503", redacted(message), line=line) from error


def _line_of(message: str, sql: str) -> int | None:
    """Return the line of a query that a message names, or the only one with the name in it.

    >>> _line_of('unable to find column "nope"; valid columns: ["a"]', "SELECT 1 AS v,\\n  nope FROM t")
    2
    """
    if stated := _LINE.search(message):
        return int(stated[1]) if 1 <= int(stated[1]) <= sql.count("\n") + 1 else None
    if (named := _NAMED.search(message)) is None:
        return None
    name = re.compile(rf"(?<!\w){re.escape(named[1])}(?!\w)", re.IGNORECASE)
    lines = [number for number, line in enumerate(sql.split("\n"), 1) if name.search(line)]
    return lines[0] if len(lines) == 1 else None
