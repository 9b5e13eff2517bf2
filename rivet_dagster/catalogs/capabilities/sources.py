"""Capabilities of catalogs whose tables are read: names, files, locations, and landing zones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.inputs import LandedFile, Position
from rivet_dagster.model.relations import Files, Relation
from rivet_dagster.model.target import Location


class ListsFiles(Catalog):
    """lists the files of a table."""

    @classmethod
    def refuses_listing(cls, options: Mapping[str, Any], table: str) -> str | None:
        """Return why the files of ``table`` of a catalog with these ``options`` cannot be listed; None if they can.

        A value with an unexpanded ``${`` is not checked.
        """
        return None

    @classmethod
    def file_format(cls, options: Mapping[str, Any], table: str, joint_options: Mapping[str, Any]) -> str | None:
        """Return the format of the files of a source with ``joint_options``; None where only the files tell it."""
        return None

    @abstractmethod
    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """Return the files that ``table`` consists of now, in order; none as long as the first has not arrived.

        Raises RVT-403.
        """

    def version_of_files(self, table: str, options: Mapping[str, Any], files: Sequence[LandedFile]) -> str:
        """Return the ``data_version`` of ``table`` as it was when it consisted of ``files``; by default that of now.

        Raises RVT-403.
        """
        return self.data_version(table, options)

    def find(self, table: str, options: Mapping[str, Any]) -> tuple[Relation, str]:
        """Return the ``relation`` and the ``data_version`` of ``table``, by one look at its files if the catalog can.

        Raises RVT-403.
        """
        version = self.data_version(table, options)  # first: what changes in between must not count as read
        return self.relation(table, options), version


class ListsTables(Catalog):
    """lists its tables."""

    @abstractmethod
    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the tables that begin with ``prefix``, in order.

        All that are published, and others only where telling them apart would take a look at each: that is not done.
        """


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


class Snapshot(ABC):
    """The tables of a catalog as they were at one moment, as long as it is open."""

    id: str
    """The moment as the catalog names it."""

    @abstractmethod
    def relation(self, table: str, options: Mapping[str, Any]) -> Relation:
        """Return the data that ``table`` had at the moment. Raises RVT-403 if there is none."""

    @abstractmethod
    def position(self, table: str, options: Mapping[str, Any]) -> Position:
        """Return what versions record that are made of this data of ``table``. Raises RVT-403."""

    @abstractmethod
    def lost(self) -> RivetError | None:
        """Return why the snapshot cannot be read any more, although nobody has closed it; None if it can."""

    def broken(self) -> RivetError | None:
        """Return why what has been read may not be of one moment; None, as by default, if that raises an error itself.

        It is called after the last read, and before anything is published.
        """
        return None

    @abstractmethod
    def close(self) -> None:
        """End the snapshot; it can be called more than once."""


class HasSnapshots(Catalog):
    """reads several tables as they were at one moment."""

    @abstractmethod
    def snapshot(self, tables: int) -> Snapshot:
        """Return the tables as they are now, of which ``tables`` will be read. Raises RVT-403."""


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
