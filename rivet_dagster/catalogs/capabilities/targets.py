"""Tables that are written to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.contract import Catalog
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Published, Statistics
from rivet_dagster.model.write_plan import WritePlan

PlanType = type[WritePlan]

NO_OPTIONS: Mapping[str, Any] = {}


class HasTargets(Catalog):
    """publishes tables, each version all or nothing."""

    write_plans: ClassVar[frozenset[PlanType]]
    """The kinds of write plan that it carries out."""

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> TableTransaction:
        """Begin a new version of ``table``; ``options`` are those of its storage.

        ``session`` computes what is written, and the catalog's own queries; it stays open until the transaction has
        ended. Whoever has the rows in this process needs none. Raises RVT-402, RVT-404.
        """

    @abstractmethod
    def current(self, table: str) -> Published | None:
        """Return the published version that readers see."""

    @abstractmethod
    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the version that ``identity`` published, whatever came after it; None where none is known.

        It is known for longer than anybody retries a run, so ``read`` may find that the version has been expired; then
        its columns are those of a later one.
        """

    @abstractmethod
    def read(self, published: Published) -> Relation:
        """Return how an engine reads exactly that version. Raises RVT-401 where it has been expired."""

    def statistics(self, published: Published) -> Statistics:
        """Return what storage tells of that version without reading its rows. Raises RVT-401."""
        return published.statistics

    @abstractmethod
    def evict(self, published: Published) -> None:
        """Remove the table if that version is still what readers see: its rows are not needed any more."""
