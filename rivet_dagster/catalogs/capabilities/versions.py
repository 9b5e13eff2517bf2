"""Versions that a person decides on: those that are withheld, and older ones that can come back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS, HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.inputs import Inputs
from rivet_dagster.model.storage import Version


class VersionTransaction(TableTransaction):
    """A version on its way to readers that may also be left to a person."""

    def withhold(self, identity: str = "", inputs: Inputs | None = None) -> None:
        """Leave it, complete but not published, to a person: no sweep removes it.

        Who publishes it then does so for ``identity``, the run that made it, too: ``published_by`` knows both.
        Raises RVT-404, RVT-406.
        """
        self._withhold(identity, inputs)
        self._ended = True

    @abstractmethod
    def _withhold(self, identity: str, inputs: Inputs | None) -> None: ...


class HasVersions(HasTargets):
    """lists the versions of a table and publishes any of them."""

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> VersionTransaction:
        """Begin a new version of ``table``, which can be withheld."""

    @abstractmethod
    def versions(self, table: str) -> tuple[Version, ...]:
        """Return all that somebody could want: the published ones, the newest first, then the withheld ones."""

    @abstractmethod
    def take_up(self, table: str, version: str) -> VersionTransaction:
        """Return a withheld version, to be published upon what is published now, or removed. Raises RVT-408."""

    @abstractmethod
    def restage(self, table: str, version: str) -> VersionTransaction:
        """Begin a version with the rows of an older published one. Raises RVT-402, RVT-404, RVT-408."""
