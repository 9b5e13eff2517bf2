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
    """The kinds of write plan that it can carry out."""

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> TableTransaction:
        """Begin a new version of ``table``; ``options`` are those of its storage.

        ``session`` computes the rows to be written and runs the catalog's own queries; it must stay open until the
        transaction ends. A caller that has the rows in this process needs no session. Raises RVT-402, RVT-404.
        """

    @abstractmethod
    def current(self, table: str) -> Published | None:
        """Return the published version that readers see; None if there is none."""

    @abstractmethod
    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the version that ``identity`` published, even if later ones followed; None if none is known.

        It stays known for longer than anybody retries a run. The version itself may have expired by then, in which case
        ``read`` raises, and the columns are those of a later version.
        """

    @abstractmethod
    def read(self, published: Published) -> Relation:
        """Return the relation of exactly that version. Raises RVT-401 if it has expired."""

    def statistics(self, published: Published) -> Statistics:
        """Return the statistics that storage has of that version without reading its rows. Raises RVT-401."""
        return published.statistics

    @abstractmethod
    def evict(self, published: Published) -> None:
        """Remove the table, or all of its rows, which are no longer needed, if readers still see that version."""
