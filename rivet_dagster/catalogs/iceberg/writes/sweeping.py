"""Removals from a catalog's tables: of what dead runs have staged, and of all versions of a table that is evicted.

The versions of a table go in one commit, which fails if another snapshot is current by then, and by no drop, which
catalogs carry out by the name alone: the table stays, without rows, and a run that began upon its version publishes
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, branch_is_at, remove_ref
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat, heartbeats_of
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import entries_of, manifests_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS_OF, STAGED_FOR
from rivet_dagster.catalogs.iceberg.names import BRANCH, TableName, is_of_environment, staging_of
from rivet_dagster.catalogs.iceberg.nessie.run_branch import RunBranch, branches_of_runs
from rivet_dagster.catalogs.iceberg.opened import Look, OpenedTable, look, look_recently, tables_in
from rivet_dagster.catalogs.iceberg.reaching import translate_errors
from rivet_dagster.catalogs.iceberg.writes.staged_branch import remove_branch
from rivet_dagster.catalogs.iceberg.writes.staged_table import heartbeat_of, remove_staging_table
from rivet_dagster.catalogs.iceberg.writes.withheld import is_published, withheld_as
from rivet_dagster.catalogs.versions.heartbeat import end_dead, find_dead, sweep_dead, telling_failures
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot


@dataclass(frozen=True)
class TableLeftover:
    """Something that a run has staged: the branch ``key`` of ``table``, or the staging table ``table`` itself.

    ``iceberg_table`` is ``table`` as its metadata were then, ``of`` the one that a staging table is for.
    ``is_withheld`` says that it stays for a person: a version with a mark that nobody has published yet.
    """

    table: OpenedTable
    key: str
    iceberg_table: Table = field(repr=False, compare=False)
    of: OpenedTable | None = None
    is_withheld: bool = False

    @cached_property
    def heartbeat(self) -> ObjectHeartbeat:
        """The heartbeat of the run."""
        return (
            _heartbeat(self.table, self.iceberg_table, self.key)
            if self.of is None
            else heartbeat_of(self.iceberg_table)
        )

    @property
    def name(self) -> str:
        """The name of the table that it is for, and its key."""
        of = self.of or self.table
        return f"{'.'.join(of.name.identifier)}/{self.key}"

    def remove(self) -> bool:
        """Remove it, after the heartbeat of its run, and return True; return False if it must stay for now."""
        self.heartbeat.end()
        if self.of is None:
            remove_branch(self.table, self.key)
            return True
        return remove_staging_table(self.table, self.of)


def staged_by_runs(table: OpenedTable, look: Look = look) -> Iterator[TableLeftover | RunBranch]:
    """Yield all that runs have staged for a table, but withheld versions."""
    return (leftover for leftover in _unpublished(table, look) if not leftover.is_withheld)


def _unpublished(table: OpenedTable, look: Look) -> Iterator[TableLeftover | RunBranch]:
    yield from branches_of_runs(table.catalog, table, look=look)
    iceberg_table = table.load_if_any()
    if iceberg_table is not None and STAGED_FOR not in iceberg_table.metadata.properties:
        yield from _staged_branches(table, iceberg_table)
    catalog, namespace = table.catalog, table.name.namespace
    for identifier in look(catalog, namespace, lambda: tables_in(catalog, namespace)):
        if identifier[-1].startswith(f"{table.name.name}__{BRANCH}"):
            yield from _staging_table(table.beside(_named(table.name, identifier[-1])))


def remove_leftovers(table: OpenedTable, io: FileIO, location: str) -> None:
    """Remove what dead runs have staged for a table at ``location``, which need not exist, and their heartbeats."""
    list(sweep_dead(staged_by_runs(table, look_recently)))
    end_dead(heartbeats_of(io, location))
    catalog, namespace = table.catalog, table.name.namespace
    look_recently(catalog, ("drops", namespace), lambda: finish_drops(catalog, namespace))


def finish_drops(catalog: Catalog, namespace: tuple[str, ...]) -> None:
    """Remove what interrupted drops of staging tables have left, in catalogs where a drop is more than one step."""
    from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog

    if isinstance(catalog, HadoopCatalog):
        catalog.finish_drops(namespace)


def remove_heartbeats(table: OpenedTable) -> None:
    """Remove the heartbeats of dead runs that have staged nothing."""
    iceberg_table = table.load_if_any()
    if iceberg_table is not None and STAGED_FOR not in iceberg_table.metadata.properties:
        end_dead(heartbeats_of(iceberg_table.io, iceberg_table.metadata.location))


def all_staged(tables: Iterator[OpenedTable]) -> Iterator[TableLeftover]:
    """Yield all that runs have staged in ``tables``, all of a catalog's, also what is withheld there."""
    for table in tables:
        if staging_of(table.name.name) is not None:
            yield from _staging_table(table)
            continue
        iceberg_table = table.load_if_any()
        if iceberg_table is not None:
            yield from _staged_branches(table, iceberg_table)


def _staged_branches(table: OpenedTable, iceberg_table: Table) -> Iterator[TableLeftover]:
    for key in iceberg_table.metadata.refs:
        if key.startswith(BRANCH) and not is_of_environment(key) and table.sees(key):
            is_withheld = withheld_as(iceberg_table, key) is not None
            yield TableLeftover(table, key, iceberg_table, is_withheld=is_withheld)


def _staging_table(table: OpenedTable) -> Iterator[TableLeftover]:
    iceberg_table = table.load_if_any()
    key = staging_of(table.name.name)
    if (
        iceberg_table is None
        or key is None
        or STAGED_FOR not in iceberg_table.metadata.properties
        or not table.sees(key)
    ):
        return
    parts = tuple(iceberg_table.metadata.properties[STAGED_FOR].split("."))
    of = table.beside(TableName(table.name.catalog, parts[:-1], parts[-1]))
    version = withheld_as(iceberg_table, key)
    is_withheld = version is not None and not _is_published(of, version)
    yield TableLeftover(table, key, iceberg_table, of, is_withheld)


def _is_published(table: OpenedTable, version: str) -> bool:
    iceberg_table = table.load_if_any()
    return iceberg_table is not None and is_published(iceberg_table, version)


def _heartbeat(table: OpenedTable, iceberg_table: Table, key: str) -> ObjectHeartbeat:
    """Return the heartbeat of a branch; that of an error table's is beside the table of the rows."""
    of = iceberg_table.metadata.properties.get(ERRORS_OF)
    if of is None:
        return ObjectHeartbeat(iceberg_table.io, iceberg_table.metadata.location, key)
    parts = tuple(of.split("."))
    rows = table.beside(TableName(table.name.catalog, parts[:-1], parts[-1])).load_if_any()
    return ObjectHeartbeat(
        iceberg_table.io, rows.metadata.location if rows is not None else iceberg_table.metadata.location, key
    )


def _named(name: TableName, other: str) -> TableName:
    return TableName(name.catalog, name.namespace, other)


def remove_versions(table: OpenedTable, snapshot: int) -> bool:
    """Remove all snapshots of a table whose current one is ``snapshot``, and their files; return False if it is not.

    The heads of branches and tags stay, with what runs have staged on the way to them.
    """
    seen: list[Table] = []

    def without_versions(iceberg_table: Table) -> Changes:
        from pyiceberg.table.update import RemoveSnapshotsUpdate

        seen[:] = [iceberg_table]
        if iceberg_table.metadata.current_snapshot_id != snapshot:
            return Changes()
        going = [snapshot.snapshot_id for snapshot in _divided(iceberg_table)[0]]
        removed = (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": going}),) if going else ()
        return Changes((remove_ref(MAIN), *removed), (branch_is_at(MAIN, snapshot),))

    commit(table.load, without_versions, str(table.name))
    (loaded,) = seen
    if loaded.metadata.current_snapshot_id != snapshot:
        return False
    _delete_files(loaded)
    return True


def _delete_files(iceberg_table: Table) -> None:
    """Delete the files that only the removed snapshots had, unless ``gc.enabled`` is false."""
    if iceberg_table.metadata.properties.get("gc.enabled", "true").lower() == "false":
        return
    going, others = (_files(iceberg_table, snapshots) for snapshots in _divided(iceberg_table))
    for path in sorted(going - others):
        with suppress(FileNotFoundError):
            iceberg_table.io.delete(path)


def _divided(iceberg_table: Table) -> tuple[list[Snapshot], list[Snapshot]]:
    """Return the snapshots that no branch or tag but the current one needs, and the others."""
    known = {snapshot.snapshot_id: snapshot for snapshot in iceberg_table.metadata.snapshots}
    published = {entry.snapshot_id for entry in iceberg_table.metadata.snapshot_log}
    reachable: set[int] = set()
    for name, ref in iceberg_table.metadata.refs.items():
        current: int | None = None if name == MAIN else ref.snapshot_id
        while current is not None and current in known and current not in reachable:
            reachable.add(current)
            parent = known[current].parent_snapshot_id
            current = None if parent in published else parent
    return [s for id_, s in known.items() if id_ not in reachable], [s for id_, s in known.items() if id_ in reachable]


def _files(iceberg_table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the paths of the data files and the metadata files of snapshots."""
    lists = {snapshot.manifest_list for snapshot in snapshots}
    manifests = {manifest.manifest_path: manifest for s in snapshots for manifest in manifests_of(s, iceberg_table.io)}
    entries = (entry for m in manifests.values() for entry in entries_of(m, iceberg_table.io, discard_deleted=False))
    return {*lists, *manifests, *(entry.data_file.file_path for entry in entries)}


@dataclass(frozen=True)
class AllTables:
    """The tables of a PyIceberg catalog, which the profile calls ``name``."""

    catalog: Catalog
    name: str

    def staged(self) -> tuple[str, ...]:
        """Return the branches and staging tables of runs, each as ``table/branch``. Raises RVT-403."""
        with translate_errors(self.name):
            staged, branches = all_staged(self._opened()), branches_of_runs(self.catalog)
            unpublished: Iterator[TableLeftover | RunBranch] = chain(staged, branches)
            return tuple(dict.fromkeys(version.name for version in unpublished if not version.is_withheld))

    def sweep(self, failed: Callable[[RivetError], None] | None = None) -> tuple[str, ...]:
        """Remove the branches and staging tables of dead runs, and return them.

        ``failed`` gets the error of each table that cannot be swept; without it they are raised at the end.
        """
        swept: list[str] = []
        with translate_errors(self.name):
            tables = list(self._opened())
        alive: dict[str, bool] = {}
        with telling_failures(failed) as tell:
            for table in tables:
                try:
                    swept.extend(self._swept(table, alive))
                except RivetError as error:
                    tell(error)
            with translate_errors(self.name, code="RVT-404"):
                for branch in find_dead(map(self._settled, branches_of_runs(self.catalog))):
                    branch.remove()
                    if not branch.is_begun:  # else nothing is staged there
                        swept.append(branch.name)
                for namespace in self._namespaces(()):
                    finish_drops(self.catalog, namespace)
        return tuple(dict.fromkeys(swept))

    def _swept(self, table: OpenedTable, alive: dict[str, bool]) -> Iterator[str]:
        """Sweep a table, and yield each name. ``alive`` remembers whose heartbeat a removal has ended already."""
        with translate_errors(self.name, f"the table {table.name}", "RVT-404"):
            yield from sweep_dead(all_staged(iter((table,))), alive)
            remove_heartbeats(table)

    def _settled(self, branch: RunBranch) -> RunBranch:
        """Return the branch of a run, on which nothing is withheld any more once somebody has published it."""
        if branch.record is None or not branch.is_withheld:
            return branch
        *namespace, name = branch.record.table.split(".")
        table = OpenedTable(self.catalog, TableName(self.name, tuple(namespace), name))
        return branch.without_mark() if _is_published(table, branch.record.version) else branch

    def _opened(self) -> Iterator[OpenedTable]:
        """Yield the tables of all namespaces, staging tables first: whether those are needed depends on the others."""
        identifiers = [
            identifier for namespace in self._namespaces(()) for identifier in self.catalog.list_tables(namespace)
        ]
        for identifier in sorted(identifiers, key=lambda parts: (staging_of(parts[-1]) is None, parts)):
            yield OpenedTable(self.catalog, TableName(self.name, tuple(identifier[:-1]), identifier[-1]))

    def _namespaces(self, parent: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for namespace in self.catalog.list_namespaces(parent):
            if len(namespace) > len(parent):
                yield tuple(namespace)
                yield from self._namespaces(tuple(namespace))
