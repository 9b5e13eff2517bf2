"""The published tables of the catalog ``iceberg``: all that is only read of them, by which snapshot, and watermarks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.access import TableAccess
from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, branch_is_at, set_properties
from rivet_dagster.catalogs.iceberg.metadata.last_publication import last_publication
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import current_version, snapshot_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS, ERRORS_OF, OVERRIDE
from rivet_dagster.catalogs.iceberg.names import staging_of
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, Opener, tables_in
from rivet_dagster.catalogs.iceberg.settings.connection import spark_needs
from rivet_dagster.catalogs.iceberg.traits import snapshot_read
from rivet_dagster.catalogs.iceberg.writes.errors import errors_of_rows
from rivet_dagster.catalogs.parquet_rows import greatest
from rivet_dagster.catalogs.versions.refusals import moved_watermark
from rivet_dagster.errors import NotMaterialized, RivetError
from rivet_dagster.model.relations import CatalogTable, Relation
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import Published, Statistics, forgotten
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from pyiceberg.table import Table


class PublishedIcebergTables:
    """Tables of Apache Iceberg, as PyIceberg finds them in the metadata; a version is a snapshot, named by its id."""

    name: str
    access: TableAccess

    def session_needs(self, engine_type: str) -> SessionNeeds:
        """Return Iceberg's runtime and settings of the Spark catalog of this name; for other engines a reader."""
        if engine_type == "pyspark":
            return spark_needs(self.name, self.access.options, self.access.root)

        def read(relation: CatalogTable) -> Relation:
            from rivet_dagster.catalogs.iceberg.rows_without_spark import rows_without_spark

            return rows_without_spark(self.access, relation)

        return SessionNeeds(readers={self.name: read})

    def relation(self, table: str, options: Mapping[str, Any]) -> CatalogTable:
        """Return the snapshot that is current, or that ``options`` name; of an error table that of the current rows."""
        iceberg_table = self.access.load(table)
        snapshot = self._snapshot(table, iceberg_table, options)
        return CatalogTable(self.access.table_name(table).parts, snapshot=snapshot)

    def columns(self, table: str, options: Mapping[str, Any]) -> Schema | None:
        """Return the columns of that snapshot."""
        from rivet_dagster.catalogs.iceberg.metadata.types import schema_of, sql_columns

        iceberg_table = self.access.load(table)
        return tuple(
            Field(*column)
            for column in sql_columns(schema_of(iceberg_table, self._snapshot(table, iceberg_table, options)))
        )

    def data_version(self, table: str, options: Mapping[str, Any]) -> str:
        """Return the version of that snapshot, which stays when files are rewritten; without one the word ``empty``."""
        from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import version_of

        iceberg_table = self.access.load(table)
        snapshot = iceberg_table.snapshot_by_id(self._snapshot(table, iceberg_table, options) or 0)
        return "empty" if snapshot is None else str(version_of(iceberg_table, snapshot))

    def uri(self, table: str) -> str:
        """Return the name of the table in the catalog, whose location only the catalog knows."""
        return f"iceberg:{self.access.table_name(table)}"

    def current(self, table: str) -> Published | None:
        """Return the current snapshot; None for a table without snapshots, and for an error table."""
        return self._current(table, self.access.open(table).load_if_any())

    def published_by(self, table: str, identity: str) -> Published | None:
        """Return the snapshot with that identity, or what is remembered of it after it has expired."""
        from rivet_dagster.catalogs.iceberg.metadata import history

        iceberg_table = self.access.open(table).load_if_any()
        current = self._current(table, iceberg_table)
        if iceberg_table is None or current is None:
            return None
        with self.access.reaching(table):
            snapshot = history.published_by(iceberg_table, identity)
            if snapshot is not None:
                return self._described(history.published_version(iceberg_table, snapshot, self.name, table))
        return history.expired_version(iceberg_table, identity, current)

    def read(self, published: Published) -> CatalogTable:
        """Return the newest snapshot with the rows of that version, or that of a staged version."""
        table, snapshot = self._stored(published)
        return CatalogTable(table.name.parts, snapshot=snapshot)

    def statistics(self, published: Published) -> Statistics:
        """Return the statistics in the manifests of the snapshot."""
        from rivet_dagster.catalogs.iceberg.metadata.statistics import statistics_of
        from rivet_dagster.catalogs.iceberg.metadata.types import schema_of

        table, snapshot = self._stored(published)
        iceberg_table = table.load()
        with self.access.reaching(published.table):
            return statistics_of(iceberg_table, snapshot, schema_of(iceberg_table, snapshot))

    def errors_of(self, published: Published) -> CatalogTable | None:
        """Return the snapshot of the error table that names that of the rows, or was staged with them."""
        from rivet_dagster.catalogs.iceberg.writes.withheld import errors_relation, staged_version

        try:
            errors = errors_of_version(self.access.open, published)
        except NotMaterialized:
            staged = staged_version(self.access.open(published.table), published.version)
            if staged is None:
                raise
            return errors_relation(self.access.open, staged)
        return None if errors is None else CatalogTable(self.access.table_name(errors[0]).parts, snapshot=errors[1])

    def has_errors(self, published: Published) -> bool | None:
        """Return whether the summary of the snapshot of the errors tells of rows."""
        try:
            errors = errors_of_version(self.access.open, published)
        except NotMaterialized:  # it may be a staged one
            return None
        if errors is None:
            return False
        table, snapshot_id = errors
        snapshot = self.access.load(table).snapshot_by_id(snapshot_id)
        summary = snapshot.summary if snapshot is not None else None
        rows = summary.get("total-records") if summary is not None else None
        return None if rows is None else int(rows) > 0

    def tables(self, prefix: str) -> tuple[str, ...]:
        """Return the tables of the default namespace, or of the prefix's; some may not have been published yet."""
        namespace = self.access.table_name(f"{prefix}x").namespace
        given = prefix.rpartition(".")[0]
        with self.access.reaching(prefix):
            names = [identifier[-1] for identifier in tables_in(self.access.catalog, namespace)]
        whole = [f"{given}.{name}" if given else name for name in names if staging_of(name) is None]
        return tuple(name for name in whole if name.startswith(prefix))

    def max_of(self, published: Published, column: str) -> Any:
        """Return the maximum by the manifests; if they do not hold it, the column is read in this process."""

        def read() -> Any:
            table, snapshot = self._stored(published)
            with self.access.reaching(published.table):
                return read_max(table.load(), snapshot, column)

        return self.statistics(published).max_of(column, read)

    def watermark_override(self, published: Published) -> Override | None:
        """Return the value of a property of the table."""
        return override_of(self.access.load(published.table), published.version)

    def _stored(self, published: Published) -> tuple[OpenedTable, int]:
        """Return the table and the snapshot that hold the rows of a version, published or staged. Raises RVT-401."""
        from rivet_dagster.catalogs.iceberg.writes.withheld import staged_version, stored_in

        opened = self.access.open(published.table)
        try:
            return opened, self._existing(published)
        except NotMaterialized:
            staged = staged_version(opened, published.version)
            if staged is None:
                raise
            return stored_in(staged)

    def _existing(self, published: Published) -> int:

        return snapshot_of_version(self.access.open, published)

    def _snapshot(self, table: str, iceberg_table: Table, options: Mapping[str, Any]) -> int | None:

        return current_snapshot(self.access.open, table, iceberg_table, options)

    def _current(self, table: str, iceberg_table: Table | None) -> Published | None:
        from rivet_dagster.catalogs.iceberg.metadata.history import published_version

        snapshot = (
            iceberg_table.current_snapshot()
            if iceberg_table is not None and not is_error_table(iceberg_table)
            else None
        )
        if iceberg_table is None or snapshot is None:
            return None
        with self.access.reaching(table):
            return self._described(published_version(iceberg_table, snapshot, self.name, table))

    def _described(self, published: Published) -> Published:
        return replace(published, environment=self.access.environment)


def snapshot_of_version(open: Opener, published: Published) -> int:
    """Return the id of a version's snapshot. Raises RVT-401 if it has expired."""
    iceberg_table = open(published.table).load_if_any()
    snapshot = snapshot_of(iceberg_table, int(published.version)) if iceberg_table is not None else None
    if snapshot is None:
        message = f"the snapshot {published.version} of '{published.table}' has expired, or the table is gone"
        raise RivetError("RVT-401", message)
    return int(snapshot.snapshot_id)


def current_snapshot(open: Opener, table: str, iceberg_table: Table, options: Mapping[str, Any]) -> int | None:
    """Return the snapshot that a source with ``options`` reads now; None for a table without snapshots.

    Raises RVT-403 if there is none, also for an error table that the current rows do not have.
    """
    of = iceberg_table.metadata.properties.get(ERRORS_OF)
    if of is None or options:
        return snapshot_read(iceberg_table, options)
    rows = open(of).load_if_any()
    current = rows.current_snapshot() if rows is not None else None
    last = last_publication(rows, current) if rows is not None and current is not None else None
    has_errors = last is not None and ERRORS in last.facts
    errors = errors_of_rows(iceberg_table, last.version) if last is not None and has_errors else None
    if errors is None:
        raise RivetError("RVT-403", f"the current rows of {of} were published without the error table {table}")
    return errors


def errors_of_version(open: Opener, published: Published) -> tuple[str, int] | None:
    """Return the error table of a version, and its snapshot with the errors of these rows; None without errors.

    Raises RVT-420 if that is not known any more.
    """
    snapshot = snapshot_of_version(open, published)
    iceberg_table = open(published.table).load()
    rows = iceberg_table.snapshot_by_id(snapshot)
    last = last_publication(iceberg_table, rows) if rows is not None else None
    if last is not None and last.lost is not None:
        raise forgotten(published)
    name = last.facts.get(ERRORS) if last is not None else None
    if last is None or name is None:
        return None
    errors = open(name).load_if_any()
    of_rows = errors_of_rows(errors, last.version) if errors is not None else None
    return None if of_rows is None else (name, of_rows)


def is_error_table(iceberg_table: Table) -> bool:
    """Return whether a table holds the errors of another one."""
    return ERRORS_OF in iceberg_table.metadata.properties


def read_max(table: Table, snapshot: int, column: str) -> Any:
    """Return the maximum of a column, read batch by batch; None if it has no value, NaN if it has that."""
    field = table.schema().find_field(column, case_sensitive=False)
    most = greatest(table.scan(snapshot_id=snapshot, selected_fields=(field.name,)).to_arrow_batch_reader())
    is_instant = str(field.field_type) == "timestamptz"
    return most.astimezone(UTC) if is_instant and most is not None else most


def override_of(table: Table, version: str) -> Override | None:
    """Return the override that was set for a version, or for one since the last publication; None without one.

    Commits of other engines are no publications, which end it.
    """
    known = json.loads(table.metadata.properties.get(OVERRIDE, "{}"))
    if not known:
        return None
    snapshot = snapshot_of(table, int(version))
    last = last_publication(table, snapshot) if snapshot is not None else None
    since = {version} | ({str(id_) for id_ in (last.version, *last.later)} if last is not None else set())
    return Override(known["value"]) if known["version"] in since else None


def set_override(table: OpenedTable, version: str, override: Override) -> None:
    """Set the override, unless another version has been published by now. Raises RVT-405."""

    def changes(iceberg_table: Table) -> Changes:
        now = current_version(iceberg_table)
        if str(now) != version:
            raise moved_watermark(str(table.name), None if now is None else str(now), version)
        value = json.dumps({"version": version, "value": override.value})
        return Changes(
            set_properties({OVERRIDE: value}), (branch_is_at(MAIN, iceberg_table.metadata.current_snapshot_id),)
        )

    commit(table.load, changes, str(table.name))
