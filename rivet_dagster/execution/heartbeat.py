"""A run's sign of life, given while it works on something staged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Staged

SECONDS = 10.0
"""From one sign to the next."""


@contextmanager
def kept_alive(catalog: Catalog, staged: Staged, seconds: float = SECONDS) -> Iterator[None]:
    """Give a sign every few seconds until the block ends, however it ends."""
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(seconds):
            try:
                catalog.beat(staged)
            except RivetError:
                return  # publishing finds the same
            except OSError:
                continue  # storage that is away for a moment may be back in time

    thread = threading.Thread(target=beat, name=f"rivet-alive-{staged.table}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
