"""An engine other than Spark: DuckDB in this process, for SELECTs and checks."""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import duckdb
import pyarrow as pa
import sqlglot

from rivet_dagster.engines.arrow_values import arrow_rows, refuse_repeated
from rivet_dagster.engines.contract import Engine, EngineSession, QueryPlan, Typed, cannot_read, cannot_write
from rivet_dagster.engines.views import ScopedViews
from rivet_dagster.errors import RivetError
from rivet_dagster.model.plugins import SPARK
from rivet_dagster.model.relations import ArrowRows, Files, Kinds, Relation
from rivet_dagster.model.storage import Projection

TICK = 0.1

_TYPES = {
    "VARCHAR": "string",
    "INTEGER": "int",
    "REAL": "float",
    "BLOB": "binary",
    "HUGEINT": "decimal(38,0)",
    "TIMESTAMP": "timestamp_ntz",
    "TIMESTAMP WITH TIME ZONE": "timestamp",
}
_BOUND = {"string": "VARCHAR", "timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP"}


class DuckDBEngine(Engine):
    """DuckDB, for Spark's SQL as far as sqlglot translates it."""

    type: ClassVar[str] = "duck"
    options: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[Kinds] = frozenset({Files, ArrowRows})
    writes: ClassVar[Kinds] = frozenset({Files})
    dialect: ClassVar[str] = SPARK

    def __init__(self, spec: Any, connect: Any = None, check_interrupt: Any = None, needs: Any = ()) -> None:
        self._check_interrupt = check_interrupt or (lambda: None)

    def session(self) -> DuckDBSession:
        """Begin a session with tables of its own."""
        return DuckDBSession(self.reads, self._check_interrupt)


class ArrowOnlyEngine(DuckDBEngine):
    """DuckDB that reads rows as Arrow only."""

    type: ClassVar[str] = "arrow_only"
    reads: ClassVar[Kinds] = frozenset({ArrowRows})


class DuckDBSession(EngineSession):
    """A session in which a frame is the name of a computed table."""

    loaded: ClassVar[list[type]] = []
    """The kinds of all relations that sessions of this process have loaded."""

    def __init__(self, reads: Kinds, check_interrupt: Callable[[], None]) -> None:
        self._reads = reads
        self._check_interrupt = check_interrupt
        self._database = _database(os.getpid()).cursor()
        self._numbers = itertools.count()
        self._views = ScopedViews(self._bind, lambda name: self._database.execute(f'DROP VIEW "{name.lower()}"'))

    def load(self, relation: Relation, projection: Projection | None = None) -> str:
        """Read Parquet files, or Arrow rows."""
        if type(relation) not in self._reads:
            raise cannot_read("duckdb", relation)
        self.loaded.append(type(relation))
        if isinstance(relation, Files):
            assert relation.format == "parquet"
            paths = [f"{path}/**/*.parquet" if Path(path).is_dir() else path for path in relation.paths]
            frame = self._made(self._database.read_parquet(paths).sql_query())
        else:
            frame = self._of(relation.batches())
        return frame if projection is None else self.query(_projected(frame, projection))

    def register(self, name: str, frame: str) -> None:
        """Create a view."""
        self._views.register(name, frame)

    def views(self) -> AbstractContextManager[None]:
        """Begin a scope."""
        return self._views.scope()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> str:
        """Compute the query."""
        return self._made(_translated(sql), _bound(sql, parameters))

    def union_by_name(self, frames: Sequence[str]) -> str:
        """Compute the union."""
        names = [{name for name, _ in self.columns(frame)} for frame in frames]
        if any(other != names[0] for other in names):
            raise RivetError("RVT-503", "the columns have other names")
        return self._made(" UNION ALL BY NAME ".join(f"SELECT * FROM {frame}" for frame in frames))

    def columns(self, frame: str) -> tuple[tuple[str, str], ...]:
        """Return names and types."""
        table = self._database.table(frame)
        return tuple((n, _type_name(str(t))) for n, t in zip(table.columns, table.types, strict=True))

    def schema(self, frame: str) -> str:
        """Return names and types as DDL."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.columns(frame))

    def explain(self, frame: str) -> Callable[[], QueryPlan]:
        """Return the name of the table."""
        return lambda: QueryPlan("DuckDB")

    def write(self, frame: str, target: Relation, progress: Any = None, split_by: str | None = None) -> None:
        """Add a Parquet file, or one for each value of ``split_by``."""
        if not isinstance(target, Files):
            raise cannot_write("duckdb", target)
        refuse_repeated(name for name, _ in self.columns(frame))
        if split_by is None:
            self._run(lambda: self._database.table(frame).write_parquet(f"{target.paths[0]}/part-{uuid4()}.parquet"))
            return
        (parts, column) = self._database.execute(f'SELECT DISTINCT "{split_by}" FROM {frame}').fetchall(), split_by
        for (part,) in parts:
            folder = Path(target.paths[0]) / f"{column}={part}"
            folder.mkdir()
            some = self._database.table(frame).filter(f'"{column}" = {part}').project(f'* EXCLUDE ("{column}")')
            some.write_parquet(f"{folder}/part-{uuid4()}.parquet")

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return rows as dictionaries."""
        return self._run(
            lambda: self._database.sql(_translated(sql), params=_bound(sql, parameters)).to_arrow_table().to_pylist(),
            timeout,
        )

    def batches(self, frame: str) -> pa.RecordBatchReader:
        """Return the rows in batches."""
        return self._database.table(frame).to_arrow_reader()

    def from_value(self, value: Any) -> str | None:
        """Convert the value to Arrow."""
        reader = arrow_rows(value)
        return None if reader is None else self._of(reader)

    def close(self) -> None:
        """Close the database."""
        self._database.close()

    def _bind(self, name: str, frame: str) -> None:
        self._database.execute(f'CREATE OR REPLACE TEMP VIEW "{name.lower()}" AS SELECT * FROM {frame}')

    def _of(self, reader: pa.RecordBatchReader) -> str:
        frame = self._name()
        self._database.register(f"{frame}_rows", reader)
        self._run(lambda: self._database.execute(f"CREATE TEMP TABLE {frame} AS SELECT * FROM {frame}_rows"))
        self._database.unregister(f"{frame}_rows")
        return frame

    def _made(self, sql: str, parameters: Mapping[str, Any] | None = None) -> str:
        frame = self._name()
        self._run(lambda: self._database.execute(f"CREATE TEMP TABLE {frame} AS {sql}", parameters))
        return frame

    def _name(self) -> str:
        return f"frame_{next(self._numbers)}"

    def _run(self, action: Callable[[], Any], timeout: float | None = None) -> Any:
        """Run ``action`` in another thread, while this one checks timeout and interrupts; return its result."""
        self._check_interrupt()
        results: list[Any] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                results.append(action())
            except BaseException as error:
                errors.append(error)

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        waited = 0.0
        try:
            while worker.is_alive():
                worker.join(TICK)
                waited += TICK
                self._check_interrupt()
                if timeout is not None and waited > timeout and worker.is_alive():
                    raise TimeoutError(f"no answer within {timeout:g} s")
        except BaseException:
            with suppress(duckdb.Error):
                self._database.interrupt()
            worker.join()
            raise
        for error in errors:
            if isinstance(error, duckdb.Error):
                raise RivetError("RVT-503", str(error)) from error
            raise error
        return results[0]


@cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """Start the one database of a process, which takes longer than most tests; all tables are temporary ones."""
    atexit.register(_database.cache_clear)  # at exit DuckDB complains of a connection that is still there
    return duckdb.connect(config={"threads": 1})


def _translated(sql: str) -> str:
    (translated,) = sqlglot.transpile(sql, read=SPARK, write="duckdb")
    return translated.replace("XXHASH64(", "HASH(")


def _bound(sql: str, parameters: Mapping[str, Any] | None) -> dict[str, Any] | None:
    used = {node.name for node in sqlglot.parse_one(sql, read=SPARK).find_all(sqlglot.exp.Placeholder)}
    return {name: _value(value) for name, value in (parameters or {}).items() if name in used} or None


def _value(value: Any) -> Any:
    if not isinstance(value, Typed):
        return value
    return duckdb.Value(value.value, duckdb.sqltype(_BOUND.get(value.type, value.type)))


def _type_name(name: str) -> str:
    return _TYPES.get(name, name.lower())


def _projected(frame: str, projection: Projection) -> str:
    columns = [f"{name if text is None else text} AS {name}" for name, text in projection.columns]
    text = f"SELECT {', '.join(columns) or '*'} FROM {frame}"
    text += f" WHERE {projection.filter}" if projection.filter is not None else ""
    return text + (f" LIMIT {projection.limit}" if projection.limit is not None else "")
