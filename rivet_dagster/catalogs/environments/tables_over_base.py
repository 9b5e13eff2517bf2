"""A catalog as an environment sees it: what was built there is its own, all else the base's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from typing import Any, ClassVar, TypeVar

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.sources import (
    HasLandingZones,
    HasSnapshots,
    LandingZone,
    ListsFiles,
    ListsTables,
    Snapshot,
)
from rivet_dagster.catalogs.capabilities.staging import PublishesTogether, StagedTransaction, StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import (
    NO_OPTIONS,
    HasErrorTables,
    HasTargets,
    HasVersions,
    HasWatermarks,
)
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.catalogs.capabilities.upkeep import HasUpkeep, Sweeps, UpkeepReport
from rivet_dagster.catalogs.environments.state import table_not_built
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import STAGED, WITHHELD, Published, Statistics, Version
from rivet_dagster.model.watermark import Override

T = TypeVar("T", bound=TableTransaction)


class EnvironmentTables(ABC):
    """The tables of one environment in a storage: which were built there, and how a run writes them.

    ``catalog`` finds them alone, and has the capabilities of the base.
    """

    catalog: HasTargets

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the environment."""

    @abstractmethod
    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""

    @abstractmethod
    def built_names(self) -> Iterable[str]:
        """Return the tables that were built there, as joints name them, without error tables."""

    def tables(self, prefix: str) -> Iterable[str]:
        """Return those of them whose names begin with ``prefix``."""
        return (name for name in self.built_names() if name.startswith(prefix))

    @abstractmethod
    def exists(self) -> bool:
        """Return whether there is such an environment."""

    @abstractmethod
    def require_open(self) -> None:
        """Raise RVT-415 unless the environment is open."""

    @abstractmethod
    def prepare(self, table: str) -> None:
        """Have the table be the base's before a run first writes it there. Raises RVT-404, RVT-415."""

    @abstractmethod
    def announce(self, transaction: TableTransaction) -> None:
        """Have a transaction publish in the environment, and merges see that a run writes there."""

    def join(self, transaction: T) -> T:
        """Announce a transaction and return it.

        Raises RVT-415, and aborts it, if the environment has been merged or dropped before that: a merge first says
        that it begins, then looks for heartbeats, so that one of both is seen by the other.
        """
        try:
            try:
                self.announce(transaction)
            finally:
                # If the environment is over, that is why the transaction cannot be announced.
                self.require_open()
        except RivetError:
            transaction.abort()
            raise
        return transaction

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any]) -> StagedTransaction:
        """Reopen a version that a run in the environment has staged, whose heartbeat keeps merges away."""
        transaction = capable(self.catalog, StagesForRuns).take_up_staged(table, version, options)
        self.require_open()
        return transaction

    def withhold_staged(self, table: str, version: str) -> None:
        """Withhold a version that was staged in the environment."""
        capable(self.catalog, StagesForRuns).withhold_staged(table, version)

    def snapshot(self, tables: int) -> Snapshot:
        """Return the tables of the environment, and the others of the base, as they are now. Raises RVT-413."""
        message = f"the environments of the catalog '{self.catalog.name}' cannot be read as they were at one moment"
        raise RivetError("RVT-413", message)

    def building(self) -> tuple[str, ...]:
        """Return what runs in the environment have staged, each as ``table/version``."""
        return self.catalog.building() if isinstance(self.catalog, Sweeps) else ()

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove what dead runs in the environment have staged, and return it."""
        return self.catalog.sweep(failed) if isinstance(self.catalog, Sweeps) else ()

    @abstractmethod
    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the version that a run in the environment published under ``identity``."""

    @abstractmethod
    def evict(self, published: Published) -> None:
        """Remove what the environment has of a table, if readers there still see that version of its own."""


class TablesOverBase(
    HasVersions,
    StagesForRuns,
    PublishesTogether,
    HasErrorTables,
    HasWatermarks,
    HasUpkeep,
    HasLandingZones,
    HasSnapshots,
    ListsFiles,
    ListsTables,
    Sweeps,
):
    """The tables of an environment, in front of those of the ``base``.

    It has the capabilities of the base; the methods of others raise RVT-413.
    """

    options: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Return nothing: it is not declared."""
        return {}

    def __init__(self, base: HasTargets, tables: EnvironmentTables) -> None:
        self.name = base.name
        self.base = base
        self.environment = tables
        # These tell what a class can do, and this class stands in front of catalogs of any other.
        self.type, self.gives, self.write_plans = base.type, base.gives, base.write_plans  # type: ignore[misc]
        self.keeps_versions = base.keeps_versions  # type: ignore[misc]

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return what sessions need to reach the tables of the environment, which they reach those of the base with."""
        return self.environment.catalog.session_needs(engine_type)

    def relation(self, table: str, options: Mapping[str, Any]) -> Relation:
        """Return the data of the environment's table, or of the base's."""
        return self._having(table).relation(table, options)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns of the environment's table, or of the base's."""
        return self._having(table).columns(table, options)

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the version of the environment's table, or of the base's."""
        return self._having(table).data_version(table, options)

    def uri(self, table: str) -> str:
        """Return the URI of the environment's table, or of the base's."""
        return self._having(table).uri(table)

    def current(self, table: str) -> Published | None:
        """Return the version that was built in the environment, else the base's."""
        return self._having(table).current(table)

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        return self.environment.published_by(table, identity) if self.environment.is_built(table) else None

    def read(self, published: Published) -> Relation:
        """Return the relation of a version of the environment, or of the base."""
        return self._publishing(published).read(published)

    def statistics(self, published: Published) -> Statistics:
        """Return the statistics of a version of the environment, or of the base."""
        return self._publishing(published).statistics(published)

    def errors_of(self, published: Published) -> Relation | None:
        """Return the errors of a version of the environment, or of the base."""
        return capable(self._publishing(published), HasErrorTables).errors_of(published)

    def has_errors(self, published: Published) -> bool | None:
        """Return whether a version of the environment, or of the base, has errors."""
        return capable(self._publishing(published), HasErrorTables).has_errors(published)

    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum of a column of a version of the environment, or of the base."""
        return capable(self._publishing(published), HasWatermarks).max_of(published, column)

    def watermark_override(self, published: Published) -> Override | None:
        """Return the watermark that a person set for a version of the environment, or of the base."""
        catalog = self._publishing(published)
        return catalog.watermark_override(published) if isinstance(catalog, HasWatermarks) else None

    def override_watermark(self, published: Published, override: Override) -> None:
        """Set the watermark of a version of the environment. Raises RVT-417 for one of the base."""
        if not self._is_own(published):
            raise table_not_built(self.environment.name, published.table)
        capable(self.environment.catalog, HasWatermarks).override_watermark(published, override)

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the environment's versions, and those of the base that it builds upon; else the base's.

        Versions that runs in the base have staged or withheld are not those of the environment.
        """
        is_built = self.environment.is_built(table)
        inner = self._versions(self.environment.catalog, table) if is_built or self.environment.exists() else ()
        if is_built:
            return inner
        of_base = [version for version in self._versions(self.base, table) if version.state not in (STAGED, WITHHELD)]
        return (*of_base, *(version for version in inner if version.state in (STAGED, WITHHELD)))

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables of the environment and of the base."""
        return tuple(sorted({*capable(self.base, ListsTables).tables(prefix), *self.environment.tables(prefix)}))

    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """Return the files of the base: a table that is published is read as a whole."""
        return capable(self.base, ListsFiles).files(table, options)

    def version_of_files(self, table: str, options: Mapping[str, Any], files: Sequence[LandedFile]) -> str:
        """Return the version of the environment's table, or that of the base's files."""
        if self.environment.is_built(table):
            return self.data_version(table, options)
        return capable(self.base, ListsFiles).version_of_files(table, options, files)

    def find(self, table: str, options: Mapping[str, Any]) -> tuple[Relation, str]:
        """Return the data and the version of the environment's table, or of the base's."""
        catalog = self._having(table)
        return catalog.find(table, options) if isinstance(catalog, ListsFiles) else super().find(table, options)

    def landing_zone(self, table: str, options: Mapping[str, Any]) -> LandingZone:
        """Return the base's landing zone."""
        return capable(self.base, HasLandingZones).landing_zone(table, options)

    def snapshot(self, tables: int) -> Snapshot:
        """Return the tables that readers in the environment see, at one moment."""
        return self.environment.snapshot(tables)

    def begin(self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS) -> Any:
        """Begin upon what was built in the environment, else upon the base's version."""
        self.environment.require_open()
        self.environment.prepare(table)
        return self.environment.join(self.environment.catalog.begin(table, session, options))

    def restage(self, table: str, version: str) -> Any:
        """Begin a new version in the environment with the rows of an older one there."""
        self.environment.require_open()
        self.environment.prepare(table)
        return self.environment.join(capable(self.environment.catalog, HasVersions).restage(table, version))

    def take_up(self, table: str, version: str) -> Any:
        """Reopen a version that was withheld in the environment."""
        self.environment.require_open()
        return self.environment.join(capable(self.environment.catalog, HasVersions).take_up(table, version))

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version that a run in the environment has staged."""
        return capable(self.environment.catalog, StagesForRuns).staged_by(table, identity)

    def keep_alive(self, table: str, version: str, seconds: float = 0.0) -> bool:
        """Renew the heartbeat of a version that was staged in the environment."""
        return capable(self.environment.catalog, StagesForRuns).keep_alive(table, version, seconds)

    def keep_all_alive(self, versions: Set[str], seconds: float = 0.0) -> Set[str] | None:
        """Renew the heartbeats of versions that were staged in the environment."""
        return capable(self.environment.catalog, StagesForRuns).keep_all_alive(versions, seconds)

    def list_once(self) -> AbstractContextManager[None]:
        """List once what publications in the environment would list."""
        return capable(self.environment.catalog, StagesForRuns).list_once()

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS) -> StagedTransaction:
        """Reopen a version that was staged in the environment."""
        return self.environment.take_up_staged(table, version, options)

    def withhold_staged(self, table: str, version: str) -> None:
        """Withhold a version that was staged in the environment."""
        self.environment.withhold_staged(table, version)

    @property
    def publishes_together(self) -> bool:
        """Whether the base does."""
        return isinstance(self.base, PublishesTogether) and self.base.publishes_together

    def publish_together(self, staged: Sequence[tuple[StagedTransaction, str]]) -> tuple[Published, ...]:
        """Publish the tables in the environment by one commit."""
        return capable(self.environment.catalog, PublishesTogether).publish_together(staged)

    def evict(self, published: Published) -> None:
        """Remove what the environment has of the table; a version of the base stays."""
        if self._is_own(published):
            self.environment.evict(published)

    def upkeep(self, table: str, session: EngineSession) -> UpkeepReport | None:
        """Do nothing: what is built in an environment is merged or dropped."""
        return None

    def building(self) -> tuple[str, ...]:
        """Return what runs in the environment have staged."""
        return self.environment.building()

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove what dead runs in the environment have staged."""
        return self.environment.sweep(failed)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about the base."""
        return self.base.examine(publishes)

    def examine_table(self, table: str) -> Iterable[Finding]:
        """Return findings about the table that readers in the environment see."""
        return self._having(table).examine_table(table)

    def _having(self, table: str) -> HasTargets:
        return self.environment.catalog if self.environment.is_built(table) else self.base

    def _publishing(self, published: Published) -> HasTargets:
        return self.environment.catalog if self._is_own(published) else self.base

    def _is_own(self, published: Published) -> bool:
        return published.environment == self.environment.name

    @staticmethod
    def _versions(catalog: HasTargets, table: str) -> tuple[Version, ...]:
        return capable(catalog, HasVersions).versions(table)
