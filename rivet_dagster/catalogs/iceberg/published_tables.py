"""The tables of the catalog ``iceberg`` as they are published: all that is only read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.access import TableAccess
from rivet_dagster.catalogs.iceberg.names import staging_of
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.settings.spark_settings import spark_needs
from rivet_dagster.catalogs.iceberg.watermark import max_of, override_of
from rivet_dagster.errors import NotMaterialized
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import Published, Statistics
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from pyiceberg.table import Table


class PublishedTables:
    """Tables of Apache Iceberg, as PyIceberg finds them in the metadata; a version is a snapshot, named by its id."""

    name: str
    access: TableAccess

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return Iceberg's runtime and the settings of the Spark catalog of this name."""
        return (
            spark_needs(self.name, self.access.options, self.access.root)
            if engine_type == "pyspark"
            else SessionNeeds()
        )

    def relation(self, table: str, options: Mapping[str, Any]) -> CatalogTable:
        """Return the snapshot that is current, or that ``options`` name; of an error table that of the current rows."""
        found = self.access.load(table)
        snapshot = self._snapshot(table, found, options)
        return CatalogTable(self.access.table_name(table).parts, snapshot=snapshot)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns of that snapshot."""
        from rivet_dagster.catalogs.iceberg.metadata.types import schema_of, sql_columns

        found = self.access.load(table)
        return tuple(Field(*column) for column in sql_columns(schema_of(found, self._snapshot(table, found, options))))

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the version of that snapshot, which stays when files are rewritten; without one the word ``empty``."""
        from rivet_dagster.catalogs.iceberg.metadata.same_rows import version_of

        found = self.access.load(table)
        snapshot = found.snapshot_by_id(self._snapshot(table, found, options) or 0)
        return "empty" if snapshot is None else str(version_of(found, snapshot))

    def uri(self, table: str) -> str:
        """Return the name of the table in the catalog, whose location only the catalog knows."""
        return f"iceberg:{self.access.table_name(table)}"

    def current(self, table: str) -> Published | None:
        """Return the current snapshot; None for a table without snapshots, and for an error table."""
        from rivet_dagster.catalogs.iceberg.metadata.history import published
        from rivet_dagster.catalogs.iceberg.reading import is_error_table

        found = self.access.open(table).load_if_any()
        snapshot = found.current_snapshot() if found is not None and not is_error_table(found) else None
        if found is None or snapshot is None:
            return None
        with self.access.reaching(table):
            return self._described(published(found, snapshot, self.name, table))

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the snapshot with that identity, or what is remembered of it after it has expired."""
        from rivet_dagster.catalogs.iceberg.metadata import history

        found = self.access.open(table).load_if_any()
        current = self.current(table)
        if found is None or current is None:
            return None
        with self.access.reaching(table):
            snapshot = history.published_by(found, identity)
            if snapshot is not None:
                return self._described(history.published(found, snapshot, self.name, table))
        return history.expired_version(found, identity, current)

    def read(self, published: Published) -> CatalogTable:
        """Return the newest snapshot with the rows of that version, or that of a staged version."""
        table, snapshot = self._stored(published)
        return CatalogTable(table.name.parts, snapshot=snapshot)

    def statistics(self, published: Published) -> Statistics:
        """Return the statistics in the manifests of the snapshot."""
        from rivet_dagster.catalogs.iceberg.metadata.statistics import statistics_of
        from rivet_dagster.catalogs.iceberg.metadata.types import schema_of

        table, snapshot = self._stored(published)
        found = table.load()
        with self.access.reaching(published.table):
            return statistics_of(found, snapshot, schema_of(found, snapshot))

    def errors_of(self, published: Published) -> CatalogTable | None:
        """Return the snapshot of the error table that names that of the rows, or was staged with them."""
        from rivet_dagster.catalogs.iceberg.reading import errors_of_version
        from rivet_dagster.catalogs.iceberg.writes.staged_for_run import errors_relation, staged_version

        try:
            errors = errors_of_version(self.access.open, published)
        except NotMaterialized:
            staged = staged_version(self.access.open(published.table), published.version)
            if staged is None:
                raise
            return errors_relation(self.access.open, staged)
        return None if errors is None else CatalogTable(self.access.table_name(errors[0]).parts, snapshot=errors[1])

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables of the default namespace that have been published, or those of the prefix's namespace."""
        namespace = self.access.table_name(f"{prefix}x").namespace
        given = prefix.rpartition(".")[0]
        with self.access.reaching(prefix):
            if not self.access.catalog.namespace_exists(namespace):
                return ()
            names = sorted(identifier[-1] for identifier in self.access.catalog.list_tables(namespace))
        whole = [f"{given}.{name}" if given else name for name in names if staging_of(name) is None]
        return tuple(name for name in whole if name.startswith(prefix) and self.current(name) is not None)

    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum by the manifests; if they do not hold it, the column is read in this process."""
        statistics = self.statistics(published)
        if statistics.tells_max(column):
            return statistics.values[column.lower()].max
        table, snapshot = self._stored(published)
        with self.access.reaching(published.table):
            return max_of(table.load(), snapshot, column)

    def watermark_override(self, published: Published) -> Override | None:
        """Return the value of a property of the table."""
        return override_of(self.access.load(published.table), published.version)

    def _stored(self, published: Published) -> tuple[OpenedTable, int]:
        """Return the table and the snapshot that hold the rows of a version, published or staged. Raises RVT-401."""
        from rivet_dagster.catalogs.iceberg.writes.staged_for_run import staged_version, stored_in

        opened = self.access.open(published.table)
        try:
            return opened, self._existing(published)
        except NotMaterialized:
            staged = staged_version(opened, published.version)
            if staged is None:
                raise
            return stored_in(staged)

    def _existing(self, published: Published) -> int:
        from rivet_dagster.catalogs.iceberg.reading import snapshot_of_version

        return snapshot_of_version(self.access.open, published)

    def _snapshot(self, table: str, found: Table, options: Mapping[str, Any]) -> int | None:
        from rivet_dagster.catalogs.iceberg.reading import current_snapshot

        return current_snapshot(self.access.open, table, found, options)

    def _described(self, published: Published) -> Published:
        return replace(published, environment=self.access.environment)
