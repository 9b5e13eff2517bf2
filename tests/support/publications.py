"""Publications in a database by an engine without a JVM, and readers of its table meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pyarrow as pa
import pytest

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.write_plan import Upsert, WritePlan

ROWS = 200
BY_ID = Upsert(keys=("id",))
SEEN = "SELECT count(*), min(n), max(n) FROM orders"
"""The query of readers."""

Read = Callable[[], list[tuple[int, ...]]]
"""A function that sends SEEN twice in one transaction, and returns both rows."""


def batch(value: int, count: int = ROWS, first: int = 0) -> pa.Table:
    """Return rows that all have the same value."""
    return pa.table(
        {"id": pa.array(range(first, first + count), pa.int64()), "n": pa.array([value] * count, pa.int64())}
    )


def staged(catalog: JdbcCatalog, session: EngineSession, plan: WritePlan, value: int, count: int = ROWS) -> Any:
    """Return a transaction of the table ``orders`` whose rows are staged."""
    transaction = catalog.begin("orders", session)
    transaction.write(plan, session.from_value(batch(value, count)))
    return transaction


def publish(catalog: JdbcCatalog, session: EngineSession, plan: WritePlan, value: int, identity: str = "run") -> None:
    """Publish rows that all have the same value."""
    with staged(catalog, session, plan, value) as transaction:
        transaction.commit(identity)


def refused(call: Callable[[], object]) -> RivetError:
    """Return the error of a call."""
    with pytest.raises(RivetError) as caught:
        call()
    return caught.value


def committed_at_once(*transactions: Any) -> list[str]:
    """Commit transactions, each in a thread; return their error codes, and their versions."""
    results: list[str] = []

    def commit(transaction: Any) -> None:
        try:
            results.append(transaction.commit(transaction.version).version)
        except RivetError as error:
            results.append(error.code)
            transaction.abort()

    threads = [threading.Thread(target=commit, args=(transaction,)) for transaction in transactions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@contextmanager
def readers(reading: Callable[[], AbstractContextManager[Read]]) -> Iterator[list[tuple[int, ...]]]:
    """Read the table again and again, by two connections; yield what was seen in each transaction, both rows as one."""
    stop, seen = threading.Event(), list[tuple[int, ...]]()

    def read_on() -> None:
        with reading() as read:
            while not stop.is_set():
                first, second = read()
                seen.append((*first, *second))
                time.sleep(0.01)  # this process publishes, too

    threads = [threading.Thread(target=read_on) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def assert_whole(committed: list[tuple[int, ...]], repeatable: list[tuple[int, ...]]) -> None:
    """Assert that readers, in both levels of isolation, have seen all rows of one publication at a time."""
    for seen in (committed, repeatable):
        assert {row[0] for row in seen} | {row[3] for row in seen} == {ROWS}
        assert [row for row in seen if row[1] != row[2] or row[4] != row[5]] == []
    assert [row for row in repeatable if row[:3] != row[3:]] == []
    assert len({row[1] for row in committed}) > 5
