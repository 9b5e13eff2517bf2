"""A run's sign of life, given while it works on something staged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rivet_dagster.catalogs.beating import SECONDS, beating
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Staged


@contextmanager
def kept_alive(catalog: Catalog, staged: Staged, seconds: float = SECONDS) -> Iterator[None]:
    """Give a sign every few seconds until the block ends, however it ends.

    Raises RVT-406 in place of the block's own RivetError where the run counted as dead by then: whatever else it met
    may come of that.
    """
    try:
        with beating(lambda: catalog.beat(staged), staged.table, seconds):
            yield
    except RivetError as error:
        dead = None if error.code == "RVT-406" else _death(catalog, staged)
        if dead is not None:
            raise dead from error
        raise


def _death(catalog: Catalog, staged: Staged) -> RivetError | None:
    with suppress(OSError):
        try:
            catalog.beat(staged)
        except RivetError as error:
            return error if error.code == "RVT-406" else None
    return None
