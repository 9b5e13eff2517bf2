"""Work that is not interrupted halfway: whoever cleans up after an interrupt must know whether it was done."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

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

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = Thread(target=run, name=f"{THREAD_PREFIX}metastore", daemon=True)
    thread.start()
    interrupt: BaseException | None = None
    while thread.is_alive():
        try:
            thread.join(_POLL_SECONDS)
        except BaseException as error:  # KeyboardInterrupt, or what Dagster raises for a cancel
            interrupt = error
    if errors:
        raise errors[0]
    if interrupt is not None:
        raise interrupt
