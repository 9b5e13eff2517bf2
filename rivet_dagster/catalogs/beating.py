"""Giving signs of life from a thread while something takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rivet_dagster.errors import RivetError

SECONDS = 10.0
"""From one sign to the next."""


@contextmanager
def beating(beat: Callable[[], None], table: str, seconds: float | None = None) -> Iterator[None]:
    """Call ``beat`` every few seconds until the block ends, however it ends, or until it raises a RivetError."""
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(SECONDS if seconds is None else seconds):
            try:
                beat()
            except RivetError:
                return  # publishing finds the same
            except OSError:
                continue  # storage that is away for a moment may be back in time

    thread = threading.Thread(target=work, name=f"rivet-alive-{table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
