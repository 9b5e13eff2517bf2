"""A thread that sends heartbeats while the block that it belongs to runs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rivet_dagster.errors import HeartbeatLost

SECONDS = 10.0
"""Between two heartbeats."""

_LOG = logging.getLogger(__name__)


@contextmanager
def send_heartbeats(beat: Callable[[], None], table: str, seconds: float | None = None) -> Iterator[None]:
    """Call ``beat`` every ``seconds`` (default: SECONDS) until the block ends or ``beat`` raises RVT-406.

    After any other error it is called again: what cannot be reached now may answer before the version counts as dead.
    """
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(SECONDS if seconds is None else seconds):
            try:
                beat()
            except Exception as error:  # of storage, or of a client of it
                if isinstance(error, HeartbeatLost):
                    return  # publishing raises the same
                _LOG.warning("a heartbeat of %s has failed: %r", table, error)

    thread = threading.Thread(target=work, name=f"rivet-alive-{table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
