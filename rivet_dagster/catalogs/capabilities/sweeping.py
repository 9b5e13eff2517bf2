"""Removing what dead runs have left behind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import RivetError

DEAD_AFTER = 60.0
"""Seconds without a heartbeat after which the run that builds a version counts as dead."""


class Sweeps(Catalog):
    """removes what dead runs left."""

    @abstractmethod
    def building(self) -> tuple[str, ...]:
        """Return the names of the versions that are being built, by runs that are alive or have only just died."""

    @abstractmethod
    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the versions that dead runs were building and return their names; live runs are not affected.

        A table that cannot be swept does not stop the others: ``failed`` is called with each error, or, without it,
        all errors are raised together at the end.
        """
