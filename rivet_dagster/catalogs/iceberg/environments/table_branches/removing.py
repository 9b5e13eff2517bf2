"""Removing what an environment has of a table: its branch with its snapshots and files, or its own table.

The base keeps all that a reader of it sees. Each step can be repeated, so that a removal that was interrupted is
finished by the next one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import branch_is_at, remove_properties, remove_ref
from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_table import recorded_properties
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import entries_of, facts_of, manifests_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ENVIRONMENT, ENVIRONMENT_OF
from rivet_dagster.catalogs.iceberg.names import (
    ENVIRONMENTS,
    OWN_TABLE,
    TableName,
    environment_branch,
    environment_of,
    environment_tag,
    staging_of,
)
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, tables_in
from rivet_dagster.catalogs.iceberg.writes.staged_table import remove_staging_table
from rivet_dagster.catalogs.iceberg.writes.sweeping import remove_versions

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from rivet_dagster.catalogs.iceberg.environments.table_branches.seen_catalog import SeenCatalog


def remove_from(seen: SeenCatalog, name: TableName) -> bool:
    """Remove the branch of the environment from the table ``name`` of the base, its own table and what runs staged.

    Return False if something must stay for now, since a commit may be under way that makes a table of it.
    """
    base = OpenedTable(seen.real, name)
    identifier = seen.own(name.identifier)
    table = base.beside(TableName(name.catalog, identifier[:-1], identifier[-1]))
    removed = [_remove_staging_tables(of, seen.name) for of in (base, table)]
    removed.append(remove_staging_table(table, base, ENVIRONMENT))
    if base.load_if_any() is not None:
        _remove_branch(base, seen.name)
    return all(removed)


def remove_remains(catalog: Catalog, catalog_name: str, is_over: Callable[[str], bool]) -> list[str]:
    """Remove the tables of environments that are over, made while these were dropped, and return the environments."""
    removed = []
    for identifier in tables_in(catalog, (ENVIRONMENTS,)):
        if not identifier[-1].startswith(OWN_TABLE):
            continue
        table = OpenedTable(catalog, TableName(catalog_name, (ENVIRONMENTS,), identifier[-1]))
        iceberg_table = table.load_if_any()
        known = iceberg_table.metadata.properties if iceberg_table is not None else {}
        if ENVIRONMENT in known and is_over(known[ENVIRONMENT]):
            base = tuple(json.loads(known[ENVIRONMENT_OF]))
            if remove_staging_table(table, table.beside(TableName(catalog_name, base[:-1], base[-1])), ENVIRONMENT):
                removed.append(known[ENVIRONMENT])
    return removed


def _remove_staging_tables(of: OpenedTable, name: str) -> bool:
    """Remove the staging tables of runs in the environment, withheld ones too; return whether none is left."""
    removed = []
    for identifier in tables_in(of.catalog, of.name.namespace):
        key = staging_of(identifier[-1])
        if key is not None and environment_of(key) == name and identifier[-1] == of.name.staged(key).name:
            removed.append(remove_staging_table(of.staged(key), of))
    return all(removed)


def _remove_branch(table: OpenedTable, name: str) -> None:
    """Remove the branch, so that nothing can be published from it any more, then its files, then its snapshots."""

    def without_branch(iceberg_table: Table) -> Changes:
        return Changes(tuple(remove_ref(ref) for ref in iceberg_table.metadata.refs if ref == environment_branch(name)))

    commit(table.load, without_branch, str(table.name))
    iceberg_table = table.load()
    removal = _Removal(iceberg_table, _going(iceberg_table, name))
    removal.delete_data_files()

    def without_snapshots(iceberg_table: Table) -> Changes:
        from pyiceberg.table.update import RemoveSnapshotsUpdate

        refs = [remove_ref(ref) for ref in iceberg_table.metadata.refs if _is_of(ref, name)]
        known = {snapshot.snapshot_id for snapshot in iceberg_table.metadata.snapshots}
        going = [snapshot.snapshot_id for snapshot in removal.going if snapshot.snapshot_id in known]
        snapshots = (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": going}),) if going else ()
        return Changes((*refs, *remove_properties(recorded_properties(iceberg_table, name)), *snapshots))

    commit(table.load, without_snapshots, str(table.name))
    removal.delete_manifests()


def evict_from(seen: SeenCatalog, name: TableName, snapshot: int) -> bool:
    """Remove what was published in the environment of the table ``name`` of the base, in one commit.

    Return False, and remove nothing, if ``snapshot`` is not current there any more.
    """
    identifier = seen.own(name.identifier)
    table = OpenedTable(seen.real, TableName(name.catalog, identifier[:-1], identifier[-1]))
    if table.load_if_any() is not None:
        return remove_versions(table, snapshot)
    base, branch = table.beside(name), environment_branch(seen.name)
    removals: list[_Removal] = []

    def without_versions(iceberg_table: Table) -> Changes:
        from pyiceberg.table.update import RemoveSnapshotsUpdate

        removals.clear()
        ref = iceberg_table.metadata.refs.get(branch)
        if ref is None or ref.snapshot_id != snapshot:
            return Changes()
        others = [other.snapshot_id for key, other in iceberg_table.metadata.refs.items() if key != branch]
        going = _leading_to_no_other([snapshot], iceberg_table, others)
        removals.append(_Removal(iceberg_table, going))
        refs = [remove_ref(ref) for ref in (branch, environment_tag(seen.name)) if ref in iceberg_table.metadata.refs]
        ids = [snapshot.snapshot_id for snapshot in going]
        snapshots = (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": ids}),) if ids else ()
        recorded = remove_properties(recorded_properties(iceberg_table, seen.name))
        return Changes((*refs, *recorded, *snapshots), (branch_is_at(branch, snapshot),))

    commit(base.load, without_versions, str(base.name))
    for removal in removals:
        removal.delete_data_files()
        removal.delete_manifests()
    return bool(removals)


def _going(iceberg_table: Table, name: str) -> list[Snapshot]:
    """Return the snapshots that were published in the environment, and those of its runs before them."""
    heads = [s.snapshot_id for s in iceberg_table.metadata.snapshots if facts_of(s).get(ENVIRONMENT) == name]
    others: list[int] = []
    for key, ref in iceberg_table.metadata.refs.items():
        is_run = _is_of(key, name) and ref.snapshot_ref_type.value == "branch"
        (heads if is_run else others).append(ref.snapshot_id)
    return _leading_to_no_other(heads, iceberg_table, others)


def _leading_to_no_other(heads: Iterable[int], iceberg_table: Table, others: Iterable[int]) -> list[Snapshot]:
    """Return the snapshots that lead to ``heads``, and neither to ``others`` nor to versions of the base."""
    known = {snapshot.snapshot_id: snapshot for snapshot in iceberg_table.metadata.snapshots}
    of_base = (entry.snapshot_id for entry in iceberg_table.metadata.snapshot_log)
    return [known[id_] for id_ in _leading_to(heads, known) - _leading_to((*others, *of_base), known)]


@dataclass(frozen=True)
class _Removal:
    """The removal of the snapshots ``going`` of an environment that no branch or tag of a table leads to any more."""

    iceberg_table: Table
    going: list[Snapshot]

    def delete_data_files(self) -> None:
        """Delete the files that only these snapshots have, unless ``gc.enabled`` is false."""
        from pyiceberg.manifest import ManifestEntryStatus

        going = self.going
        if not going or self.iceberg_table.metadata.properties.get("gc.enabled", "true").lower() == "false":
            return
        ids = {snapshot.snapshot_id for snapshot in going}
        removed, others = self._manifests(going)
        entries = (
            entry
            for manifest in removed
            for entry in entries_of(manifest, self.iceberg_table.io, discard_deleted=False)
        )
        added = ManifestEntryStatus.ADDED
        files = {e.data_file.file_path for e in entries if e.status == added and e.snapshot_id in ids}
        # What others added since may be the same files, by whatever procedure.
        entries = (
            entry for manifest in others for entry in entries_of(manifest, self.iceberg_table.io, discard_deleted=False)
        )
        self._delete(files - {entry.data_file.file_path for entry in entries})

    def delete_manifests(self) -> None:
        """Delete the metadata files of these snapshots."""
        going = self.going
        if not going:
            return
        removed, _ = self._manifests(going)
        self._delete([manifest.manifest_path for manifest in removed])
        self._delete([snapshot.manifest_list for snapshot in going])

    def _manifests(self, going: list[Snapshot]) -> tuple[list[ManifestFile], list[ManifestFile]]:
        """Return the manifests that these snapshots alone have added, and those that others have added since.

        The lists of older snapshots, of which a table may have thousands, name none of either.
        """
        ids = {snapshot.snapshot_id for snapshot in going}
        first = min(snapshot.sequence_number or 0 for snapshot in going)
        since = [
            snapshot for snapshot in self.iceberg_table.metadata.snapshots if (snapshot.sequence_number or 0) >= first
        ]
        read = {
            snapshot.snapshot_id: {
                manifest.manifest_path: manifest
                for manifest in self._read(snapshot)
                if (manifest.sequence_number or 0) >= first
            }
            for snapshot in since
        }
        retained = {
            path: manifest for id_, of_one in read.items() if id_ not in ids for path, manifest in of_one.items()
        }
        mine = {path: manifest for id_, of_one in read.items() if id_ in ids for path, manifest in of_one.items()}
        return [manifest for path, manifest in mine.items() if path not in retained], list(retained.values())

    def _read(self, snapshot: Snapshot) -> list[ManifestFile]:
        try:
            return manifests_of(snapshot, self.iceberg_table.io)
        except FileNotFoundError:  # expired by somebody else meanwhile
            return []

    def _delete(self, paths: Iterable[str]) -> None:
        for path in sorted(paths):
            with suppress(FileNotFoundError):
                self.iceberg_table.io.delete(path)


def _is_of(ref: str, name: str) -> bool:
    """Return whether a branch or tag is one of the environment, or of a run there."""
    return environment_of(ref) == name or ref in (environment_branch(name), environment_tag(name))


def _leading_to(heads: Iterable[int], known: dict[int, Snapshot]) -> set[int]:
    """Return the snapshots ``heads`` and all that they descend from, as far as they exist."""
    ids: set[int] = set()
    for head in heads:
        current: int | None = head
        while current is not None and current not in ids and current in known:
            ids.add(current)
            current = known[current].parent_snapshot_id
    return ids
