"""The tables of the catalog as an environment sees them: those that were built there, and the base's otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.environments.errors import not_built
from rivet_dagster.catalogs.filesystem.catalog import FilesystemTables
from rivet_dagster.catalogs.filesystem.environments.folder import EnvironmentFolder
from rivet_dagster.catalogs.filesystem.environments.seeding import forget, seed
from rivet_dagster.catalogs.filesystem.files.file_status import looking
from rivet_dagster.catalogs.filesystem.files.local_writing import writing
from rivet_dagster.catalogs.filesystem.sources.landing import FilesystemLandingZone
from rivet_dagster.catalogs.filesystem.versions import error_tables
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout, is_table_name
from rivet_dagster.catalogs.filesystem.versions.manifest import Manifest
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import NotWritable, RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.inputs import LandedFile
from rivet_dagster.model.relations import Files
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import STAGED, WITHHELD, Published, Statistics, Version
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction


class EnvironmentTables(FilesystemTables):
    """The tables in the folder of an environment, in front of those of the ``base``.

    What is written is written there. Before its first write a table is seeded with the base's version, so that modes
    that add or merge rows build upon those of the base.
    """

    def __init__(self, base: FilesystemTables, environment: EnvironmentFolder) -> None:
        options = {**base.spec.options, "path": str(environment.path)}
        super().__init__(replace(base.spec, options=options), base.location.root)
        self._base = base
        self.environment = environment
        self.mount_guard = base.mount_guard  # an environment may be dropped, the catalog's folder must not vanish

    def relation(self, table: str, options: Mapping[str, Any]) -> Files:
        """Return the files of the environment's table, or of the base's."""
        return super().relation(table, options) if self._is_built(table) else self._base.relation(table, options)

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return a hash of the files of the environment's table, or of the base's."""
        if self._is_built(table):
            return super().data_version(table, options)
        return self._base.data_version(table, options)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns of the environment's table, or of the base's."""
        return super().columns(table, options) if self._is_built(table) else self._base.columns(table, options)

    def files(self, table: str, options: Mapping[str, Any]) -> tuple[LandedFile, ...]:
        """Return the files of the base: a table that is published is read as a whole."""
        return self._base.files(table, options)

    def landing_zone(self, table: str, options: Mapping[str, Any]) -> FilesystemLandingZone:
        """Return the base's landing zone."""
        return self._base.landing_zone(table, options)

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables of the environment and of the base."""
        with looking(self.environment.path):
            own = [table.name for table in self.environment.tables() if self.environment.is_built(table.name)]
        built = (name for name in own if name.startswith(prefix))
        return tuple(sorted({*self._base.tables(prefix), *built}))

    def current(self, table: str) -> Published | None:
        """Return the version that was built in the environment, else the base's."""
        return super().current(table) if self._is_built(table) else self._base.current(table)

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return a version that a run in the environment published."""
        if not self._is_built(table):
            return None
        found = super().published_by(table, identity)
        with looking(self.environment.path):
            is_base = found is not None and found.version in self.environment.base_versions(table)
        return None if is_base else found

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the environment's versions, that of the base among them; of a table not built there the base's."""
        own = super().versions(table)
        if self._is_built(table):
            return own
        of_base = [version for version in self._base.versions(table) if version.state not in (STAGED, WITHHELD)]
        return (*of_base, *(version for version in own if version.state in (STAGED, WITHHELD)))

    def read(self, published: Published) -> Files:
        """Return the version's own folder."""
        return super().read(published) if self._is_own(published) else self._base.read(published)

    def statistics(self, published: Published) -> Statistics:
        """Return the statistics in the footers of its files."""
        return super().statistics(published) if self._is_own(published) else self._base.statistics(published)

    def errors_of(self, published: Published) -> Files | None:
        """Return the folder of the errors beside that of the rows."""
        return super().errors_of(published) if self._is_own(published) else self._base.errors_of(published)

    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum by the files' footers; if they do not hold it, the column is read in this process."""
        return super().max_of(published, column) if self._is_own(published) else self._base.max_of(published, column)

    def watermark_override(self, published: Published) -> Override | None:
        """Return the content of a file beside the version."""
        if self._is_own(published):
            return super().watermark_override(published)
        return self._base.watermark_override(published)

    def override_watermark(self, published: Published, override: Override) -> None:
        """Write a file beside the version, which must be one of the environment."""
        if not self._is_own(published):
            raise not_built(self.environment.name, published.table)
        super().override_watermark(published, override)

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> FilesystemTransaction:
        """Make an empty folder in the environment, beside the base's version."""
        with looking(self.environment.path):
            self.environment.required()
        with writing(self.layout(table).home):
            seed(self._base.layout(table), self.environment)
        return self._unless_over(super().begin(table, session, options))

    def take_up_staged(
        self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS
    ) -> FilesystemTransaction:
        """Reopen a version that a run in the environment has staged; its heartbeat keeps merges away."""
        transaction = super().take_up_staged(table, version, options)
        with looking(self.environment.path):
            self.environment.required()
        return transaction

    def restage(self, table: str, version: str) -> FilesystemTransaction:
        """Begin a new version in the environment with the files of an older one there."""
        return self._unless_over(super().restage(table, version))

    def evict(self, published: Published) -> None:
        """Remove the environment's table; a version of the base stays."""
        if self._is_own(published):
            super().evict(published)
            with writing(self.environment.path):
                forget(self.environment, published.table)

    def uri(self, table: str) -> str:
        """Return the location of the environment's table, or of the base's."""
        return super().uri(table) if self._is_built(table) else self._base.uri(table)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings of trying the steps of a run in the base."""
        return self._base.examine(publishes)

    def described(self, layout: TableLayout, manifest: Manifest) -> Published:
        """Return a version in the environment, which may be one of the base."""
        published = manifest.published(self.name, layout.name, (self.environment.path / layout.name).as_uri())
        return replace(published, environment=self.environment.name)

    def _is_built(self, table: str) -> bool:
        if not is_table_name(table):
            return False  # a path or a glob of a source
        with looking(self.environment.path):
            for folder in (self.environment.path, self._base.location.folder):
                table = error_tables.table_of(folder, table) or table
            try:
                return self.environment.is_built(table)
            except NotWritable:
                return False

    def _is_own(self, published: Published) -> bool:
        return published.environment == self.environment.name

    def _unless_over(self, transaction: FilesystemTransaction) -> FilesystemTransaction:
        """Return the transaction. Raises RVT-415 if the environment has been merged or dropped before it was begun.

        A merge first says that it begins, then looks for heartbeats: one of both is seen by the other.
        """
        try:
            with looking(self.environment.path):
                self.environment.required()
        except RivetError:
            transaction.abort()
            raise
        return transaction
