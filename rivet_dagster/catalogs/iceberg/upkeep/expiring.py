"""Expiry of snapshots, which remembers who published those that go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import remove_properties, set_properties
from rivet_dagster.catalogs.iceberg.metadata.history import EXPIRED
from rivet_dagster.catalogs.iceberg.metadata.same_rows import facts_of, only_rewrites, snapshot_of, version_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ENVIRONMENT, LANDED, TEXT_BOUNDS, publication_of
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import ExpireSnapshots
from rivet_dagster.catalogs.iceberg.upkeep.procedures import expire_snapshots
from rivet_dagster.engines.contract import EngineSession

if TYPE_CHECKING:
    from pyiceberg.table import Table

REMEMBERED = timedelta(days=30)
"""For how long it is remembered who published a version that has expired."""

_EXPIRED_AT = "rivet.expired-at"
_LEFT_OUT = (LANDED, TEXT_BOUNDS)


def expire(table: OpenedTable, session: EngineSession, options: ExpireSnapshots, now: datetime) -> tuple[int, int]:
    """Expire old snapshots and return the numbers of snapshots and files that are gone."""
    before = now - options.older_than
    found = table.load()
    retained = retained_snapshots(found, options.retain_last)
    going = _going(found, retained, before)
    if not going:
        _remember(table, {}, now)
        return 0, 0
    _remember(table, _publications(found, going), now)
    # Iceberg counts snapshots, of which a version may have several.
    counts = expire_snapshots(session, table.name, before, len(retained))
    _remember(table, {}, now)
    gone = {snapshot.snapshot_id for snapshot in found.snapshots()} - {s.snapshot_id for s in table.load().snapshots()}
    return len(gone), sum(counts.values())


def retained_snapshots(table: Table, versions: int) -> list[int]:
    """Return the snapshots that lead from the current one back to the newest of the last ``versions`` versions."""
    retained: list[int] = []
    published = {entry.snapshot_id for entry in table.metadata.snapshot_log}
    known: set[int] = set()
    snapshot = table.current_snapshot()
    waiting: list[int] = []
    while snapshot is not None:
        version = version_of(table, snapshot)
        waiting.append(snapshot.snapshot_id)
        # Others on the way have never been current: a run's statements made them on its branch.
        if version not in known and snapshot.snapshot_id in published:
            known.add(version)
            retained += waiting
            waiting.clear()
            if len(known) == versions:
                break
        parent = snapshot.parent_snapshot_id
        snapshot = table.snapshot_by_id(parent) if parent is not None else None
    return retained


def _going(table: Table, retained: list[int], before: datetime) -> list[int]:
    """Return the snapshots that may expire; fewer do, if branches have them."""
    kept = {*retained, *(ref.snapshot_id for ref in table.metadata.refs.values())}
    limit = before.timestamp() * 1000
    return [s.snapshot_id for s in table.snapshots() if s.timestamp_ms < limit and s.snapshot_id not in kept]


def _publications(table: Table, snapshots: list[int]) -> dict[str, dict[str, Any]]:
    """Return the facts of the publications among these snapshots, by version; what concerns files is left out."""
    found: dict[str, dict[str, Any]] = {}
    for snapshot_id in snapshots:
        snapshot = table.snapshot_by_id(snapshot_id)
        if snapshot is None or only_rewrites(snapshot):
            continue
        all_facts = facts_of(snapshot).items()
        facts = {key: value for key, value in all_facts if key.startswith("rivet.") and key not in _LEFT_OUT}
        if publication_of(facts) is not None and ENVIRONMENT not in facts:
            found[str(version_of(table, snapshot))] = facts
    return found


def _remember(table: OpenedTable, more: Mapping[str, Mapping[str, Any]], now: datetime) -> None:
    """Add ``more`` to what is remembered, and forget what is too old, or still there."""

    def changes(found: Table) -> Changes:
        known = found.metadata.properties.get(EXPIRED, "{}")
        moment = now.astimezone(UTC).isoformat(timespec="seconds")
        least = (now - REMEMBERED).astimezone(UTC).isoformat(timespec="seconds")
        added = {version: {**facts, _EXPIRED_AT: moment} for version, facts in more.items()}
        kept = {
            version: facts
            for version, facts in json.loads(known).items()
            if facts.get(_EXPIRED_AT, moment) >= least and snapshot_of(found, int(version)) is None
        }
        text = json.dumps({**kept, **added}, separators=(",", ":"), sort_keys=True)
        if text == known:
            return Changes()
        return Changes(set_properties({EXPIRED: text}) if text != "{}" else remove_properties([EXPIRED]))

    commit(table.load, changes, str(table.name))
