"""The tables of the catalog ``iceberg``, whose versions are staged, published and removed by modules of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.error_tables import HasErrorTables
from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS
from rivet_dagster.catalogs.capabilities.upkeep import UpkeepReport
from rivet_dagster.catalogs.iceberg import examining
from rivet_dagster.catalogs.iceberg.hadoop.trying import try_to_commit
from rivet_dagster.catalogs.iceberg.nessie.rest_endpoint import refuse_nessie
from rivet_dagster.catalogs.iceberg.published_tables import PublishedTables
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import parse_upkeep
from rivet_dagster.catalogs.iceberg.watermark import set_override
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.storage import OLDER, STAGED, WITHHELD, Published, Version
from rivet_dagster.model.watermark import Override

if TYPE_CHECKING:
    from rivet_dagster.catalogs.iceberg.all_tables import AllTables
    from rivet_dagster.catalogs.iceberg.metadata.layout import Layout
    from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
    from rivet_dagster.catalogs.iceberg.writes.withheld import Withheld


class IcebergTables(PublishedTables, HasErrorTables):
    """Tables of Apache Iceberg, in a catalog of its own kinds: hadoop, rest, jdbc, hive, glue, nessie.

    PyIceberg reads the metadata and makes the commits that publish; Spark, with Iceberg's runtime, reads and writes the
    rows. A version is a snapshot, named by its id, and is staged on a branch of the run.
    """

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
        from rivet_dagster.catalogs.iceberg.writes.withheld import withheld_versions

        opened = self._opened(table)
        with self._reaching(table, "RVT-404"):
            for withheld in withheld_versions(opened):
                if version in (withheld.name, withheld.key):
                    return self._taken_up(table, withheld)
        raise self._unknown(table, version, WITHHELD)

    def staged_by(self, table: str, identity: str) -> Published | None:
        """Return the version, by the marks of branches and staging tables."""
        from rivet_dagster.catalogs.iceberg.writes import staged_for_run

        opened = self._opened(table)
        with self._reaching(table):
            staged = staged_for_run.staged_by(opened, identity)
            return staged_for_run.described(staged, self.name, table) if staged is not None else None

    def keep_alive(self, table: str, version: str, seconds: float = 0.0) -> bool:
        """Write the time of the heartbeat beside the table's metadata."""
        from rivet_dagster.catalogs.iceberg.writes.staged_for_run import heartbeat_of, staged_version

        opened = self._opened(table)
        with self._reaching(table, "RVT-404"):
            staged = staged_version(opened, version)
            if staged is not None:
                heartbeat_of(staged).extend(seconds)
        return staged is not None

    def take_up_staged(self, table: str, version: str, options: Mapping[str, Any] = NO_OPTIONS) -> IcebergTransaction:
        """Reopen a staged version, by the id of its snapshot."""
        from rivet_dagster.catalogs.iceberg.metadata.layout import parse_layout
        from rivet_dagster.catalogs.iceberg.writes.staged_for_run import required

        opened = self._opened(table)
        with self._reaching(table, "RVT-404"):
            return self._taken_up(table, required(opened, version), parse_layout(options))

    def withhold_staged(self, table: str, version: str) -> None:
        """Replace the mark of a staged version, and mark its errors."""
        self.take_up_staged(table, version).withhold()

    def restage(self, table: str, version: str) -> IcebergTransaction:
        """Begin a new version with the rows of an older snapshot, of which no file is copied."""
        if version not in [known.name for known in self.versions(table) if known.state == OLDER]:
            raise self._unknown(table, version, OLDER)
        with self._reaching(table, "RVT-404"):
            return self._restaged(table, int(version))

    def evict(self, published: Published) -> None:
        """Remove all snapshots of the table, then those of its error tables; all stay, without rows."""
        from rivet_dagster.catalogs.iceberg.metadata.last_publication import error_tables
        from rivet_dagster.catalogs.iceberg.metadata.same_rows import current_version, facts_of
        from rivet_dagster.catalogs.iceberg.metadata.summary import DATA_SNAPSHOT
        from rivet_dagster.catalogs.iceberg.writes.evicting import remove_versions

        opened = self._opened(published.table)
        found = opened.load_if_any()
        current = found.current_snapshot() if found is not None else None
        if found is None or current is None or str(current_version(found)) != published.version:
            return
        names = error_tables(found)
        versions = {str(snapshot.snapshot_id) for snapshot in found.metadata.snapshots}
        with self._reaching(published.table, "RVT-404"):
            if not remove_versions(opened, current.snapshot_id):
                return  # another version has been published since
            for errors in map(self._opened, names):
                of = errors.load_if_any()
                last = of.current_snapshot() if of is not None else None
                if last is not None and facts_of(last).get(DATA_SNAPSHOT) in versions:
                    remove_versions(errors, last.snapshot_id)

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
        tried = self._tried if publishes else self._reached
        return examining.examine(f"catalog {self.name}", self._options, self._root, tried)

    def _taken_up(self, table: str, version: Withheld, layout: Layout | None = None) -> IcebergTransaction:
        from rivet_dagster.catalogs.iceberg.writes.beginning import taken_up

        return taken_up(self._opened(table), table, self.name, self._opened, version, layout)

    def _restaged(self, table: str, version: int) -> IcebergTransaction:
        from rivet_dagster.catalogs.iceberg.writes.beginning import restaged

        return restaged(self._opened(table), table, self.name, self._opened, version)

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

    def _all_tables(self) -> AllTables:
        from rivet_dagster.catalogs.iceberg.all_tables import AllTables

        return AllTables(self._catalog, self.name)

    def _unknown(self, table: str, version: str, state: str) -> RivetError:
        names = [known.name for known in self.versions(table) if known.state == state]
        return RivetError("RVT-408", f"'{table}' has no {state} version '{version}'{nearest(version, names)}")
