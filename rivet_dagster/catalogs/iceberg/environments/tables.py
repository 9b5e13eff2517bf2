"""The tables of the catalog as an environment sees them: those that were built there, and the base's otherwise."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.capabilities.upkeep import UpkeepReport
from rivet_dagster.catalogs.iceberg.catalog import IcebergTables
from rivet_dagster.catalogs.iceberg.environments.branch import EnvironmentBranch, Seed, seed_key
from rivet_dagster.catalogs.iceberg.environments.seeding import give_back, locate, seed
from rivet_dagster.catalogs.iceberg.names import TableName
from rivet_dagster.catalogs.iceberg.on_nessie import NessieTables
from rivet_dagster.catalogs.iceberg.reaching import reaching
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import STAGED, WITHHELD, Published, Statistics, Version
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction


class EnvironmentTables(NessieTables):
    """The tables on the branch of an environment, in front of those of the ``base``.

    Spark names them ``table@branch``, so that one session reaches those of the base, too. Before its first write a
    table is given the base's current state.
    """

    def __init__(self, base: IcebergTables, environment: EnvironmentBranch) -> None:
        options = {**base._options, "ref": environment.ref}
        super().__init__(CatalogSpec(base.name, base.type, options), base._root)
        self._base = base
        self.environment = environment

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

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        found = super().published_by(table, identity) if self.is_built(table) else None
        if found is None or self._base_has(table, found.version):
            return None
        return self._own(found)

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
            message = f"'{published.table}' has not been built in the environment '{self.environment.name}'"
            raise RivetError("RVT-417", message, remediation="Run it there first; or set the watermark of the base.")
        super().override_watermark(published, override)

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the environment's versions and those of the base that it builds upon, else the base's."""
        if self.is_built(table):
            return super().versions(table)
        own = super().versions(table) if self.environment.state() is not None else ()
        of_base = [version for version in self._base.versions(table) if version.state not in (STAGED, WITHHELD)]
        return (*of_base, *(version for version in own if version.state in (STAGED, WITHHELD)))

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables of the environment and of the base."""
        given = prefix.rpartition(".")[0]
        namespace = self._name(f"{prefix}x").namespace
        found = [self._name(name) for name in self.built_names()]
        own = [f"{given}.{name.name}" if given else name.name for name in found if name.namespace == namespace]
        return tuple(sorted({*self._base.tables(prefix), *(name for name in own if name.startswith(prefix))}))

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> IcebergTransaction:
        """Give the environment the base's table unless it was built there, and begin upon that."""
        with self._reaching(table, "RVT-404"):
            self.environment.required()
            self._seed(table)
        return self._alive(super().begin(table, session, options))

    def restage(self, table: str, version: str) -> IcebergTransaction:
        """Begin a new version in the environment with the rows of an older snapshot there."""
        if not self.is_built(table):
            with self._reaching(table, "RVT-404"):
                self.environment.required()
                self._seed(table)
        return self._alive(super().restage(table, version))

    def take_up(self, table: str, version: str) -> IcebergTransaction:
        """Reopen a version that was withheld in the environment."""
        self.environment.required()
        return self._alive(super().take_up(table, version))

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment has staged."""
        found = super().staged_by(table, identity)
        return None if found is None else self._own(found)

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS) -> IcebergTransaction:
        """Reopen a version that a run in the environment has staged; its heartbeat keeps merges away."""
        transaction = super().take_up_staged(table, version, options)
        self.environment.required()
        return self._owned(transaction)

    def evict(self, published: Published) -> None:
        """Give the environment the base's table again; a version of the base stays."""
        current = self.current(published.table)
        if self._is_own(published) and current is not None and current.version == published.version:
            with self._reaching(published.table, "RVT-404"):
                give_back(self.environment, self._name(published.table).identifier)

    def upkeep(self, table: str, session: EngineSession) -> UpkeepReport | None:
        """Do nothing: what is built in an environment is merged or dropped."""
        return None

    def uri(self, table: str) -> str:
        """Return the name of the environment's table, or of the base's."""
        return super().uri(table) if self.is_built(table) else self._base.uri(table)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about the base."""
        return self._base.examine(publishes)

    def is_built(self, table: str) -> bool:
        """Return whether a run in the environment has published the table, or the one whose errors it holds."""
        from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS_OF

        key, environment = self._name(table).identifier, self.environment
        with self._reaching(table):
            contents = environment.contents([key, seed_key(key)])
            mark, content = contents.get(seed_key(key)), contents.get(key)
            if content is None:
                return False
            if mark is not None and str(content.get("snapshotId")) != mark["properties"]["snapshot"]:
                return True
            found = self._opened(table).load_if_any()
            of = found.metadata.properties.get(ERRORS_OF) if found is not None else None
        return of is not None and self.is_built(of)

    def built_names(self) -> tuple[str, ...]:
        """Return the tables that were built there, as joints name them, without error tables."""
        with reaching(self.name):
            seeds = self.environment.seeds()
        return tuple(seed.declared for seed in seeds if seed.declared and self.is_built(seed.declared))

    def seed_of(self, table: str) -> Seed:
        """Return the seed of a table that was built there."""
        found = self.environment.seed(self._name(table).identifier)
        assert found is not None, "each table that was built there has one"
        return found

    def base_of(self, table: str) -> Published | None:
        """Return the version of the base that a table of the environment builds upon."""
        from rivet_dagster.catalogs.iceberg.metadata.history import published

        found = self._required(table)
        snapshot = found.snapshot_by_id(int(self.seed_of(table).snapshot or 0))
        if snapshot is None:
            return None
        with self._reaching(table):
            return self._own(published(found, snapshot, self.name, table))

    def _base_has(self, table: str, version: str) -> bool:
        """Return whether a version had been published in the base when the environment's table was made of it."""
        found, base = self._required(table), self.base_of(table)
        old = found.snapshot_by_id(int(base.version)) if base is not None else None
        snapshot = found.snapshot_by_id(int(version))
        if old is None or snapshot is None:
            return old is not None
        return (snapshot.sequence_number or 0) <= (old.sequence_number or 0)

    def _seed(self, table: str) -> None:
        """Have the environment's table, and its error table, be the base's, unless they were built there."""
        if self.is_built(table):
            return
        from rivet_dagster.catalogs.iceberg.metadata.same_rows import current_version, facts_of
        from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS

        found = self._base._opened(table).load_if_any()
        version = current_version(found) if found is not None else None
        names = (
            {facts_of(snapshot).get(ERRORS) for snapshot in found.metadata.snapshots} if found is not None else set()
        )
        for name in sorted(filter(None, names)):
            seed(self.environment, self._name(name).identifier, "", "", "")
        location = found.metadata.location if found is not None else ""
        seed(self.environment, self._name(table).identifier, table, str(version or ""), location)

    def _alive(self, transaction: IcebergTransaction) -> IcebergTransaction:
        """Return a transaction whose heartbeat tells that a run writes in the environment, from its beginning.

        Raises RVT-415 if the environment has been merged or dropped before that: a merge first says that it begins,
        then looks for heartbeats, so that one of both is seen by the other.
        """
        begin = self._owned(transaction).beginning
        with self._reaching(transaction.table, "RVT-404"):
            locate(self.environment, begin.table.name.identifier, begin.place.location)
        transaction._alive(f"{heartbeat_name(self.environment)}{secrets.token_hex(4)}")
        try:
            self.environment.required()
        except RivetError:
            transaction.abort()
            raise
        return transaction

    def _owned(self, transaction: IcebergTransaction) -> IcebergTransaction:
        """Return a transaction whose versions are those of the environment."""
        transaction.beginning = replace(transaction.beginning, environment=self.environment.name)
        return transaction

    def _name(self, table: str) -> TableName:
        return replace(super()._name(table), ref=self.environment.ref)

    def _own(self, published: Published) -> Published:
        return replace(published, environment=self.environment.name)

    def _is_own(self, published: Published) -> bool:
        return published.environment == self.environment.name


def heartbeat_name(environment: EnvironmentBranch) -> str:
    """Return what the identity of an attempt in an environment begins with: heartbeats of the base lie beside it."""
    return f"env-{environment.name}-"
