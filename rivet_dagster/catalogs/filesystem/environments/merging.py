"""Merging: publishing the tables that were built in an environment to the base, after which it is over.

The state of the environment is the journal: it is ``merging`` before the first table is published, ``published`` after
the last one, and ``merged`` when its data have been removed. What an interrupted merge had published is found by the
identity under which it was, in the base itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.capabilities.environment_errors import written_by_a_run
from rivet_dagster.catalogs.capabilities.environments import BuiltTable
from rivet_dagster.catalogs.filesystem.environments.folder import MERGED, MERGING, OPEN, PUBLISHED, EnvironmentFolder
from rivet_dagster.catalogs.filesystem.environments.seeding import keep_permissions
from rivet_dagster.catalogs.filesystem.files.data_files import stamp_of
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.versions import heartbeat, lifecycle
from rivet_dagster.catalogs.filesystem.versions.layout import TableLayout
from rivet_dagster.catalogs.filesystem.versions.manifest import Manifest, Origin, read_manifest
from rivet_dagster.catalogs.filesystem.versions.sweep import building
from rivet_dagster.catalogs.filesystem.versions.watermark import read_override
from rivet_dagster.catalogs.heartbeat_thread import beating
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import Published

if TYPE_CHECKING:
    from rivet_dagster.catalogs.filesystem.catalog import FilesystemTables
    from rivet_dagster.catalogs.filesystem.environments.tables import EnvironmentTables


@dataclass(frozen=True)
class Merge:
    """The merge of an ``environment``, which sees ``tables``, into the ``base``."""

    base: FilesystemTables
    tables: EnvironmentTables
    environment: EnvironmentFolder

    def built(self) -> tuple[BuiltTable, ...]:
        """Return the tables that were built in the environment. Raises OSError."""
        names = [table.name for table in self.environment.tables() if self.environment.is_built(table.name)]
        found = ((name, self.tables.current(name)) for name in names)
        return tuple(self._described(name, current) for name, current in found if current is not None)

    def finish(self) -> tuple[Published, ...]:
        """Merge, from wherever an earlier merge was interrupted. Raises what ``HasEnvironments.merge`` does."""
        environment = self.environment
        environment.required(OPEN, MERGING, PUBLISHED)
        with environment.locked():
            state = environment.required(OPEN, MERGING, PUBLISHED)
            published: tuple[Published, ...] = ()
            environment.use()
            if state.state != PUBLISHED:
                environment.set(MERGING)
                try:
                    published = tuple(self._publish(table) for table in self._mergeable())
                except RivetError as error:
                    if error.code in ("RVT-405", "RVT-417"):  # there is something to do in the environment first
                        environment.set(OPEN)
                    raise
                environment.set(PUBLISHED)
            environment.remove_data()
            environment.set(MERGED)
        return published

    def _mergeable(self) -> list[BuiltTable]:
        """Return the tables to publish, those that were published first in front. Raises RVT-405, RVT-417."""
        if is_alive(self.environment):
            raise written_by_a_run(self.environment.name)
        tables = self.built()
        moved = [table for table in tables if table.moved]
        if moved:
            raise RivetError.of(diagnostic for table in moved for diagnostic in self._conflict(table).diagnostics)
        return sorted(tables, key=lambda table: self._manifest(table).published_at)

    def _conflict(self, table: BuiltTable) -> RivetError:
        then = table.base.version if table.base is not None else "nothing"
        now = self.base.layout(table.table).published() or "nothing"
        return RivetError(
            "RVT-405",
            f"the base of '{table.table}' was at {then} when it was first written in the environment "
            f"'{self.environment.name}', and is at {now} now",
            remediation="Build it upon the base as it is now: drop the environment, and run it again under its name.",
        )

    def _publish(self, table: BuiltTable) -> Published:
        """Publish a table to the base, unless an interrupted merge has."""
        identity, layout = self._identity(table), self.base.layout(table.table)
        done = self.base.published_by(table.table, identity)
        if done is None:
            done = self._publish_now(table, identity)
        override = read_override(self.tables.layout(table.table), table.current.version)
        if override is not None and layout.published() == done.version:
            self.base.override_watermark(done, override)
        return done

    def _publish_now(self, table: BuiltTable, identity: str) -> Published:
        layout, own = self.base.layout(table.table), self.tables.layout(table.table)
        manifest, version = self._manifest(table), table.current.version
        origin = Origin(manifest.inputs, manifest.identity, manifest.code_versions, manifest.record)
        transaction = self.base.begin_copy(layout, origin, beside=own.files(version))
        with transaction:
            if self._described(table.table, table.current).moved:  # since all tables were looked at
                raise self._conflict(table)
            with beating(transaction.beat, layout.name):
                lifecycle.copy(own, version, transaction.version, layout)
                keep_permissions(own, version, layout, transaction.version)
            return transaction.commit(identity)

    def _manifest(self, table: BuiltTable) -> Manifest:
        layout = self.tables.layout(table.table)
        manifest = lifecycle.manifest_of(layout, table.current.version)
        assert manifest is not None  # its data has just been found
        return manifest

    def _described(self, name: str, current: Published) -> BuiltTable:
        layout, own = self.base.layout(name), self.tables.layout(name)
        bases = self.environment.base_versions(name)
        manifest = read_manifest(own.manifest(bases[0])) if bases else None
        base = self.tables.described(own, manifest) if manifest is not None else None
        now = lifecycle.current(layout)
        moved = (now.version if now is not None else None) != (bases[0] if bases else None)
        if moved and now is not None and now.identity.startswith(self._identities):
            moved = False  # an interrupted merge has published it
        same = bool(bases) and _stamps(own, bases[0]) == _stamps(own, current.version)
        return BuiltTable(name, base, current, moved, same)

    def _identity(self, table: BuiltTable) -> str:
        return f"{self._identities}{table.table}/{table.current.version}"

    @property
    def _identities(self) -> str:
        """The beginning of the identities under which the tables are published."""
        return f"environment {self.environment.name} {self.environment.required(OPEN, MERGING, PUBLISHED).token}/"


def is_alive(environment: EnvironmentFolder) -> bool:
    """Return whether a run that is alive, or has just died, builds a version in the environment. Raises OSError."""
    alive = ((table, version) for table in environment.tables() for version in building(table))
    return any(heartbeat.is_alive(table, version, heartbeat.now(table)) for table, version in alive)


def _stamps(layout: TableLayout, version: str) -> set[tuple[str, int, int]]:
    return {stamp_of(path) for path in parquet_files(layout.data(version))}
