"""All tables of a catalog at once: what runs have staged in them, and a sweep of what dead ones have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.names import TableName, staging_of
from rivet_dagster.catalogs.iceberg.nessie.run_branch import RunBranch, branches_of_runs
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.reaching import translate_errors
from rivet_dagster.catalogs.iceberg.writes.sweeping import all_staged, finish_drops, remove_heartbeats
from rivet_dagster.catalogs.iceberg.writes.withheld import is_published
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog


@dataclass(frozen=True)
class AllTables:
    """The tables of a PyIceberg catalog, which the profile calls ``name``."""

    catalog: Catalog
    name: str

    def staged(self) -> tuple[str, ...]:
        """Return the branches and staging tables of runs, each as ``table/branch``. Raises RVT-403."""
        with translate_errors(self.name):
            branches = [branch.name for branch in branches_of_runs(self.catalog) if not branch.is_kept]
            return tuple(dict.fromkeys([*(leftover.name for leftover in all_staged(self._opened())), *branches]))

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the branches and staging tables of dead runs, and return them.

        ``failed`` gets the error of each table that cannot be swept; without it they are raised at the end.
        """
        swept: list[str] = []
        errors: list[RivetError] = []
        with translate_errors(self.name):
            tables = list(self._opened())
        alive: dict[str, bool] = {}
        for table in tables:
            try:
                swept.extend(self._swept(table, alive))
            except RivetError as error:
                (failed or errors.append)(error)
        with translate_errors(self.name, code="RVT-404"):
            for branch in branches_of_runs(self.catalog):
                if not branch.is_alive() and not self._holds_withheld(branch):
                    branch.remove()
                    if not branch.is_begun:  # else nothing is staged there
                        swept.append(branch.name)
            for namespace in self._namespaces(()):
                finish_drops(self.catalog, namespace)
        if errors:
            raise RivetError.of(diagnostic for error in errors for diagnostic in error.diagnostics)
        return tuple(dict.fromkeys(swept))

    def _swept(self, table: OpenedTable, alive: dict[str, bool]) -> Iterator[str]:
        """Sweep a table, and yield each name. ``alive`` remembers whose heartbeat a removal has ended already."""
        with translate_errors(self.name, f"the table {table.name}", "RVT-404"):
            for leftover in all_staged(iter((table,))):
                is_dead = not alive.setdefault(leftover.heartbeat.path, leftover.heartbeat.is_alive())
                if is_dead and leftover.remove():
                    yield leftover.name
            remove_heartbeats(table)

    def _holds_withheld(self, branch: RunBranch) -> bool:
        """Return whether a version is withheld on the branch of a run, which nobody has published yet."""
        if branch.record is None or not branch.is_kept:
            return False
        *namespace, name = branch.record.table.split(".")
        found = OpenedTable(self.catalog, TableName(self.name, tuple(namespace), name)).load_if_any()
        return found is None or not is_published(found, branch.record.version)

    def _opened(self) -> Iterator[OpenedTable]:
        """Yield the tables of all namespaces, staging tables first: whether those are needed depends on the others."""
        found = [identifier for namespace in self._namespaces(()) for identifier in self.catalog.list_tables(namespace)]
        for identifier in sorted(found, key=lambda parts: (staging_of(parts[-1]) is None, parts)):
            yield OpenedTable(self.catalog, TableName(self.name, tuple(identifier[:-1]), identifier[-1]))

    def _namespaces(self, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for namespace in self.catalog.list_namespaces(parent):
            if len(namespace) > len(parent):
                yield tuple(namespace)
                yield from self._namespaces(tuple(namespace))
