"""Landing zones: tables to which others add files, and whose files are read one by one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.relations import Files


class LandingZone(ABC):
    """A table whose readers can skip the files that they have already consumed."""

    @abstractmethod
    def files(self) -> tuple[LandedFile, ...]:
        """Return the current files, in order. Raises RVT-321 if there is no landing zone, RVT-403."""

    @abstractmethod
    def relation(self, files: Sequence[LandedFile]) -> Files:
        """Return the relation of exactly these files."""

    @abstractmethod
    def archive(self, files: Iterable[LandedFile], name: str) -> None:
        """Move those of ``files`` that still exist, unchanged, to a folder called ``name`` that no reader reads.

        Files that have changed or been added meanwhile stay where they are, and no file is overwritten. Raises RVT-410
        if some could not be moved; all others are moved.
        """

    @abstractmethod
    def archived(self) -> str | None:
        """Return a file that ``archive`` has moved and that is still there, as messages show it; None without one.

        Raises RVT-321, RVT-403.
        """


class HasLandingZones(Catalog):
    """has landing zones."""

    @classmethod
    def refuses_landing(cls, options: Mapping[str, Any], table: str) -> str | None:
        """Return why ``table`` of a catalog with these ``options`` cannot be a landing zone; None if it can.

        A value with an unexpanded ``${`` is not checked.
        """
        return None

    @abstractmethod
    def landing_zone(self, table: str, options: Mapping[str, Any]) -> LandingZone:
        """Return the landing zone ``table`` without accessing storage."""
