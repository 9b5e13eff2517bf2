"""Where tables are, told by their names: so that two joints that mean the same rows are found."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.model.location import Location


class TellsLocations(Catalog):
    """tells where its tables are."""

    @classmethod
    def resolved(cls, options: Mapping[str, Any], root: Path) -> Mapping[str, Any]:
        """Return these expanded ``options`` as they hold on this machine; ``root`` is the project's directory."""
        return options

    @classmethod
    @abstractmethod
    def written_places(cls, options: Mapping[str, Any], table: str) -> Iterable[Location]:
        """Return where the rows of a ``table`` are that is published in a catalog with these ``options``.

        The names alone tell: nothing is looked at. None are told that nobody can know before ``${`` is expanded.
        """

    @classmethod
    @abstractmethod
    def read_places(cls, options: Mapping[str, Any], table: str, look: bool = False) -> Iterable[Location]:
        """Return where the rows are that a source on ``table`` reads, told as ``written_places`` does.

        With ``look``, ``options`` are resolved, and links on this machine are followed.
        """
