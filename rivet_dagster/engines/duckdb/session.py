"""Isolated sessions on a database of DuckDB."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb

from rivet_dagster.engines.arrow_types import arrow_schema, plain_rows
from rivet_dagster.engines.arrow_values import arrow_rows, nullable, refuse_repeated, untyped_columns
from rivet_dagster.engines.contract import EngineSession, Progress, QueryPlan, WriteMode, cannot_read, cannot_write
from rivet_dagster.engines.duckdb.database import MemoryDatabase
from rivet_dagster.engines.duckdb.frames import DuckDBFrame, FoundColumns, may_be_repeated
from rivet_dagster.engines.duckdb.messages import duckdb_error
from rivet_dagster.engines.duckdb.parameters import bound_value
from rivet_dagster.engines.duckdb.progress import PercentReport
from rivet_dagster.engines.duckdb.query_plan import plan_text
from rivet_dagster.engines.duckdb.relations.files import files_query
from rivet_dagster.engines.duckdb.types import duckdb_type, has_void, quoted, schema_json, with_zone
from rivet_dagster.engines.duckdb.unions import union_query
from rivet_dagster.engines.duckdb.writing import write_parquet
from rivet_dagster.engines.translated_queries import translate_query
from rivet_dagster.engines.views import ScopedViews
from rivet_dagster.engines.waiting import stream, wait_for
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files, Relation
from rivet_dagster.model.session_needs import TableReader
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.generated_statements import GeneratedStatement, statement_in_duckdb
from rivet_dagster.sql.parsing.other_dialect import replace_parameters
from rivet_dagster.sql.source_query import projection as projected

if TYPE_CHECKING:
    import pyarrow as pa

    from rivet_dagster.engines.kept_translations import KeptTranslations

T = TypeVar("T")

_LOADED = "rivet_loaded"
_BATCH_ROWS = 65_536
_MISSING = ("does not exist", "not found")
"""Parts of DuckDB's messages about tables and columns that there are not."""


class DuckDBSession(EngineSession):
    """A connection, with a schema of its own from the first frame on that is a table or a view.

    A query's names are resolved when it is made: it has the registered frames as common table expressions.
    """

    def __init__(
        self,
        database: MemoryDatabase,
        readers: Mapping[str, TableReader],
        check_interrupt: Callable[[], None] | None = None,
        kept: KeptTranslations | None = None,
    ) -> None:
        self._database = database
        self._kept = kept
        self._readers = readers
        self._check_interrupt = check_interrupt or _nothing
        self._numbers = itertools.count(1)
        self._schema = database.new_name()
        self._has_schema = False
        self._variables: dict[str, tuple[Any, str | None]] = {}
        self._named: dict[str, DuckDBFrame] = {}
        self._views = ScopedViews(self._bind, self._unbind)
        self._profile: str | None = None
        self._open: list[Any] = []
        self._closed = False
        self._connection = self._connect()

    def load(self, relation: Relation, projection: Projection | None = None) -> DuckDBFrame:
        """Return a frame that reads files in place; Arrow rows of this process are read now."""
        match relation:
            case Files():
                frame = self._of_files(relation, projection)
            case CatalogTable() if relation.identifier[0] in self._readers:
                return self.load(self._run(lambda: self._readers[relation.identifier[0]](relation)), projection)
            case ArrowRows():
                frame = self._stored(self._run(relation.batches))
            case _:
                raise cannot_read("duckdb", relation)
        return frame if projection in (None, Projection()) else self._projected(frame, projection)

    def register(self, name: str, frame: DuckDBFrame) -> None:
        """Give ``frame`` a name in the queries that are made from now on."""
        self._views.register(name, frame)

    def views(self) -> AbstractContextManager[None]:
        """Begin a scope of names."""
        return self._views.scope()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> DuckDBFrame:
        """Return the lazy result of ``sql``, which is translated. Raises RVT-329."""
        return self._made(self._translated(sql, parameters or {}), parameters, sql, None, translated=True)

    def query_in(self, dialect: str, sql: str, parameters: Mapping[str, Any] | None = None) -> DuckDBFrame:
        """Return the lazy result of ``sql``, which is DuckDB's own, with parameters as ``$name``."""
        return self._made(sql, parameters, sql, 1)

    def union_by_name(self, frames: Sequence[DuckDBFrame]) -> DuckDBFrame:
        """Return all rows of ``frames``, matched by column name in the order of the first."""
        return frames[0] if len(frames) == 1 else self._made(union_query(frames))

    def columns(self, frame: DuckDBFrame) -> tuple[tuple[str, str], ...]:
        """Return names and types, as Spark's SQL writes them."""
        return tuple((name, str(kind)) for name, (_, kind) in zip(frame.names, frame.columns, strict=True))

    def schema(self, frame: DuckDBFrame) -> str:
        """Return the JSON that Spark writes for these columns."""
        return schema_json(frame.columns)

    def explain(self, frame: DuckDBFrame) -> Callable[[], QueryPlan]:
        """Return a function that returns the operators of the next write with their rows and times.

        Without a write, it returns DuckDB's plan.
        """
        self._profile = None

        def plan() -> QueryPlan:
            if self._profile is not None:
                return QueryPlan(plan_text(self._profile))
            rows = self._run(lambda: self._connection.execute(f"EXPLAIN {frame.rows}").fetchall())
            return QueryPlan("\n".join(text for _, text in rows).strip())

        return plan

    def write(
        self,
        frame: DuckDBFrame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
        mode: WriteMode = "append",
    ) -> None:
        """Write Parquet files. Raises RVT-316 for columns of the same name."""
        if not isinstance(target, Files) or target.format != "parquet" or mode != "append":
            raise cannot_write("duckdb", target)
        refuse_repeated(frame.names)
        void = [name for name, kind in frame.columns if has_void(kind)]
        if void:
            raise untyped_columns(void)
        report = PercentReport(progress, self._connection.query_progress) if progress else None
        self._profile = self._run(
            lambda: write_parquet(self._connection, frame, target, split_by), tick=report.tick if report else _nothing
        )
        if report:
            report.end()

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return rows as dictionaries; timestamps have a time zone."""
        frame = self.query(sql, parameters)

        table = self._run(lambda: self._connection.sql(frame.rows).to_arrow_table(), timeout)
        return plain_rows(table.cast(arrow_schema(frame.columns)), frame.names)

    def batches(self, frame: DuckDBFrame) -> pa.RecordBatchReader:
        """Return the rows as DuckDB computes them, on a connection of their own."""
        import pyarrow as pa

        schema = nullable(arrow_schema(frame.columns))
        return pa.RecordBatchReader.from_batches(schema, self._batches(frame, schema))

    def from_value(self, value: Any) -> DuckDBFrame | None:
        """Return a frame over a frame of this session, a pandas or polars frame, or pyarrow's tables and batches."""
        if isinstance(value, DuckDBFrame):
            return value
        if isinstance(value, duckdb.DuckDBPyRelation):
            value = value.to_arrow_reader(_BATCH_ROWS)
        reader = arrow_rows(value)
        return None if reader is None else self._in_its_zone(self._stored(reader))

    def close(self) -> None:
        """Stop what still runs, and drop the frames."""
        if self._closed:
            return
        self._closed = True
        for connection in (*self._open, self._connection):
            with suppress(duckdb.Error):
                connection.interrupt()
                connection.close()
        if self._has_schema:
            with suppress(duckdb.Error):
                self._database.drop(self._schema)

    def _connect(self) -> Any:
        """Return a new connection with the variables of all frames."""
        connection = self._database.cursor()
        if self._has_schema:
            connection.execute(f"SET search_path = '{self._schema},main'")
        for name, (value, kind) in self._variables.items():
            _set_variable(connection, name, value, kind)
        return connection

    def _bind(self, name: str, frame: DuckDBFrame) -> None:
        if not frame.short:  # else a query upon a query upon a query would hold the texts of all
            view = self._new_name()
            self._connection.execute(f"CREATE VIEW {view} AS {frame.rows}")
            frame = replace(frame, rows=f"SELECT * FROM {view}", short=True)
        self._named[name.lower()] = frame

    def _unbind(self, name: str) -> None:
        del self._named[name.lower()]

    @contextmanager
    def _visible(self, text: str) -> Iterator[None]:
        """Make views of the registered frames that a text uses, for a query that cannot have them as expressions."""
        names = [self._in_schema(name) for name, _ in self._used(text)]
        for view, (_, frame) in zip(names, self._used(text), strict=True):
            self._connection.execute(f"CREATE VIEW {view} AS {frame.rows}")
        try:
            yield
        finally:
            for view in names:
                self._connection.execute(f"DROP VIEW {view}")

    def _new_name(self) -> str:
        return self._in_schema(f"rivet frame {next(self._numbers)}")

    def _in_schema(self, name: str) -> str:
        """Return the name of a table or view of this session, for which its schema is made."""
        if not self._has_schema:
            self._database.make(self._schema)
            self._has_schema = True
            self._connection.execute(f"SET search_path = '{self._schema},main'")
        return f"{quoted(self._schema)}.{quoted(name)}"

    def _translated(self, sql: str, parameters: Mapping[str, Any]) -> str:
        """Return a query of Spark's SQL as DuckDB's. Raises RVT-329 for what it may compute otherwise."""
        if isinstance(sql, GeneratedStatement):
            return statement_in_duckdb(sql)
        tables = {name: self.columns(frame) for name, frame in self._named.items()}
        try:
            return translate_query(sql, "DuckDB", tables, parameters, self._kept)
        except RivetError:
            self._refuse_mistakes(sql)
            raise

    def _refuse_mistakes(self, sql: str) -> None:
        """Raise RVT-503 where a text that is refused is no query, or names what does not exist."""

        def look() -> None:
            with self._visible(sql):
                self._connection.sql(f"({statement_in_duckdb(sql)})")

        try:
            self._run(look, sql=sql, skipped=None)
        except SqlError as error:
            raise RivetError("RVT-503", f"the query {error}", line=error.line) from error
        except RivetError as error:
            is_of_names = isinstance(error.__cause__, duckdb.CatalogException | duckdb.BinderException)
            if is_of_names and any(part in str(error) for part in _MISSING):
                raise

    def _made(
        self,
        text: str,
        parameters: Mapping[str, Any] | None = None,
        sql: str | None = None,
        skipped: int | None = 0,
        short: bool = False,
        translated: bool = False,
    ) -> DuckDBFrame:
        """Return the frame of a query of DuckDB's SQL; errors are about ``sql``, as ``duckdb_error`` takes it.

        A ``translated`` query reads nothing but registered frames.
        """

        def make() -> DuckDBFrame:
            bound = replace_parameters(text, lambda name: self._variable(name, parameters or {}))
            query = f"{self._given(bound)}SELECT * FROM (\n{bound}\n)"
            used = self._used(bound)
            if translated and bound == text and all(frame.has_these_types for _, frame in used):
                # Parsing and binding a query are dear to DuckDB, and it finds the same columns each time.
                key = bound, tuple((name, frame.columns) for name, frame in used)
                found = self._database.find_once(key, lambda: self._columns_of(query, bound))
            else:
                found = self._columns_of(query, bound)
            names = tuple(name for name, _ in found.columns)
            return DuckDBFrame(found.in_types(query), found.columns, names, short)

        return self._run(make, sql=sql, skipped=skipped)

    def _columns_of(self, query: str, bound: str) -> FoundColumns:
        """Return the columns that DuckDB finds in ``query``, under the names that they have in ``bound`` within."""
        relation = self._connection.sql(query)
        names = list(relation.columns)
        given = self._names_of(bound) if may_be_repeated(names) else names
        return FoundColumns.of(given, names, list(relation.types))

    def _of_files(self, files: Files, projection: Projection | None) -> DuckDBFrame:
        """Return the frame of files. DuckDB need not open those whose columns have been read from their footers."""
        query, columns = self._run(lambda: files_query(files, projection))
        if columns is None:
            return self._made(query, short=True)
        return DuckDBFrame(query, tuple(columns), tuple(name for name, _ in columns), short=True)

    def _names_of(self, text: str) -> list[str]:
        """Return the names of a query's columns, also repeated ones, which DuckDB numbers in a subquery."""
        with self._visible(text):
            return list(self._connection.sql(f"(\n{text}\n)").columns)

    def _given(self, text: str) -> str:
        """Return the clause that gives the registered names in a query the meaning that they have now."""
        ctes = [f"{quoted(name)} AS NOT MATERIALIZED ({frame.rows})" for name, frame in self._used(text)]
        return f"WITH {', '.join(ctes)} " if ctes else ""

    def _used(self, text: str) -> list[tuple[str, DuckDBFrame]]:
        lower = text.lower()
        return [(name, frame) for name, frame in self._named.items() if name.replace('"', '""') in lower]

    def _variable(self, name: str, parameters: Mapping[str, Any]) -> str:
        if name not in parameters:
            raise RivetError("RVT-503", f"the query has a parameter :{name}, which has no value")
        variable = f"{self._schema}_{next(self._numbers)}"
        value, kind = bound_value(parameters[name])
        _set_variable(self._connection, variable, value, kind)
        self._variables[variable] = value, kind
        expression = f"getvariable('{variable}')"
        return f"CAST({expression} AS {kind})" if kind else expression

    def _stored(self, reader: pa.RecordBatchReader) -> DuckDBFrame:
        """Read all rows into a table of the session."""
        import pyarrow as pa

        table = self._new_name()
        errors: list[BaseException] = []
        refuse_repeated(reader.schema.names)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from reader
            except BaseException as error:
                errors.append(error)
                raise

        def read() -> None:
            rows = pa.RecordBatchReader.from_batches(reader.schema, batches())
            self._connection.register("rivet_rows", rows)
            try:
                self._connection.execute(f"CREATE TABLE {table} AS SELECT * FROM rivet_rows")
            except duckdb.Error:
                if errors:
                    raise errors[0] from None
                raise
            finally:
                self._connection.unregister("rivet_rows")

        self._run(read)
        void = [field.name for field in reader.schema if pa.types.is_null(field.type)]
        nothing = ", ".join(f"NULL AS {quoted(name)}" for name in void)
        return self._made(f"SELECT *{f' REPLACE ({nothing})' if nothing else ''} FROM {table}", short=True)

    def _in_its_zone(self, frame: DuckDBFrame) -> DuckDBFrame:
        """Return a frame whose naive timestamps are in the session's time zone, as everywhere in Spark."""
        meant = [(name, with_zone(kind)) for name, kind in frame.columns]
        if meant == list(frame.columns):
            return frame
        items = [f"CAST({quoted(name)} AS {duckdb_type(kind)}) AS {quoted(name)}" for name, kind in meant]
        return self._made(f"SELECT {', '.join(items)} FROM ({frame.rows})", short=frame.short)

    def _projected(self, frame: DuckDBFrame, projection: Projection) -> DuckDBFrame:
        with self.views():
            self.register(_LOADED, frame)
            return self.query(projected(_LOADED, projection.columns, projection.filter, projection.limit))

    def _batches(self, frame: DuckDBFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        connection = self._connect()
        self._open.append(connection)
        try:
            with _translated_errors():
                self._check_interrupt()

                def work() -> Iterator[pa.RecordBatch]:
                    yield from connection.sql(frame.rows).to_arrow_reader(_BATCH_ROWS)

                for batch in stream(work, connection.interrupt, self._check_interrupt):
                    yield batch.cast(schema)
        finally:
            self._open.remove(connection)
            connection.close()

    def _run(
        self,
        action: Callable[[], T],
        timeout: float | None = None,
        sql: str | None = None,
        skipped: int | None = 0,
        tick: Callable[[], None] | None = None,
    ) -> T:
        """Run ``action`` in another thread, so that an interrupt, or ``check_interrupt``, stops it."""

        def ticked() -> None:
            self._check_interrupt()
            (tick or _nothing)()

        with _translated_errors(sql, skipped):
            self._check_interrupt()
            return wait_for(action, self._connection.interrupt, timeout, tick=ticked)


def _nothing() -> None:
    """Do nothing: a report without a listener, a check without an interrupt."""


def _set_variable(connection: Any, name: str, value: Any, kind: str | None) -> None:
    bound = f"CAST(? AS {kind})" if kind else "?"
    connection.execute(f"SET VARIABLE {name} = {bound}", [value])


@contextmanager
def _translated_errors(sql: str | None = None, skipped: int | None = 0) -> Iterator[None]:
    """Turn errors of DuckDB in the block into RivetErrors."""
    try:
        yield
    except duckdb.Error as error:
        raise duckdb_error(error, sql, skipped) from error
