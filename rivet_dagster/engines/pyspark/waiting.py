"""Waiting for Spark so that the caller can be interrupted, which also cancels the work, unless Spark has died."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from rivet_dagster.engines import waiting
from rivet_dagster.engines.waiting import GRACE_SECONDS, Items

THREAD_PREFIX = waiting.THREAD_PREFIX

T = TypeVar("T")


def wait_for(
    work: Callable[[], T],
    cancel: Callable[[], None],
    timeout: float | None = None,
    grace: float = GRACE_SECONDS,
    tick: Callable[[], None] | None = None,
) -> T:
    """Return the result of ``work``, as ``engines.waiting.wait_for`` does.

    >>> wait_for(lambda: 6 * 7, lambda: None)
    42
    """
    return waiting.wait_for(work, cancel, timeout, grace, tick, lost_connection_errors)


def stream(
    work: Callable[[], Iterator[T]],
    cancel: Callable[[], None],
    tick: Callable[[], None],
    items: Items[T] | None = None,
) -> Iterator[T]:
    """Yield the items of ``work``, as ``engines.waiting.stream`` does.

    >>> list(stream(lambda: iter("abc"), lambda: None, lambda: None))
    ['a', 'b', 'c']
    """
    return waiting.stream(work, cancel, tick, items, lost_connection_errors)


def lost_connection_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions that a call raises if Spark does not answer any more."""
    # Imported here, since this module is also used where Spark is not installed.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException, OSError
