"""Isolated sessions of queries in a database of PostgreSQL."""

from __future__ import annotations

import datetime as dt
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg

from rivet_dagster.engines.arrow_types import arrow_schema
from rivet_dagster.engines.arrow_values import refuse_repeated
from rivet_dagster.engines.contract import (
    EngineSession,
    Progress,
    QueryPlan,
    Typed,
    WriteMode,
    cannot_read,
    cannot_write,
)
from rivet_dagster.engines.translated_queries import spark_type_of
from rivet_dagster.engines.views import ScopedViews
from rivet_dagster.engines.waiting import stream, wait_for
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import JdbcTable, Relation
from rivet_dagster.model.schema import parse_type
from rivet_dagster.model.session_needs import QueryDatabase, ResultColumn
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.generated_statements import GeneratedStatement
from rivet_dagster.sql.parsing.dialect import quote_name
from rivet_dagster.sql.parsing.other_dialect import replace_parameters
from rivet_dagster.sql.postgres.histories import create_row_type
from rivet_dagster.sql.postgres.spark_statements import (
    NotTranslatedError,
    insert_from,
    postgres_type,
    rows_with,
    select_from,
    set_snapshot,
    spark_statement_for_postgres,
    union_of,
)
from rivet_dagster.sql.write_strategies.trees import BATCH

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_LOADED = "rivet_loaded"
_FETCHED = 10_000
_TOKEN = re.compile("\x00(\\d+)\x00")
"""A parameter in the text of a query, by its number in the session: no text of PostgreSQL has this character."""

_CAST = "Cast it in the joint's SQL, as to numeric(38, 9) or a text."
_SPARK = "Write the joint in PostgreSQL's SQL (`dialect: postgres`), or run it on an engine of Spark."


@dataclass(frozen=True)
class PostgresFrame:
    """A lazy result: a query with the texts of all that it reads, and the exported snapshot at which it is run.

    ``types`` are the statements that make the types of rows that it needs, in its transaction.
    """

    query: str
    snapshot: str | None = None
    types: tuple[str, ...] = ()


class PostgresSession(EngineSession):
    """A connection, and the names of frames, which are common table expressions of the queries that use them.

    Each query is a transaction, with the ``settings`` of the engine.
    """

    def __init__(
        self,
        database: QueryDatabase,
        settings: Mapping[str, str],
        check_interrupt: Callable[[], None] | None = None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._check_interrupt = check_interrupt or _nothing
        self._named: dict[str, PostgresFrame] = {}
        self._views = ScopedViews(self._bind, self._unbind)
        self._numbers = itertools.count(1)
        self._values: dict[int, Any] = {}
        self._described: dict[str, tuple[ResultColumn, ...]] = {}
        self._opened: Any = None
        self._reading: list[Any] = []
        self._closed = False

    def runs_in(self, database: str) -> bool:
        """Return whether it is the database of the engine; parameters of the driver make no difference."""
        return database.partition("?")[0] == self._database.url.partition("?")[0]

    def load(self, relation: Relation, projection: Projection | None = None) -> PostgresFrame:
        """Return a frame of the table in the database's own types. Raises RVT-329 for expressions of Spark's SQL."""
        if not isinstance(relation, JdbcTable) or not relation.native_rows or not self.runs_in(relation.url):
            raise cannot_read("postgres", relation)
        frame = PostgresFrame(f"SELECT * FROM {relation.native_rows}", relation.snapshot)
        chosen = projection or Projection()
        if chosen.filter is not None or any(text is not None for _, text in chosen.columns):
            message = "`columns` and `filter` of a source are Spark's SQL, which the database does not run"
            raise RivetError("RVT-329", message, remediation="Write them in the joint that reads the source.")
        query = frame.query
        if chosen.columns:
            query = select_from(query, [(name, None) for name, _ in chosen.columns])
        if chosen.limit is not None:
            query = f"{query} LIMIT {chosen.limit}"
        return PostgresFrame(query, frame.snapshot)

    def register(self, name: str, frame: PostgresFrame) -> None:
        """Give ``frame`` a name in the queries that are made from now on."""
        self._views.register(name, frame)

    def views(self) -> AbstractContextManager[None]:
        """Begin a scope of names."""
        return self._views.scope()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> PostgresFrame:
        """Return the lazy result of a statement of ours, or a plain condition. Raises RVT-329 for all else."""
        used = self._used(sql)
        tables = {name: self.columns(frame) for name, frame in used.items()}
        row_type, types = self._row_type(used) if isinstance(sql, GeneratedStatement) else (None, ())
        try:
            parameter = partial(self._parameter, parameters=parameters or {})
            text = spark_statement_for_postgres(sql, tables, parameter, row_type)
        except NotTranslatedError as error:
            message = f"{error} in Spark's SQL may have other rows in PostgreSQL than on Spark"
            raise RivetError("RVT-329", message, remediation=_SPARK) from error
        except SqlError as error:
            raise RivetError("RVT-503", f"the query {error}", line=error.line) from error
        made = self._made(text, used)
        return replace(made, types=(*made.types, *types)) if row_type is not None and row_type in text else made

    def query_in(self, dialect: str, sql: str, parameters: Mapping[str, Any] | None = None) -> PostgresFrame:
        """Return the lazy result of ``sql``, PostgreSQL's own, with parameters as ``$name``. Raises RVT-316."""
        text = replace_parameters(sql, lambda name: self._parameter(name, parameters or {}))
        frame = self._made(text, self._used(sql))
        described = self._describe(frame, frame.query.count("\n", 0, frame.query.rindex(f"\n{text}\n")) + 1)
        refuse_repeated(column.name for column in described)
        return frame

    def union_by_name(self, frames: Sequence[PostgresFrame]) -> PostgresFrame:
        """Return all rows of ``frames``, matched by column name in the order of the first."""
        if len(frames) == 1:
            return frames[0]
        first = [name for name, _ in self.columns(frames[0])]
        queries = []
        for frame in frames:
            spelled = {name.lower(): name for name, _ in self.columns(frame)}
            queries.append((frame.query, [spelled[name.lower()] for name in first]))
        return PostgresFrame(union_of(queries), self._snapshot(frames), _types_of(frames))

    def columns(self, frame: PostgresFrame) -> tuple[tuple[str, str], ...]:
        """Return names and types, as Spark reads them; of a type that Spark has not the database's name."""
        return tuple((column.name, column.type) for column in self._describe(frame))

    def schema(self, frame: PostgresFrame) -> str:
        """Return the columns as DDL."""
        return ", ".join(f"{quote_name(name)} {kind}" for name, kind in self.columns(frame))

    def explain(self, frame: PostgresFrame) -> Callable[[], QueryPlan]:
        """Return a function that returns the plan of PostgreSQL."""

        def plan() -> QueryPlan:
            rows = self._rows(f"EXPLAIN {frame.query}", replace(frame, snapshot=None))
            return QueryPlan("\n".join(text for (text,) in rows))

        return plan

    def write(
        self,
        frame: PostgresFrame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
        mode: WriteMode = "append",
    ) -> None:
        """Add the rows to a table of the database, by one statement."""
        if not isinstance(target, JdbcTable) or not self.runs_in(target.url) or mode != "append":
            raise cannot_write("postgres", target)
        names = [name for name, _ in self._readable(frame)]
        report = _Report(progress)
        statement = insert_from(target.table, names, frame.query)
        self._run(lambda: self._execute(statement, frame), table=target.table, tick=report.tick)
        report.end()

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return rows as dictionaries; timestamps have a time zone."""
        frame = self.query(sql, parameters)
        names = [column.name for column in self._describe(frame)]
        rows = self._rows(self._as_read(frame), frame, timeout)
        return [dict(zip(names, row, strict=True)) for row in rows]

    def rows_of(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query of PostgreSQL."""
        return self._rows(sql, PostgresFrame(sql))

    def batches(self, frame: PostgresFrame) -> pa.RecordBatchReader:
        """Return the rows as the database computes them, on a connection of their own."""
        import pyarrow as pa

        schema = arrow_schema([(name, parse_type(kind)) for name, kind in self._readable(frame)])
        return pa.RecordBatchReader.from_batches(schema, self._batches(frame, schema))

    def from_value(self, value: Any) -> PostgresFrame | None:
        """Return a frame of a session of this engine; other rows do not enter the database this way."""
        return value if isinstance(value, PostgresFrame) else None

    def close(self) -> None:
        """Stop what still runs, and close the connections."""
        if self._closed:
            return
        self._closed = True
        for connection in (*self._reading, *([self._opened] if self._opened is not None else [])):
            if connection.info.transaction_status == psycopg.pq.TransactionStatus.ACTIVE:
                self._cancel(connection)
            connection.close()

    def _bind(self, name: str, frame: PostgresFrame) -> None:
        self._named[name.lower()] = frame

    def _unbind(self, name: str) -> None:
        del self._named[name.lower()]

    def _used(self, sql: str) -> dict[str, PostgresFrame]:
        lower = sql.lower()
        return {name: frame for name, frame in self._named.items() if name in lower}

    def _made(self, text: str, used: Mapping[str, PostgresFrame]) -> PostgresFrame:
        query = rows_with(text, {name: frame.query for name, frame in used.items()})
        return PostgresFrame(query, self._snapshot(used.values()), _types_of(used.values()))

    def _row_type(self, used: Mapping[str, PostgresFrame]) -> tuple[str | None, tuple[str, ...]]:
        """Return the name of a type of the rows of a batch, and the statements that make it; None without a batch."""
        if BATCH not in used:
            return None, ()
        name = f"pg_temp.rivet_row_{next(self._numbers)}"
        return name, create_row_type(name, [(each.name, each.declared) for each in self._describe(used[BATCH])])

    def _parameter(self, name: str, parameters: Mapping[str, Any]) -> str:
        """Return the text of a parameter, whose value is bound with the type that Spark gives it."""
        if name not in parameters:
            raise RivetError("RVT-503", f"the query has a parameter {name}, which has no value")
        number, given = next(self._numbers), parameters[name]
        value = given.value if isinstance(given, Typed) else given
        kind = "array<string>" if isinstance(value, list | tuple) else spark_type_of(given)
        if isinstance(value, dt.datetime) and kind == "timestamp":
            value = value.astimezone(dt.UTC)  # a naive one is of this process's zone
        self._values[number] = value
        return f"CAST(\x00{number}\x00 AS {postgres_type(kind)})" if kind not in (None, "void") else f"\x00{number}\x00"

    def _snapshot(self, frames: Iterable[PostgresFrame]) -> str | None:
        """Return the snapshot at which all ``frames`` are read; those without one are read at it, too."""
        snapshots = {frame.snapshot for frame in frames if frame.snapshot is not None}
        if len(snapshots) > 1:
            raise RivetError("RVT-503", "one statement cannot read tables at two snapshots")
        return next(iter(snapshots), None)

    def _describe(self, frame: PostgresFrame, skipped: int = 0) -> tuple[ResultColumn, ...]:
        """Return the columns of a frame, in whose query an author's text begins after ``skipped`` lines."""
        if frame.query not in self._described:
            statement = f"SELECT * FROM (\n{frame.query}\n) AS rivet_result LIMIT 0"
            sent, values = self._bound(statement)

            def describe() -> tuple[ResultColumn, ...]:
                with self._transaction(self._connection(), replace(frame, snapshot=None)):
                    return self._database.columns(self._connection(), sent, values)

            def line_of(position: int) -> int:
                return sent.count("\n", 0, position - 1) - skipped

            self._described[frame.query] = self._run(describe, line_of=line_of)
        return self._described[frame.query]

    def _readable(self, frame: PostgresFrame) -> tuple[tuple[str, str], ...]:
        """Return the columns of a frame. Raises RVT-422 for a type that Spark has not."""
        for column in self._describe(frame):
            if column.unreadable is not None:
                message = f"the column '{column.name}' {column.unreadable.reason}"
                raise RivetError("RVT-422", message, remediation=_CAST)
        return self.columns(frame)

    def _as_read(self, frame: PostgresFrame) -> str:
        """Return the query of the columns as Spark reads them: of other types as their texts."""
        described = self._describe(frame)
        if all(column.cast is None for column in described):
            return frame.query
        return select_from(frame.query, [(column.name, column.cast) for column in described])

    def _rows(self, query: str, frame: PostgresFrame, timeout: float | None = None) -> list[tuple[Any, ...]]:
        return self._run(lambda: self._execute(query, frame), timeout)

    def _execute(self, statement: str, frame: PostgresFrame) -> list[tuple[Any, ...]]:
        """Execute a statement about a frame as a transaction of its own, and return the rows that it returns."""
        sent, values = self._bound(statement)
        connection = self._connection()
        with self._transaction(connection, frame):
            cursor = psycopg.RawCursor(connection)
            cursor.execute(sent.encode(), values or None)
            return cursor.fetchall() if cursor.description is not None else []

    def _bound(self, text: str) -> tuple[str, list[Any]]:
        """Return a text as the server gets it, and the values of its parameters."""
        numbers = list(dict.fromkeys(int(token) for token in _TOKEN.findall(text)))
        indexes = {number: index for index, number in enumerate(numbers, 1)}
        sent = _TOKEN.sub(lambda token: f"${indexes[int(token[1])]}", text)
        return sent, [self._values[number] for number in numbers]

    def _connection(self) -> Any:
        if self._opened is None:
            self._opened = self._connect()
        return self._opened

    def _connect(self) -> Any:
        with self._database.translate_errors("queries in it"):
            connection = self._database.open()
        try:
            with self._transaction(connection, PostgresFrame("")):
                return connection
        except self._database.errors as error:
            connection.close()
            message = f"the database refuses a setting of the engine: {error}"
            raise RivetError("RVT-502", message, remediation="Correct the engine's `config`.") from error

    @contextmanager
    def _transaction(self, connection: Any, frame: PostgresFrame) -> Iterator[None]:
        """Begin a transaction with the engine's settings, and with the snapshot and the types of a frame."""
        with connection.transaction():
            if frame.snapshot is not None:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                connection.execute(set_snapshot(frame.snapshot))
            calls = ", ".join(["set_config(%s, %s, true)"] * len(self._settings))
            connection.execute(f"SELECT {calls}", [text for setting in self._settings.items() for text in setting])
            for statement in frame.types:
                connection.execute(statement)
            yield

    def _batches(self, frame: PostgresFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        sent, values = self._bound(self._as_read(frame))
        connections: list[Any] = []

        def work() -> Iterator[pa.RecordBatch]:
            connection = self._connect()
            connections.append(connection)
            self._reading.append(connection)
            fetching = psycopg.RawServerCursor(connection, "rivet_rows")
            with self._transaction(connection, frame), fetching as cursor:
                cursor.execute(sent.encode(), values or None)
                while rows := cursor.fetchmany(_FETCHED):
                    columns = zip(*rows, strict=True)
                    arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)

        try:
            with self._translated_errors():
                self._check_interrupt()
                yield from stream(work, lambda: self._cancel(*connections), self._check_interrupt)
        finally:
            for connection in connections:
                self._reading.remove(connection)
                connection.close()

    def _cancel_query(self) -> None:
        if self._opened is not None:
            self._cancel(self._opened)

    def _cancel(self, *connections: Any) -> None:
        for connection in connections:
            with suppress(self._database.errors):  # it is called again
                self._database.cancel(connection)

    def _run(
        self,
        action: Callable[[], T],
        timeout: float | None = None,
        table: str | None = None,
        line_of: Callable[[int], int] | None = None,
        tick: Callable[[], None] | None = None,
    ) -> T:
        """Run ``action`` in another thread, so that an interrupt, or ``check_interrupt``, stops it."""

        def ticked() -> None:
            self._check_interrupt()
            (tick or _nothing)()

        with self._translated_errors(table, line_of):
            self._check_interrupt()
            return wait_for(action, self._cancel_query, timeout, tick=ticked)

    @contextmanager
    def _translated_errors(
        self, table: str | None = None, line_of: Callable[[int], int] | None = None
    ) -> Iterator[None]:
        """Turn errors of the database in the block into RivetErrors; ``line_of`` returns the line of a position."""
        try:
            yield
        except self._database.errors as error:
            position = error.diag.statement_position if isinstance(error, psycopg.Error) else None
            line = line_of(int(position)) if position is not None and line_of is not None else 0
            raise self._database.translated(error, table, line if line > 0 else None) from error


def _types_of(frames: Iterable[PostgresFrame]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(statement for frame in frames for statement in frame.types))


class _Report:
    """Reports that a statement is running, of which the database does not tell the progress."""

    def __init__(self, listener: Callable[[Progress], None] | None) -> None:
        self._listener = listener
        self._started = time.monotonic()
        self._has_reported = False

    def tick(self) -> None:
        """Report that the one task is running."""
        self._report(0)

    def end(self) -> None:
        """Report that it is done, if anything has been reported."""
        if self._has_reported:
            self._report(1)

    def _report(self, done: int) -> None:
        if self._listener is not None:
            self._has_reported = True
            self._listener(Progress(done, 1, done, 1, time.monotonic() - self._started))


def _nothing() -> None:
    """Do nothing: a report without a listener, a check without an interrupt."""
