"""The locations of tables, by which the compiler finds two joints that write or read the same rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.model.location import Location


class TellsLocations(Catalog):
    """knows the locations of its tables."""

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """Return the expanded ``options`` with paths resolved on this machine; ``root`` is the project's directory."""
        return options

    @classmethod
    @abstractmethod
    def written_locations(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return the locations of the rows of a ``table`` that is published in a catalog with these ``options``.

        They are derived from the names alone, without accessing storage. Locations that depend on an unexpanded ``${``
        are left out.
        """

    @classmethod
    @abstractmethod
    def read_locations(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return the locations of the rows that a source on ``table`` reads, derived as in ``written_locations``.

        With ``look``, ``options`` are resolved ones, and links on this machine are followed.
        """
