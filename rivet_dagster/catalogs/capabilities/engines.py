"""Catalogs that can look up their tables only through an engine."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.engines.contract import EngineSession


class NeedsEngine(Catalog):
    """looks up its tables through an engine.

    Where no engine is at hand, as while definitions load and in sensors, its methods raise RVT-403: they start none.
    """

    @abstractmethod
    def attach(self, open_session: Callable[[], EngineSession]) -> None:
        """Take the function that begins a session of an engine that reaches this catalog.

        It is called when a table is looked up for the first time, and raises RVT-403 if no engine is at hand then.
        """
