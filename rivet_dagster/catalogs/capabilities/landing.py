"""Tables to which files come, each told apart from the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.relations import Files


class LandingZone(ABC):
    """A table whose readers can leave out the files that they have read."""

    @abstractmethod
    def files(self) -> tuple[LandedFile, ...]:
        """Return the files that are there now, in order. Raises RVT-321 where there is no landing zone, RVT-403."""

    @abstractmethod
    def relation(self, files: Sequence[LandedFile]) -> Files:
        """Return how an engine reads exactly these files."""

    @abstractmethod
    def archive(self, files: Iterable[LandedFile], name: str) -> None:
        """Move those of ``files`` that are still there, unchanged, to a place called ``name`` that nobody reads.

        A file that has changed, or has come, meanwhile stays; none is overwritten. Raises RVT-410 where some could not
        be moved; all others are.
        """


class HasLandingZones(Catalog):
    """has landing zones."""

    @classmethod
    def refuses_landing(cls, options: Mapping[str, Any], table: str) -> str | None:
        """Return why ``table`` of a catalog with these ``options`` cannot be a landing zone; None where it can.

        A value that still holds ``${`` is not judged.
        """
        return None

    @abstractmethod
    def landing_zone(self, table: str, options: Mapping[str, Any]) -> LandingZone:
        """Return the landing zone ``table``; nothing is looked at yet."""
