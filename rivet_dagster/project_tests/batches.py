"""The rows of several tests, computed by few queries of the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.project_tests.values import Table, table_of
from rivet_dagster.sql.fusion import NUMBER, columns_of, together

MOST_QUERIES = 25
"""How many queries are computed as one."""

MOST_SHAPES = 20
"""How many different shapes may be among them: each is a column that the rows of the others leave empty."""


_AT_ONCE = 2
"""How many batches are computed at once: most of the time goes into planning, which uses one core."""

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
    pool = ThreadPoolExecutor(_AT_ONCE, initializer=_begin, initargs=(given_up,))
    try:
        found = pool.map(lambda batch: _computed(session, batch), batches(queries))
        return [rows for results in found for rows in results]
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


def batches(queries: Sequence[SmallQuery]) -> Iterator[list[SmallQuery]]:
    """Yield the queries, in their order, in batches of few shapes."""
    batch: list[SmallQuery] = []
    shapes: set[Hashable] = set()
    for query in queries:
        if len(batch) == MOST_QUERIES or len(shapes | {query.shape}) > MOST_SHAPES:
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
        own = rows.filter(pc.equal(rows[NUMBER], number))[columns[query.shape]].combine_chunks().flatten()
        fields = [own.type.field(index) for index in range(own.type.num_fields)]
        results.append(table_of(fields, own.flatten(), len(own)))
    return results
