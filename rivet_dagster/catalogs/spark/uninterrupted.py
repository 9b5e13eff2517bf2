"""Work that is not interrupted halfway: whoever cleans up after an interrupt must know whether it was done."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Lock, Thread

from rivet_dagster.engines.pyspark.waiting import THREAD_PREFIX

_POLL_SECONDS = 0.1


def uninterrupted(work: Callable[[], object]) -> None:
    """Do ``work`` in another thread, and wait until it has ended; an interrupt meanwhile is raised after that.

    >>> done = []
    >>> uninterrupted(lambda: done.append("switched"))
    >>> done
    ['switched']
    """
    errors: list[BaseException] = []
    begun, ended = Lock(), Event()

    def run() -> None:
        if begun.acquire(blocking=False):
            try:
                work()
            except BaseException as error:
                errors.append(error)
            finally:
                ended.set()

    interrupt: BaseException | None = None
    try:
        Thread(target=run, name=f"{THREAD_PREFIX}metastore", daemon=True).start()
    except BaseException as error:
        if begun.acquire(blocking=False):
            raise  # now it never begins
        interrupt = error
    while not ended.is_set():
        try:
            ended.wait(_POLL_SECONDS)
        except BaseException as error:  # KeyboardInterrupt, or what Dagster raises for a cancel
            interrupt = error
    if errors:
        raise errors[0]
    if interrupt is not None:
        raise interrupt
