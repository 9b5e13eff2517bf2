"""Tables of an environment in front of those of its base: what was built there is its own, all else the base's."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.capabilities.upkeep import UpkeepReport
from rivet_dagster.catalogs.environments.errors import not_built
from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import STAGED, WITHHELD, Published, Statistics, Version
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction

_OF_RUNS = (WITHHELD, STAGED)


class TablesInFront(IcebergTables):
    """The tables of the environment ``environment_name``, in front of those of the ``base``.

    What a class of these must say is which tables were built there, and how a transaction there begins.
    """

    _base: IcebergTables

    @property
    @abstractmethod
    def environment_name(self) -> str:
        """The name of the environment."""

    @abstractmethod
    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""

    @abstractmethod
    def built_names(self) -> tuple[str, ...]:
        """Return the tables that were built there, as joints name them, without error tables."""

    @abstractmethod
    def _require(self) -> None:
        """Raise RVT-415 unless the environment is open."""

    @abstractmethod
    def _exists(self) -> bool:
        """Return whether there is such an environment."""

    @abstractmethod
    def _prepare(self, table: str) -> None:
        """Do what must be done before a run first writes a table there."""

    @abstractmethod
    def _alive(self, transaction: IcebergTransaction) -> IcebergTransaction:
        """Return a transaction that publishes in the environment, and whose heartbeat tells that a run writes there.

        Raises RVT-415 if the environment has been merged or dropped before that: a merge first says that it begins,
        then looks for heartbeats, so that one of both is seen by the other.
        """

    def relation(self, table: str, options: Mapping[str, Any]) -> CatalogTable:
        """Return the snapshot of the environment's table, or of the base's."""
        return super().relation(table, options) if self.is_built(table) else self._base.relation(table, options)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns of the environment's table, or of the base's."""
        return super().columns(table, options) if self.is_built(table) else self._base.columns(table, options)

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the version of the environment's table, or of the base's."""
        if self.is_built(table):
            return super().data_version(table, options)
        return self._base.data_version(table, options)

    def current(self, table: str) -> Published | None:
        """Return the version that was built in the environment, else the base's."""
        if not self.is_built(table):
            return self._base.current(table)
        found = super().current(table)
        return None if found is None else self._own(found)

    def read(self, published: Published) -> CatalogTable:
        """Return the snapshot of a version of the environment, or of the base."""
        return super().read(published) if self._is_own(published) else self._base.read(published)

    def statistics(self, published: Published) -> Statistics:
        """Return the statistics in the manifests of the snapshot."""
        return super().statistics(published) if self._is_own(published) else self._base.statistics(published)

    def errors_of(self, published: Published) -> CatalogTable | None:
        """Return the snapshot of the error table that names that of the rows."""
        return super().errors_of(published) if self._is_own(published) else self._base.errors_of(published)

    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum by the manifests; if they do not hold it, the column is read in this process."""
        return super().max_of(published, column) if self._is_own(published) else self._base.max_of(published, column)

    def watermark_override(self, published: Published) -> Override | None:
        """Return the value of a property of the table."""
        if self._is_own(published):
            return super().watermark_override(published)
        return self._base.watermark_override(published)

    def override_watermark(self, published: Published, override: Override) -> None:
        """Set a property of the environment's table, which must have been built there."""
        if not self._is_own(published):
            raise not_built(self.environment_name, published.table)
        super().override_watermark(published, override)

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the environment's versions and those of the base that it builds upon, else the base's."""
        if self.is_built(table):
            return super().versions(table)
        own = super().versions(table) if self._exists() else ()
        of_base = [version for version in self._base.versions(table) if version.state not in _OF_RUNS]
        return (*of_base, *(version for version in own if version.state in _OF_RUNS))

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables of the environment and of the base."""
        given = prefix.rpartition(".")[0]
        namespace = self._base._name(f"{prefix}x").namespace
        found = [self._base._name(name) for name in self.built_names()]
        own = [f"{given}.{name.name}" if given else name.name for name in found if name.namespace == namespace]
        return tuple(sorted({*self._base.tables(prefix), *(name for name in own if name.startswith(prefix))}))

    def upkeep(self, table: str, session: EngineSession) -> UpkeepReport | None:
        """Do nothing: what is built in an environment is merged or dropped."""
        return None

    def uri(self, table: str) -> str:
        """Return the name of the environment's table, or of the base's."""
        return super().uri(table) if self.is_built(table) else self._base.uri(table)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about the base."""
        return self._base.examine(publishes)

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> IcebergTransaction:
        """Begin upon what was built in the environment, else upon the base's version."""
        with self._reaching(table, "RVT-404"):
            self._require()
            self._prepare(table)
        return self._alive(super().begin(table, session, options))

    def restage(self, table: str, version: str) -> IcebergTransaction:
        """Begin a new version in the environment with the rows of an older snapshot there."""
        with self._reaching(table, "RVT-404"):
            self._require()
            self._prepare(table)
        return self._alive(super().restage(table, version))

    def take_up(self, table: str, version: str) -> IcebergTransaction:
        """Reopen a version that was withheld in the environment."""
        with self._reaching(table, "RVT-404"):
            self._require()
        return self._alive(super().take_up(table, version))

    def _own(self, published: Published) -> Published:
        return replace(published, environment=self.environment_name)

    def _is_own(self, published: Published) -> bool:
        return published.environment == self.environment_name
