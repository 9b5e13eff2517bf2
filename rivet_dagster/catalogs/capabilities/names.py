"""Tables found by a prefix of their names."""

from __future__ import annotations

from abc import abstractmethod

from rivet_dagster.catalogs.contract import Catalog


class ListsTables(Catalog):
    """lists its tables."""

    @abstractmethod
    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the published tables that begin with ``prefix``, in order."""
