"""Waiting for an engine so that the caller can be interrupted, which also cancels the work.

A thread that waits inside py4j does not handle signals. So the work is done in another thread, while the calling thread
waits in Python.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue
from typing import Protocol, TypeVar

THREAD_PREFIX = "rivet-spark-"
GRACE_SECONDS = 10.0
TICK_SECONDS = 1.0
_POLL_SECONDS = 0.1
_CANCEL_SECONDS = 0.3
_AHEAD = 2
"""How many items are computed in advance, unless another queue has more room."""

T = TypeVar("T")
Errors = Callable[[], tuple[type[Exception], ...]]
"""Returns the exceptions that ``cancel`` raises where the engine itself has died."""
_numbers = itertools.count(1)


class Items(Protocol[T]):
    """A queue, as far as ``stream`` uses it."""

    def put(self, item: T, /, *, timeout: float | None) -> None:
        """Add an item. Raises Full if there is no room for ``timeout`` seconds."""

    def get(self, *, timeout: float | None) -> T:
        """Remove and return the first item. Raises Empty if there is none for ``timeout`` seconds."""

    def get_nowait(self) -> T:
        """Remove and return the first item. Raises Empty."""


def wait_for(
    work: Callable[[], T],
    cancel: Callable[[], None],
    timeout: float | None = None,
    grace: float = GRACE_SECONDS,
    tick: Callable[[], None] | None = None,
    errors_of_the_dead: Errors = tuple,
) -> T:
    """Return the result of ``work``; on an interrupt or after ``timeout`` seconds cancel it, wait for it, and raise.

    Work that does not end within ``grace`` seconds is cancelled again and again in the background. ``tick`` is called
    about once a second while this function waits.

    Raises TimeoutError, and whatever ``work``, ``tick`` or a signal handler raises.

    >>> wait_for(lambda: 6 * 7, lambda: None)
    42
    """
    results: list[T] = []
    errors: list[BaseException] = []
    ended = threading.Event()

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    # A daemon thread: work that cannot be stopped must not keep the process from ending.
    threading.Thread(target=run, name=f"{THREAD_PREFIX}{next(_numbers)}", daemon=True).start()
    deadline = None if timeout is None else time.monotonic() + timeout
    next_tick = time.monotonic() + TICK_SECONDS
    try:
        while not ended.wait(_POLL_SECONDS):
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"no answer within {timeout:g} s")
            if tick is not None and time.monotonic() > next_tick:
                tick()
                next_tick = time.monotonic() + TICK_SECONDS
    except BaseException:
        _cancel_until(ended, cancel, errors_of_the_dead)
        ended.wait(grace)
        raise
    if errors:
        raise errors[0]
    return results[0]


def stream(
    work: Callable[[], Iterator[T]],
    cancel: Callable[[], None],
    tick: Callable[[], None],
    items: Items[T] | None = None,
    errors_of_the_dead: Errors = tuple,
) -> Iterator[T]:
    """Yield the items of ``work``, which another thread computes as far in advance as there is room in ``items``.

    If the caller stops reading, also by an interrupt, ``work`` is cancelled. ``tick`` is called about once a second
    while the caller waits for an item. Raises whatever ``work``, ``tick`` or a signal handler raises.

    >>> list(stream(lambda: iter("abc"), lambda: None, lambda: None))
    ['a', 'b', 'c']
    """
    items = Queue(_AHEAD) if items is None else items
    errors: list[BaseException] = []
    ended, unread = threading.Event(), threading.Event()

    def run() -> None:
        try:
            for item in work():
                if not _offered(items, item, unread):
                    return
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    threading.Thread(target=run, name=f"{THREAD_PREFIX}{next(_numbers)}", daemon=True).start()
    next_tick = time.monotonic() + TICK_SECONDS
    try:
        while True:
            over = ended.is_set()  # before the queue is read: no item is added after it is set
            try:
                item = items.get_nowait() if over else items.get(timeout=_POLL_SECONDS)
            except Empty:
                if over:
                    break
            else:
                yield item
            if time.monotonic() > next_tick:
                tick()
                next_tick = time.monotonic() + TICK_SECONDS
    finally:
        unread.set()
        if not ended.is_set():
            _cancel_until(ended, cancel, errors_of_the_dead)
    if errors:
        raise errors[0]


def _offered(items: Items[T], item: T, unread: threading.Event) -> bool:
    """Put ``item`` into the queue; return False if the caller has stopped reading."""
    while not unread.is_set():
        try:
            items.put(item, timeout=_POLL_SECONDS)
            return True
        except Full:
            continue
    return False


def _cancel_until(ended: threading.Event, cancel: Callable[[], None], errors_of_the_dead: Errors) -> None:
    """Cancel repeatedly: a cancel between two jobs of a query has no effect on the next job."""

    def chase() -> None:
        while not ended.is_set():
            try:
                cancel()
            except errors_of_the_dead():
                return  # the engine has died, and the work with it
            ended.wait(_CANCEL_SECONDS)

    threading.Thread(target=chase, name=f"{THREAD_PREFIX}cancel", daemon=True).start()
