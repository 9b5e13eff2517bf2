"""The upkeep of one table, step by step."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.upkeep import UpkeepReport
from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.snapshots import SnapshotWriter, new_snapshot_id
from rivet_dagster.catalogs.iceberg.commits.updates import MAIN, branch_is_at, set_branch
from rivet_dagster.catalogs.iceberg.metadata.history import published_at
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import (
    PUBLISHED_AT,
    ROWS_OF,
    facts_of,
    only_rewrites,
    version_of,
    with_facts,
)
from rivet_dagster.catalogs.iceberg.metadata.summary import TEXT_BOUNDS
from rivet_dagster.catalogs.iceberg.metadata.text_bounds import (
    recorded_bounds,
    sequence_number_of,
    together,
    written_bounds,
)
from rivet_dagster.catalogs.iceberg.opened import EVERYTHING, OpenedTable, has_table_of_environment
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import EXPIRE, MANIFESTS, ORPHANS, REWRITE, UpkeepOptions
from rivet_dagster.catalogs.iceberg.upkeep.expiring import (
    expire,
    remove_orphan_files,
    rewrite_data_files,
    rewrite_manifests,
)
from rivet_dagster.catalogs.iceberg.writes.sweeping import staged_by_runs
from rivet_dagster.catalogs.iceberg.writes.withheld import withheld_versions
from rivet_dagster.catalogs.versions.heartbeat import sweep_dead
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.table import Table

_NO_GC = "the table's property gc.enabled is false"
_OF_ENVIRONMENT = "an environment has built a table of this name, whose files are among those of the table"
_NESTED = "other tables may lie below its location, in the namespace of its name"


@dataclass
class TableUpkeep:
    """The upkeep of ``table``, which joints call ``declared``, by the ``session``'s engine."""

    table: OpenedTable
    declared: str
    options: UpkeepOptions
    session: EngineSession
    _done: dict[str, Any] = field(default_factory=dict)
    _skipped: dict[str, str] = field(default_factory=dict)

    def run(self) -> UpkeepReport | None:
        """Do all steps and return what was done; None if the table has no rows yet. Raises RVT-414."""
        iceberg_table = self.table.load_if_any()
        if iceberg_table is None or iceberg_table.current_snapshot() is None:
            return None
        began, size = time.monotonic(), _size(iceberg_table)
        self._done["leftovers"] = self._remove_leftovers()
        self._rewrite()
        if self.options.expire_snapshots is not None and self._may_delete(EXPIRE):
            self._step(EXPIRE, self._expire)
        if self.options.remove_orphan_files is not None and self._may_delete(ORPHANS):
            why = self._why_orphans_stay()
            self._step(ORPHANS, self._remove_orphans) if why is None else self._skip(ORPHANS, why)
        return UpkeepReport(
            self.declared,
            bytes_before=size,
            bytes_after=_size(self.table.load()),
            skipped=dict(self._skipped),
            seconds=round(time.monotonic() - began, 3),
            **self._done,
        )

    def _remove_leftovers(self) -> tuple[str, ...]:
        """Remove what dead runs have staged, as the next run of the table would."""
        return tuple(dict.fromkeys(sweep_dead(staged_by_runs(self.table))))

    def _rewrite(self) -> None:
        """Rewrite files and manifests, unless a run that would have to compute its rows again is staging some."""
        since = self.table.load().metadata.current_snapshot_id
        steps: dict[str, Callable[[], None]] = {}
        if self.options.rewrite_data_files is not None:
            steps[REWRITE] = self._rewrite_files
        if self.options.rewrite_manifests:
            steps[MANIFESTS] = self._rewrite_manifests
        for step, action in steps.items():
            writer = next(staged_by_runs(self.table), None)
            if writer is not None:
                self._skip(step, f"a run is writing to the table: {writer.name}")
            else:
                self._step(step, action)
        restore_facts(self.table, since)

    def _rewrite_files(self) -> None:
        assert self.options.rewrite_data_files is not None
        counts = rewrite_data_files(self.session, self.table.name, self.options.rewrite_data_files)
        if counts.get("failed_data_files_count"):
            raise RivetError("RVT-503", f"{counts['failed_data_files_count']} data files could not be rewritten")
        self._done["files_rewritten"] = counts.get("rewritten_data_files_count", 0)
        self._done["files_added"] = counts.get("added_data_files_count", 0)

    def _rewrite_manifests(self) -> None:
        counts = rewrite_manifests(self.session, self.table.name)
        self._done["manifests_rewritten"] = counts.get("rewritten_manifests_count", 0)
        self._done["manifests_added"] = counts.get("added_manifests_count", 0)

    def _expire(self) -> None:
        assert self.options.expire_snapshots is not None
        snapshots, files = expire(self.table, self.session, self.options.expire_snapshots, datetime.now(UTC))
        self._done["snapshots_expired"], self._done["files_deleted"] = snapshots, files

    def _remove_orphans(self) -> None:
        assert self.options.remove_orphan_files is not None
        before = datetime.now(UTC) - self.options.remove_orphan_files.older_than
        location = self.table.load().metadata.location
        self._done["orphans_deleted"] = remove_orphan_files(self.session, self.table.name, location, before)

    def _may_delete(self, step: str) -> bool:
        is_allowed = self.table.load().metadata.properties.get("gc.enabled", "true").lower() != "false"
        if not is_allowed:
            self._skip(step, _NO_GC)
        return is_allowed

    def _why_orphans_stay(self) -> str | None:
        """Return why no file may be taken for an orphan.

        Data files of staging tables lie beside those of the table, whose metadata does not know them; nor does it know
        the files of a statement that has not ended. Files on branches, withheld ones too, it does know.
        """
        of_all = replace(self.table, environment=EVERYTHING)
        staged = next(staged_by_runs(of_all), None)
        if staged is not None:
            return f"a run is writing to the table: {staged.name}"
        withheld = next((version for version in withheld_versions(of_all) if version.staged is not None), None)
        if withheld is not None:
            return f"the version {withheld.name} is withheld, and its files are among those of the table"
        if has_table_of_environment(self.table):
            return _OF_ENVIRONMENT
        return _NESTED if self.table.catalog.namespace_exists(self.table.name.identifier) else None

    def _step(self, step: str, action: Callable[[], None]) -> None:
        """Do one step. If it fails since another version was published meanwhile, it is skipped."""
        current = self.table.load().metadata.current_snapshot_id
        try:
            action()
        except RivetError as error:
            if step in (REWRITE, MANIFESTS) and self.table.load().metadata.current_snapshot_id != current:
                self._skip(step, f"another version was published meanwhile ({error.diagnostics[0].message})")
                return
            message = f"{step} of '{self.table.name}' failed: {error.diagnostics[0].message}"
            raise RivetError("RVT-414", message) from error

    def _skip(self, step: str, why: str) -> None:
        self._skipped[step] = why


def _size(table: Table) -> int:
    current = table.current_snapshot()
    return int(facts_of(current).get("total-files-size") or 0) if current is not None else 0


def restore_facts(table: OpenedTable, since: int | None = None) -> None:
    """Put a snapshot with the same files and the version's facts on one that only rewrote files, if it is current.

    Until then, and if this process dies before, readers of the facts find them through the snapshot's parents. Files
    that were rewritten after the snapshot ``since`` are known to be written by us.
    """

    def changes(iceberg_table: Table) -> Changes:
        current = iceberg_table.current_snapshot()
        if current is None or not only_rewrites(current):
            return Changes()
        first = with_facts(iceberg_table, current)
        facts = {key: value or "" for key, value in facts_of(first).items() if key.startswith("rivet.")}
        if not facts:
            return Changes()
        after, bounds = sequence_number_of(iceberg_table, since), recorded_bounds(iceberg_table, first.snapshot_id)
        if after >= sequence_number_of(iceberg_table, first.snapshot_id):
            bounds = together(bounds, written_bounds(iceberg_table, after))
        facts[TEXT_BOUNDS] = json.dumps(bounds, separators=(",", ":"))
        same = {ROWS_OF: str(version_of(iceberg_table, current)), PUBLISHED_AT: published_at(iceberg_table, current)}
        snapshot_id = new_snapshot_id()
        writer = SnapshotWriter(iceberg_table.io, iceberg_table.metadata, snapshot_id, current)
        added = writer.same_rows(facts | same)
        at_head = branch_is_at(MAIN, current.snapshot_id)
        return Changes((added, set_branch(MAIN, snapshot_id)), (at_head,), (writer,))

    commit(table.load, changes, str(table.name))
