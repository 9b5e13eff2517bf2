"""Versions that a person decides about: withheld ones, and older ones that can be published again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS, HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.storage import Provenance, Version


class VersionTransaction(TableTransaction):
    """A transaction whose version may also be withheld, for a person to publish or remove."""

    def withhold(self, identity: str = "", made: Provenance | None = None) -> None:
        """Withhold the version: it stays, complete but not published, and no sweep removes it.

        When it is published later, ``published_by`` finds it both under the identity that publishes it and under
        ``identity``, the run that made it. Raises RVT-404, RVT-406.
        """
        self._withhold(identity, made)
        self._ended = True

    @abstractmethod
    def _withhold(self, identity: str, made: Provenance | None) -> None:
        """Do what ``withhold`` promises."""


class HasVersions(HasTargets):
    """lists the versions of a table and publishes any of them."""

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> VersionTransaction:
        """Begin a new version of ``table``, which can also be withheld."""

    @abstractmethod
    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the published versions that still exist, the newest first, then the withheld ones."""

    @abstractmethod
    def take_up(self, table: str, version: str) -> VersionTransaction:
        """Reopen a withheld version, to be published after the current one or removed. Raises RVT-408."""

    @abstractmethod
    def restage(self, table: str, version: str) -> VersionTransaction:
        """Begin a new version with the rows of an older published one. Raises RVT-402, RVT-404, RVT-408."""
