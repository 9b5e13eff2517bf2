"""The catalog ``iceberg``, whose versions are staged, published and removed by the other modules of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rivet_dagster.catalogs.capabilities.sources import ListsTables, TellsLocations
from rivet_dagster.catalogs.capabilities.staging import PublishesTogether, StagedTransaction, StagesForRuns
from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS, Adopts, HasErrorTables, HasVersions, HasWatermarks
from rivet_dagster.catalogs.capabilities.upkeep import HasUpkeep, Sweeps, UpkeepReport
from rivet_dagster.catalogs.environments.catalog import EnvironmentStorage, HasEnvironments
from rivet_dagster.catalogs.iceberg import examining
from rivet_dagster.catalogs.iceberg.access import NessieAccess, TableAccess, access_to
from rivet_dagster.catalogs.iceberg.examining import try_to_commit
from rivet_dagster.catalogs.iceberg.published_tables import PublishedIcebergTables, set_override
from rivet_dagster.catalogs.iceberg.settings.options import refuse_nessie
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import parse_upkeep
from rivet_dagster.catalogs.iceberg.traits import IcebergTraits
from rivet_dagster.catalogs.iceberg.transactions import NessieTransactions, Transactions
from rivet_dagster.catalogs.versions.marks import list_versions
from rivet_dagster.catalogs.versions.refusals import unknown_version
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.profile import CatalogSpec
from rivet_dagster.model.schema import Schema
from rivet_dagster.model.storage import OLDER, WITHHELD, ExistingTable, Published, Version
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
    from rivet_dagster.catalogs.iceberg.writes.sweeping import AllTables
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction


class IcebergCatalog(
    IcebergTraits,
    PublishedIcebergTables,
    HasVersions,
    Adopts,
    StagesForRuns,
    PublishesTogether,
    HasErrorTables,
    HasWatermarks,
    HasUpkeep,
    HasEnvironments,
    ListsTables,
    Sweeps,
    TellsLocations,
):
    """Tables of Apache Iceberg, in a catalog of its own kinds: hadoop, rest, jdbc, hive, glue, nessie.

    PyIceberg reads the metadata and makes the commits that publish; Spark, with Iceberg's runtime, reads and writes the
    rows. A version is a snapshot, named by its id, and is staged on a branch of the run. An environment is a branch of
    the server on Nessie, elsewhere one of each table that was built there.
    """

    def __init__(self, spec: CatalogSpec, root: Path) -> None:
        refuse_wrong_options(IcebergCatalog, f"catalog '{spec.name}'", spec.options)
        self.name = spec.name
        self._look_through(access_to(spec.name, spec.options, root))

    def through(self, access: TableAccess) -> IcebergCatalog:
        """Return the catalog of the tables of an environment, which ``access`` opens."""
        there = copy(self)
        there._look_through(access)
        return there

    def _look_through(self, access: TableAccess) -> None:
        self.access = access
        self._heartbeats: dict[tuple[str, str], ObjectHeartbeat] = {}
        self._transactions = NessieTransactions(access) if isinstance(access, NessieAccess) else Transactions(access)

    @property
    def environment_storage(self) -> EnvironmentStorage | None:
        """The branches of environments; None in an environment."""
        if self.access.environment is not None:
            return None
        if isinstance(self.access, NessieAccess):
            from rivet_dagster.catalogs.iceberg.environments.nessie.storage import NessieEnvironments

            return NessieEnvironments(self, self.access, self.through)
        from rivet_dagster.catalogs.iceberg.environments.table_branches.storage import BranchEnvironments

        return BranchEnvironments(self, self.access, self.through)

    @property
    def publishes_together(self) -> bool:
        """Whether the catalog is one of Nessie."""
        return self.in_one_commit(self.access.options)

    def publish_together(self, staged: Sequence[tuple[StagedTransaction, str]]) -> tuple[Published, ...]:
        """Publish the tables by one commit of the branch."""
        return self._transactions.publish_together(cast("Sequence[tuple[IcebergTransaction, str]]", staged))

    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> IcebergTransaction:
        """Look up the version to build upon; the branch is made by the first write."""
        return self._transactions.begin(table, session, options)

    def versions(self, table: str) -> tuple[Version, ...]:
        """Return the snapshots that have been current, then the branches and staging tables with a mark."""
        from rivet_dagster.catalogs.iceberg.metadata.history import published_versions
        from rivet_dagster.catalogs.iceberg.writes.withheld import list_marked

        opened = self.access.open(table)
        iceberg_table = opened.load_if_any()
        with self.access.reaching(table):
            return list_versions(
                published_versions(iceberg_table) if iceberg_table is not None else (), list_marked(opened)
            )

    def take_up(self, table: str, version: str) -> IcebergTransaction:
        """Reopen a withheld version, by the id of its snapshot or the name of its branch."""
        from rivet_dagster.catalogs.iceberg.writes.withheld import withheld_versions

        opened = self.access.open(table)
        with self.access.reaching(table, "RVT-404"):
            for withheld in withheld_versions(opened):
                if version in (withheld.name, withheld.key):
                    return self._transactions.take_up(table, withheld)
        raise self._unknown(table, version, WITHHELD)

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version, by the marks of branches and staging tables."""
        from rivet_dagster.catalogs.iceberg.writes import withheld

        opened = self.access.open(table)
        with self.access.reaching(table):
            staged = withheld.staged_by(opened, identity)
            if staged is None:
                return None
            return self._described(withheld.describe_staged(staged, self.name, table))

    def keep_alive(self, table: str, version: str, seconds: float = 0.0) -> bool:
        """Write the time of the heartbeat beside the table's metadata.

        What was found once is not looked up again while the heartbeat is there, which ends before its version does.
        """
        from rivet_dagster.catalogs.iceberg.writes.withheld import heartbeat_of, staged_version

        with self.access.reaching(table, "RVT-404"):
            known = self._heartbeats.get((table, version))
            if known is None or not known.renew(seconds):
                staged = staged_version(self.access.open(table), version)
                if staged is None:
                    return False
                known = self._heartbeats[table, version] = heartbeat_of(staged)
                known.extend(seconds)
        return True

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS) -> IcebergTransaction:
        """Reopen a staged version, by the id of its snapshot."""
        from rivet_dagster.catalogs.iceberg.metadata.layout import parse_layout
        from rivet_dagster.catalogs.iceberg.writes.withheld import require_staged

        opened = self.access.open(table)
        with self.access.reaching(table, "RVT-404"):
            return self._transactions.take_up(table, require_staged(opened, version), parse_layout(options))

    def withhold_staged(self, table: str, version: str) -> None:
        """Replace the mark of a staged version, and mark its errors."""
        self.take_up_staged(table, version).withhold()

    def restage(self, table: str, version: str) -> IcebergTransaction:
        """Begin a new version with the rows of an older snapshot, of which no file is copied."""
        if version not in [known.name for known in self.versions(table) if known.state == OLDER]:
            raise self._unknown(table, version, OLDER)
        with self.access.reaching(table, "RVT-404"):
            return self._transactions.restage(table, int(version))

    def evict(self, published: Published) -> None:
        """Remove all snapshots of the table, then those of its error tables; all stay, without rows.

        A table that an environment has a branch of, or files among its files, stays as it is.
        """
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import error_tables
        from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import current_version, facts_of
        from rivet_dagster.catalogs.iceberg.metadata.summary import DATA_SNAPSHOT
        from rivet_dagster.catalogs.iceberg.writes.sweeping import remove_versions

        opened = self.access.open(published.table)
        storage = self.environment_storage
        if storage is not None and storage.needs(published.table):
            return
        iceberg_table = opened.load_if_any()
        current = iceberg_table.current_snapshot() if iceberg_table is not None else None
        if iceberg_table is None or current is None or str(current_version(iceberg_table)) != published.version:
            return
        names = error_tables(iceberg_table)
        versions = {str(snapshot.snapshot_id) for snapshot in iceberg_table.metadata.snapshots}
        with self.access.reaching(published.table, "RVT-404"):
            if not remove_versions(opened, current.snapshot_id):
                return  # another version has been published since
            for errors in map(self.access.open, names):
                of = errors.load_if_any()
                last = of.current_snapshot() if of is not None else None
                if last is not None and facts_of(last).get(DATA_SNAPSHOT) in versions:
                    remove_versions(errors, last.snapshot_id)

    def existing(self, table: str, partitioned_by: Schema = ()) -> ExistingTable | None:
        """Return the current snapshot of a table that was not published from here, and its layout."""
        from rivet_dagster.catalogs.iceberg import adoption

        with self.access.reaching(table):
            return adoption.describe(self.access.open(table), table)

    def adopt(self, table: str, partitioned_by: Schema = ()) -> Published | None:
        """Set a property of the table by one commit."""
        from rivet_dagster.catalogs.iceberg import adoption

        with self.access.reaching(table, "RVT-404"):
            adoption.adopt(self.access.open(table))
        return self.current(table)

    def give_up(self, table: str) -> bool:
        """Remove the property."""
        from rivet_dagster.catalogs.iceberg import adoption

        with self.access.reaching(table, "RVT-404"):
            return adoption.give_up(self.access.open(table))

    def override_watermark(self, published: Published, override: Override) -> None:
        """Set a property of the table, which the next publication removes."""
        with self.access.reaching(published.table, "RVT-404"):
            set_override(self.access.open(published.table), published.version, override)

    def upkeep(self, table: str, session: EngineSession) -> UpkeepReport | None:
        """Run Iceberg's procedures on a table, as the option ``upkeep`` says."""
        from rivet_dagster.catalogs.iceberg.upkeep.table_upkeep import TableUpkeep

        options = parse_upkeep(self.access.options.get("upkeep"))
        if options is None:
            return None
        with self.access.reaching(table, "RVT-404"):
            return TableUpkeep(self.access.open(table), table, options, session).run()

    def building(self) -> tuple[str, ...]:
        """Return the branches and staging tables of runs, each as ``table/branch``, also in environments."""
        return (*self._all_tables().staged(), *self.building_in_environments())

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the branches and staging tables of dead runs in all tables of the catalog."""
        return self._all_tables().sweep(failed)

    def examine(self, publishes: bool) -> Iterable[Finding]:
        """Return findings about whether the catalog can be reached, and what dead runs have left in it."""
        tried = self._tried if publishes else self._reached
        return examining.examine(f"catalog {self.name}", self.access.options, self.access.root, tried)

    def examine_table(self, table: str) -> Iterable[Finding]:
        """Return findings of what the table's metadata has gathered, by its current snapshot and its properties."""
        iceberg_table = self.access.open(table).load_if_any()
        return (
            ()
            if iceberg_table is None
            else examining.examine_table(f"table {table}", iceberg_table, self.access.options)
        )

    def _reached(self) -> tuple[str, ...]:
        """Ask the catalog for its namespaces, and return nothing. Raises RVT-403."""
        with self.access.reaching(""):
            self.access.catalog.list_namespaces()
        return ()

    def _tried(self) -> tuple[str, ...]:
        """Try to write where that leaves no trace, and return what runs have staged. Raises RVT-403, RVT-404."""
        with self.access.reaching("", "RVT-404"):
            refuse_nessie(self.access.catalog)
            try_to_commit(self.access.catalog)
        return self.building()

    def _all_tables(self) -> AllTables:
        from rivet_dagster.catalogs.iceberg.writes.sweeping import AllTables

        return AllTables(self.access.catalog, self.name)

    def _unknown(self, table: str, version: str, state: str) -> RivetError:
        names = [known.name for known in self.versions(table) if known.state == state]
        return unknown_version(table, version, state, names)
