"""Removing what runs that died have left."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import RivetError

DEAD_AFTER = 60.0
"""Seconds without a sign of life after which nobody works on a version any more."""


class Sweeps(Catalog):
    """removes what dead runs left."""

    @abstractmethod
    def building(self) -> tuple[str, ...]:
        """Return the names of the versions that are being built, by runs that live or have just died."""

    @abstractmethod
    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove what runs that are dead were building, and return the names of it; a living run loses nothing.

        A table that cannot be swept keeps no other from it: ``failed`` is called with each error, or they are raised
        together at the end.
        """
