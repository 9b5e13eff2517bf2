"""The tables of the catalog ``iceberg``, its methods implemented by the other modules of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.error_tables import HasErrorTables
from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.capabilities.upkeep import UpkeepReport
from rivet_dagster.catalogs.iceberg import examining
from rivet_dagster.catalogs.iceberg.hadoop.trying import try_to_commit
from rivet_dagster.catalogs.iceberg.names import TableName, staging_of, table_name
from rivet_dagster.catalogs.iceberg.nessie.rest_endpoint import refuse_nessie
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.reaching import reaching
from rivet_dagster.catalogs.iceberg.settings.connection import connected
from rivet_dagster.catalogs.iceberg.settings.spark_settings import spark_needs
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import parse_upkeep
from rivet_dagster.catalogs.iceberg.traits import IcebergTraits
from rivet_dagster.catalogs.iceberg.watermark import max_of, override_of, set_override
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.schema import Field, Schema
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.model.storage import OLDER, STAGED, WITHHELD, Published, Statistics, Version
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    import pyiceberg.catalog
    from pyiceberg.table import Table

    from rivet_dagster.catalogs.iceberg.all_tables import AllTables
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction


class IcebergTables(IcebergTraits, HasErrorTables):
    """Tables of Apache Iceberg, in a catalog of its own kinds: hadoop, rest, jdbc, hive, glue, nessie.

    PyIceberg reads the metadata and makes the commits that publish; Spark, with Iceberg's runtime, reads and writes the
    rows. A version is a snapshot, named by its id, and is staged on a branch of the run.
    """

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        refuse_wrong_options(IcebergTables, f"catalog '{spec.name}'", spec.options)
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
        except RivetError as error:
            staged = staged_version(self._opened(published.table), published.version)
            if error.code != "RVT-401" or staged is None:
                raise
            return errors_relation(self._opened, staged)
        return None if errors is None else CatalogTable(self._name(errors[0]).parts, snapshot=errors[1])

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> IcebergTransaction:
        """Look up the version to build upon; the branch is made by the first write."""
        from rivet_dagster.catalogs.iceberg.commits.snapshots import new_snapshot_id
        from rivet_dagster.catalogs.iceberg.metadata.layout import parse_layout
        from rivet_dagster.catalogs.iceberg.writes.beginning import beginning
        from rivet_dagster.catalogs.iceberg.writes.sweeping import remove_leftovers
        from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction

        opened = self._opened(table)
        with self._reaching(table, "RVT-404"):
            begin = beginning(opened, table, parse_layout(options), self.name, self._opened)
            remove_leftovers(opened, begin.place.io, begin.place.location)
        return IcebergTransaction(begin, new_snapshot_id(), session)

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the snapshots that have been current, then the branches and staging tables with a mark."""
        from rivet_dagster.catalogs.iceberg.metadata.history import listed
        from rivet_dagster.catalogs.iceberg.writes.withheld import marked_versions

        opened = self._opened(table)
        found = opened.load_if_any()
        with self._reaching(table):
            withheld = tuple(
                Version(
                    w.name,
                    STAGED if w.is_staged else WITHHELD,
                    w.publication.rows,
                    None,
                    w.publication.identity,
                    w.publication.inputs,
                )
                for w in marked_versions(opened)
            )
            return (*(listed(found) if found is not None else ()), *withheld)

    def take_up(self, table: str, version: str) -> IcebergTransaction:
        """Reopen a withheld version, by the id of its snapshot or the name of its branch."""
        from rivet_dagster.catalogs.iceberg.writes.beginning import taken_up
        from rivet_dagster.catalogs.iceberg.writes.withheld import withheld_versions

        opened = self._opened(table)
        with self._reaching(table, "RVT-404"):
            for withheld in withheld_versions(opened):
                if version in (withheld.name, withheld.key):
                    return taken_up(opened, table, self.name, self._opened, withheld)
        raise self._unknown(table, version, WITHHELD)

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version, by the marks of branches and staging tables."""
        from rivet_dagster.catalogs.iceberg.writes import staged_for_run

        opened = self._opened(table)
        with self._reaching(table):
            staged = staged_for_run.staged_by(opened, identity)
            return staged_for_run.described(opened, staged, self.name, table) if staged is not None else None

    def keep_alive(self, table: str, version: str, seconds: float = 0.0) -> bool:
        """Write the time of the heartbeat beside the table's metadata."""
        from rivet_dagster.catalogs.iceberg.writes.staged_for_run import heartbeat_of, staged_version

        opened = self._opened(table)
        with self._reaching(table, "RVT-404"):
            staged = staged_version(opened, version)
            if staged is not None:
                heartbeat_of(opened, staged).extend(seconds)
        return staged is not None

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS) -> IcebergTransaction:
        """Reopen a staged version, by the id of its snapshot."""
        from rivet_dagster.catalogs.iceberg.metadata.layout import parse_layout
        from rivet_dagster.catalogs.iceberg.writes.beginning import taken_up
        from rivet_dagster.catalogs.iceberg.writes.staged_for_run import required

        opened = self._opened(table)
        with self._reaching(table, "RVT-404"):
            return taken_up(opened, table, self.name, self._opened, required(opened, version), parse_layout(options))

    def withhold_staged(self, table: str, version: str) -> None:
        """Replace the mark of a staged version, and mark its errors."""
        self.take_up_staged(table, version).withhold()

    def restage(self, table: str, version: str) -> IcebergTransaction:
        """Begin a new version with the rows of an older snapshot, of which no file is copied."""
        from rivet_dagster.catalogs.iceberg.writes.beginning import restaged

        if version not in [known.name for known in self.versions(table) if known.state == OLDER]:
            raise self._unknown(table, version, OLDER)
        with self._reaching(table, "RVT-404"):
            return restaged(self._opened(table), table, self.name, self._opened, int(version))

    def evict(self, published: Published) -> None:
        """Drop the table with its files, and its error table."""
        from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS

        current = self.current(published.table)
        if current is None or current.version != published.version:
            return
        found = self._required(published.table)
        known = {
            snapshot.summary.additional_properties.get(ERRORS)
            for snapshot in found.metadata.snapshots
            if snapshot.summary is not None
        }
        with self._reaching(published.table, "RVT-404"):
            for name in (*filter(None, known), published.table):
                if self._opened(name).load_if_any() is not None:
                    self._catalog.purge_table(self._name(name).identifier)

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
        with self._reaching(published.table):
            return max_of(self._required(published.table), self._existing(published), column)

    def watermark_override(self, published: Published) -> Override | None:
        """Return the value of a property of the table."""
        return override_of(self._required(published.table), published.version)

    def override_watermark(self, published: Published, override: Override) -> None:
        """Set a property of the table, which the next publication removes."""
        with self._reaching(published.table, "RVT-404"):
            set_override(self._opened(published.table), published.version, override)

    def upkeep(self, table: str, session: EngineSession) -> UpkeepReport | None:
        """Run Iceberg's procedures on a table, as the option ``upkeep`` says."""
        from rivet_dagster.catalogs.iceberg.upkeep.table_upkeep import TableUpkeep

        options = parse_upkeep(self._options.get("upkeep"))
        if options is None:
            return None
        with self._reaching(table, "RVT-404"):
            return TableUpkeep(self._opened(table), table, options, session).run()

    def building(self) -> tuple[str, ...]:
        """Return the branches and staging tables of runs, each as ``table/branch``."""
        return self._all_tables().staged()

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the branches and staging tables of dead runs in all tables of the catalog."""
        return self._all_tables().sweep(failed)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about whether the catalog can be reached, and what dead runs have left in it."""
        return examining.examine(f"catalog {self.name}", self._tried if publishes else self._reached)

    def _reached(self) -> tuple[str, ...]:
        """Ask the catalog for its namespaces, and return nothing. Raises RVT-403."""
        with self._reaching(""):
            self._catalog.list_namespaces()
        return ()

    def _tried(self) -> tuple[str, ...]:
        """Try to write where that leaves no trace, and return what runs have staged. Raises RVT-403, RVT-404."""
        with self._reaching("", "RVT-404"):
            refuse_nessie(self._catalog)
            try_to_commit(self._catalog)
        return self.building()

    @cached_property
    def _catalog(self) -> pyiceberg.catalog.Catalog:
        return connected(self.name, self._options, self._root)

    def _all_tables(self) -> AllTables:
        from rivet_dagster.catalogs.iceberg.all_tables import AllTables

        return AllTables(self._catalog, self.name)

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
        except RivetError as error:
            staged = staged_version(opened, published.version)
            if error.code != "RVT-401" or staged is None:
                raise
            return stored_in(opened, staged)

    def _existing(self, published: Published) -> int:
        from rivet_dagster.catalogs.iceberg.reading import snapshot_of_version

        return snapshot_of_version(self._opened, published)

    def _snapshot(self, table: str, found: Table, options: Mapping[str, Any]) -> int | None:
        from rivet_dagster.catalogs.iceberg.reading import current_snapshot

        return current_snapshot(self._opened, table, found, options)

    def _unknown(self, table: str, version: str, state: str) -> RivetError:
        names = [known.name for known in self.versions(table) if known.state == state]
        return RivetError("RVT-408", f"'{table}' has no {state} version '{version}'{nearest(version, names)}")
