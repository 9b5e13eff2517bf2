"""A thread that sends heartbeats while the block that it belongs to runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rivet_dagster.errors import RivetError

SECONDS = 10.0
"""Between two heartbeats."""


@contextmanager
def beating(beat: Callable[[], None], table: str, seconds: float | None = None) -> Iterator[None]:
    """Call ``beat`` every ``seconds`` (default: SECONDS) until the block ends or ``beat`` raises a RivetError."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(SECONDS if seconds is None else seconds):
            try:
                beat()
            except RivetError:
                return  # publishing raises the same
            except OSError:
                continue  # storage that cannot be reached now may answer before the version counts as dead

    thread = threading.Thread(target=work, name=f"rivet-alive-{table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
