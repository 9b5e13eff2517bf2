"""The tables of the catalog ``iceberg`` as they are published: all that is only read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.names import TableName, staging_of, table_name
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.reaching import reaching
from rivet_dagster.catalogs.iceberg.settings.connection import connected
from rivet_dagster.catalogs.iceberg.settings.spark_settings import spark_needs
from rivet_dagster.catalogs.iceberg.traits import IcebergTraits
from rivet_dagster.catalogs.iceberg.watermark import max_of, override_of
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import NotMaterialized
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import Published, Statistics
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    import pyiceberg.catalog
    from pyiceberg.table import Table


class PublishedTables(IcebergTraits):
    """Tables of Apache Iceberg, as PyIceberg finds them in the metadata; a version is a snapshot, named by its id."""

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        refuse_wrong_options(PublishedTables, f"catalog '{spec.name}'", spec.options)
        self.name = spec.name
        self._options = spec.options
        self._root = root

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return Iceberg's runtime and the settings of the Spark catalog of this name."""
        return spark_needs(self.name, self._options, self._root) if engine_type == "pyspark" else SessionNeeds()

    def relation(self, table: str, options: Mapping[str, Any]) -> CatalogTable:
        """Return the snapshot that is current, or that ``options`` name; of an error table that of the current rows."""
        found = self._required(table)
        snapshot = self._snapshot(table, found, options)
        return CatalogTable(self._name(table).parts, snapshot=snapshot)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns of that snapshot."""
        from rivet_dagster.catalogs.iceberg.metadata.types import schema_of, sql_columns

        found = self._required(table)
        return tuple(Field(*column) for column in sql_columns(schema_of(found, self._snapshot(table, found, options))))

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the version of that snapshot, which stays when files are rewritten; without one the word ``empty``."""
        from rivet_dagster.catalogs.iceberg.metadata.same_rows import version_of

        found = self._required(table)
        snapshot = found.snapshot_by_id(self._snapshot(table, found, options) or 0)
        return "empty" if snapshot is None else str(version_of(found, snapshot))

    def uri(self, table: str) -> str:
        """Return the name of the table in the catalog, whose location only the catalog knows."""
        return f"iceberg:{self._name(table)}"

    def current(self, table: str) -> Published | None:
        """Return the current snapshot; None for a table without snapshots, and for an error table."""
        from rivet_dagster.catalogs.iceberg.metadata.history import published
        from rivet_dagster.catalogs.iceberg.reading import is_error_table

        found = self._opened(table).load_if_any()
        snapshot = found.current_snapshot() if found is not None and not is_error_table(found) else None
        if found is None or snapshot is None:
            return None
        with self._reaching(table):
            return published(found, snapshot, self.name, table)

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the snapshot with that identity, or what is remembered of it after it has expired."""
        from rivet_dagster.catalogs.iceberg.metadata import history

        found = self._opened(table).load_if_any()
        current = self.current(table)
        if found is None or current is None:
            return None
        with self._reaching(table):
            snapshot = history.published_by(found, identity)
            if snapshot is not None:
                return history.published(found, snapshot, self.name, table)
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
        with self._reaching(published.table):
            return statistics_of(found, snapshot, schema_of(found, snapshot))

    def errors_of(self, published: Published) -> CatalogTable | None:
        """Return the snapshot of the error table that names that of the rows, or was staged with them."""
        from rivet_dagster.catalogs.iceberg.reading import errors_of_version
        from rivet_dagster.catalogs.iceberg.writes.staged_for_run import errors_relation, staged_version

        try:
            errors = errors_of_version(self._opened, published)
        except NotMaterialized:
            staged = staged_version(self._opened(published.table), published.version)
            if staged is None:
                raise
            return errors_relation(self._opened, staged)
        return None if errors is None else CatalogTable(self._name(errors[0]).parts, snapshot=errors[1])

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables of the default namespace that have been published, or those of the prefix's namespace."""
        namespace = self._name(f"{prefix}x").namespace
        given = prefix.rpartition(".")[0]
        with self._reaching(prefix):
            if not self._catalog.namespace_exists(namespace):
                return ()
            names = sorted(identifier[-1] for identifier in self._catalog.list_tables(namespace))
        whole = [f"{given}.{name}" if given else name for name in names if staging_of(name) is None]
        return tuple(name for name in whole if name.startswith(prefix) and self.current(name) is not None)

    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum by the manifests; if they do not hold it, the column is read in this process."""
        statistics = self.statistics(published)
        if statistics.tells_max(column):
            return statistics.values[column.lower()].max
        table, snapshot = self._stored(published)
        with self._reaching(published.table):
            return max_of(table.load(), snapshot, column)

    def watermark_override(self, published: Published) -> Override | None:
        """Return the value of a property of the table."""
        return override_of(self._required(published.table), published.version)

    @cached_property
    def _catalog(self) -> pyiceberg.catalog.Catalog:
        return connected(self.name, self._options, self._root)

    def _name(self, table: str) -> TableName:
        namespace = self._options.get("default-namespace")
        return table_name(self.name, table, None if namespace is None else str(namespace))

    def _opened(self, table: str) -> OpenedTable:
        return OpenedTable(self._catalog, self._name(table))

    def _required(self, table: str) -> Table:
        return self._opened(table).load()

    def _reaching(self, table: str, code: str = "RVT-403") -> Any:
        return reaching(self.name, f"the table {table}" if table else "", code)

    def _stored(self, published: Published) -> tuple[OpenedTable, int]:
        """Return the table and the snapshot that hold the rows of a version, published or staged. Raises RVT-401."""
        from rivet_dagster.catalogs.iceberg.writes.staged_for_run import staged_version, stored_in

        opened = self._opened(published.table)
        try:
            return opened, self._existing(published)
        except NotMaterialized:
            staged = staged_version(opened, published.version)
            if staged is None:
                raise
            return stored_in(staged)

    def _existing(self, published: Published) -> int:
        from rivet_dagster.catalogs.iceberg.reading import snapshot_of_version

        return snapshot_of_version(self._opened, published)

    def _snapshot(self, table: str, found: Table, options: Mapping[str, Any]) -> int | None:
        from rivet_dagster.catalogs.iceberg.reading import current_snapshot

        return current_snapshot(self._opened, table, found, options)
