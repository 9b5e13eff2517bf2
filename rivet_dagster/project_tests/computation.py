"""The rows of the targets of tests: of one as text or as a frame of a session, of several by few queries."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rivet_dagster.compiler.group_query import FusedQuery
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.refs import MaterializedRef
from rivet_dagster.execution.row_error import locate_at_joint, locate_in_query
from rivet_dagster.execution.showing import first_rows
from rivet_dagster.execution.writing.joint import call, load_function
from rivet_dagster.project_tests.prepared import Prepared
from rivet_dagster.project_tests.values import Table, table_of
from rivet_dagster.sql.fusion import NUMBER, columns_of, fuse, locate, together
from rivet_dagster.sql.literal_rows import rows_query
from rivet_dagster.sql.parsing.embedding import in_parentheses

MOST_SHAPES = 20
"""How many different shapes may be among queries computed as one: each is a column that the others leave empty."""

_thread = threading.local()


@dataclass(frozen=True)
class SmallQuery:
    """A query with a small result. Two of the same ``shape`` have the same columns, of the same types.

    ``alone`` computes the rows by itself, with errors at their place.
    """

    shape: Hashable
    sql: str
    alone: Callable[[], Table]


def compute_batches(session: EngineSession, queries: Sequence[SmallQuery]) -> list[Table | RivetError]:
    """Return the rows of each query, or the error with which it fails; the engine computes many as one."""
    given_up = threading.Event()
    pool = ThreadPoolExecutor(session.threads_at_once, initializer=_begin, initargs=(given_up,))
    try:
        computed = pool.map(lambda batch: _computed(session, batch), batches(queries, session.queries_at_once))
        return [rows for results in computed for rows in results]
    except BaseException:
        given_up.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def check_interrupt() -> None:
    """Raise KeyboardInterrupt in a thread of ``compute_batches`` that has been given up."""
    given_up = getattr(_thread, "given_up", None)
    if given_up is not None and given_up.is_set():
        raise KeyboardInterrupt


def _begin(given_up: threading.Event) -> None:
    _thread.given_up = given_up


def batches(queries: Sequence[SmallQuery], most: int) -> Iterator[list[SmallQuery]]:
    """Yield the queries, in their order, in batches of at most so many and of few shapes."""
    batch: list[SmallQuery] = []
    shapes: set[Hashable] = set()
    for query in queries:
        if len(batch) == most or len(shapes | {query.shape}) > MOST_SHAPES:
            yield batch
            batch, shapes = [], set()
        batch.append(query)
        shapes.add(query.shape)
    if batch:
        yield batch


def rows_of(session: EngineSession, frame: Any) -> Table:
    """Return the rows of a frame."""
    rows = session.to_arrow(frame)
    return table_of(rows.schema, rows.columns, rows.num_rows)


def _computed(session: EngineSession, batch: Sequence[SmallQuery]) -> list[Table | RivetError]:
    """Compute a batch; if one query of it fails, its halves, so that it does not fail the others."""
    if len(batch) == 1:
        try:
            return [batch[0].alone()]
        except RivetError as error:
            return [error]
    try:
        return _in_one_query(session, batch)
    except RivetError:
        half = len(batch) // 2
        return _computed(session, batch[:half]) + _computed(session, batch[half:])


def _in_one_query(session: EngineSession, batch: Sequence[SmallQuery]) -> list[Table | RivetError]:
    import pyarrow.compute as pc

    rows = session.to_arrow(session.query(together([(query.shape, query.sql) for query in batch])))
    columns = columns_of([query.shape for query in batch])
    results: list[Table | RivetError] = []
    for number, query in enumerate(batch):
        values = rows.filter(pc.equal(rows[NUMBER], number))[columns[query.shape]].combine_chunks().flatten()
        fields = [values.type.field(index) for index in range(values.type.num_fields)]
        results.append(table_of(fields, values.flatten(), len(values)))
    return results


@dataclass(frozen=True)
class Computation:
    """Computes what a test needs in an open session; its views have names that begin with ``rivet_test_``."""

    prepared: Prepared
    assembly: CompiledAssembly
    root: Path
    session: EngineSession
    _views: dict[str, str] = field(default_factory=dict)

    def table(self) -> Table:
        """Return the rows of the target. Raises RVT-503, RVT-520 and errors of Python joints, at their place."""
        try:
            return rows_of(self.session, self.frame(self.prepared.target))
        except RivetError as error:
            one = not self.prepared.functions and not self.prepared.unions and not self.prepared.written
            query = query_of(self.prepared, self.prepared.target, {}) if one else None
            raise at_location(error, query, self.prepared, self.assembly) from error.__cause__

    def frame(self, name: str) -> Frame:
        """Return the rows of a fixture, or of a joint that the test computes, whose Python joints are run now.

        Raises RVT-503 and what Python joints raise, at the joint and its line.
        """
        for before in self._apart_before(name):
            self._view(before)
        if name in self._apart:
            return self.session.query(f"SELECT * FROM {self._view(name)}")
        parts = self.prepared.reads[name] if name in self.prepared.unions else (name,)
        frames = [self._query(part) for part in parts]
        return frames[0] if len(frames) == 1 else self.session.union_by_name(frames)

    def error_count(self) -> int:
        """Return the number of the errors of rows that were left out since they cannot be evaluated."""
        errors = self.prepared.errors
        if errors is None:
            return 0
        given = [(name, _rows(name, table)) for name, table in self.prepared.fixtures.items()]
        views = [(name, f"SELECT * FROM {view}") for name, view in self._views.items()]
        text = fuse([*given, *views, *errors.ctes], errors.result)
        counted = f"SELECT count(*) AS errors FROM {in_parentheses(text)}"
        (row,) = self.session.rows(counted, self.prepared.parameters)
        return int(row["errors"])

    def _query(self, name: str) -> Frame:
        query = query_of(self.prepared, name, self._views)
        parameters = self.prepared.parameters
        try:
            return self.session.query(query.sql, parameters)
        except RivetError as error:
            raise at_location(error, query, self.prepared, self.assembly) from error.__cause__

    @property
    def _apart(self) -> Set[str]:
        """The joints whose rows are no part of their readers' query."""
        return self.prepared.functions.keys() | self.prepared.written.keys()

    def _apart_before(self, name: str) -> list[str]:
        """Return such joints that the joint reads, directly or through others, in the order of the run."""
        needed = {name}
        for joint in reversed(self.prepared.computed):
            if joint in needed:
                needed.update(self.prepared.reads[joint])
        return [joint for joint in self.prepared.computed if joint in self._apart & needed and joint != name]

    def _view(self, name: str) -> str:
        """Compute a joint apart, unless that is done, and return the view of the rows that its readers find."""
        if name not in self._views:
            frame = self._called(name) if name in self.prepared.functions else self._query(name)
            if name in self.prepared.written:
                frame = first_rows(self.prepared.written[name], self.session, frame)
            view = f"rivet_test_{name}"
            self.session.register(view, frame)
            self._views[name] = view
        return self._views[name]

    def _called(self, name: str) -> Frame:
        """Return the rows of a Python joint, which runs now."""
        joint = self.prepared.functions[name]
        handles = {
            upstream: MaterializedRef(
                upstream, lambda: self.session, partial(lambda wanted, _: self.frame(wanted), upstream)
            ).bound_to(self.session)
            for upstream in joint.upstream
        }
        try:
            return call(joint, load_function(joint, self.root), handles, self.session)
        finally:
            for handle in handles.values():
                handle.end()


def query_of(prepared: Prepared, name: str, views: Mapping[str, str]) -> FusedQuery:
    """Return the query of a fixture or a SQL joint, whose CTEs are all that it needs; ``views`` are Python joints.

    A sink with one upstream has the rows of this.
    """
    while name in prepared.unions:
        (name,) = prepared.reads[name]
    needed, order = {name}, list(prepared.computed)
    for joint in reversed(order):
        if joint in needed:
            needed.update(prepared.reads[joint])
    ctes = [
        (relation, _rows(relation, prepared.fixtures[relation])) for relation in prepared.fixtures if relation in needed
    ]
    for joint in order:
        if joint in needed and joint in views:
            ctes.append((joint, f"SELECT * FROM {views[joint]}"))
        elif joint in needed and joint in prepared.texts:
            ctes.append((joint, prepared.texts[joint]))
    return FusedQuery(name, tuple(ctes), ())


def at_location(
    error: RivetError, query: FusedQuery | None, prepared: Prepared, assembly: CompiledAssembly
) -> RivetError:
    """Return an error at the joint and line of ``query`` that it is about, else at the target."""
    first = error.diagnostics[0]
    if first.joint is not None:
        return error
    joints = {name for name, _ in query.ctes if name in prepared.texts} if query is not None else set()
    located = locate(query.ctes, first.line) if query is not None and first.line is not None else None
    if query is not None and located is not None and located[0] in joints:
        return locate_in_query(error, query, assembly)
    return locate_at_joint(error, assembly.joint(prepared.target))


def _rows(relation: str, table: Table) -> str:
    return rows_query(table.columns, table.rows)
