"""Expiry of snapshots, which remembers who published those that go."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.capabilities.upkeep import REMEMBERED
from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import remove_properties, set_properties
from rivet_dagster.catalogs.iceberg.metadata.history import EXPIRED
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import facts_of, only_rewrites, snapshot_of, version_of
from rivet_dagster.catalogs.iceberg.metadata.summary import (
    CODE_VERSIONS,
    DATA_SNAPSHOT,
    ENVIRONMENT,
    ERRORS,
    INPUTS,
    LANDED,
    RUN,
    TEXT_BOUNDS,
    publication_of,
)
from rivet_dagster.catalogs.iceberg.names import TableName
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.settings.upkeep_options import EXPIRE, MANIFESTS, ORPHANS, REWRITE, ExpireSnapshots
from rivet_dagster.engines.contract import EngineSession

if TYPE_CHECKING:
    from pyiceberg.table import Table


_EXPIRED_AT = "rivet.expired-at"
_LEFT_OUT = (LANDED, TEXT_BOUNDS)
_OF_NEWEST = (INPUTS, CODE_VERSIONS, RUN, DATA_SNAPSHOT, ERRORS)
"""Facts of the newest versions alone: a late retry needs the version, not what that was made from."""

LONGEST = 400_000
"""Characters of what is remembered: AWS Glue refuses a table property of more than 512,000 bytes."""


def expire(table: OpenedTable, session: EngineSession, options: ExpireSnapshots, now: datetime) -> tuple[int, int]:
    """Expire old snapshots and return the numbers of snapshots and files that are gone."""
    before = now - options.older_than
    iceberg_table = table.load()
    retained = retained_snapshots(iceberg_table, options.retain_last)
    going = _going(iceberg_table, retained, before)
    if not going:
        _remember(table, {}, now)
        return 0, 0
    _remember(table, _publications(iceberg_table, going), now)
    # Iceberg counts snapshots, of which a version may have several.
    counts = expire_snapshots(session, table.name, before, len(retained))
    _remember(table, {}, now)
    gone = {snapshot.snapshot_id for snapshot in iceberg_table.snapshots()} - {
        s.snapshot_id for s in table.load().snapshots()
    }
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
    referenced = {*retained, *(ref.snapshot_id for ref in table.metadata.refs.values())}
    limit = before.timestamp() * 1000
    return [s.snapshot_id for s in table.snapshots() if s.timestamp_ms < limit and s.snapshot_id not in referenced]


def _publications(table: Table, snapshots: list[int]) -> dict[str, dict[str, Any]]:
    """Return the facts of the publications among these snapshots, by version, the oldest first."""
    publications: dict[str, dict[str, Any]] = {}
    for snapshot_id in snapshots:
        snapshot = table.snapshot_by_id(snapshot_id)
        if snapshot is None or only_rewrites(snapshot):
            continue
        all_facts = facts_of(snapshot).items()
        facts = {key: value for key, value in all_facts if key.startswith("rivet.") and key not in _LEFT_OUT}
        if publication_of(facts) is not None and ENVIRONMENT not in facts:
            publications[str(version_of(table, snapshot))] = facts
    return publications


def _remember(table: OpenedTable, more: Mapping[str, Mapping[str, Any]], now: datetime) -> None:
    """Add ``more`` to what is remembered, and forget what is too old, or still there."""

    def changes(iceberg_table: Table) -> Changes:
        known = iceberg_table.metadata.properties.get(EXPIRED, "{}")
        moment = now.astimezone(UTC).isoformat(timespec="seconds")
        least = (now - REMEMBERED).astimezone(UTC).isoformat(timespec="seconds")
        added = {version: {**facts, _EXPIRED_AT: moment} for version, facts in more.items()}
        remembered = {
            version: facts
            for version, facts in json.loads(known).items()
            if facts.get(_EXPIRED_AT, moment) >= least and snapshot_of(iceberg_table, int(version)) is None
        }
        by_age = sorted(remembered.items(), key=lambda entry: entry[1].get(_EXPIRED_AT, moment))
        text = _text(_newest({**dict(by_age), **added}))
        if text == known:
            return Changes()
        return Changes(set_properties({EXPIRED: text}) if text != "{}" else remove_properties([EXPIRED]))

    commit(table.load, changes, str(table.name))


def _newest(entries: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the last of the ``entries``, which are ordered by age, as far as their text is not too long.

    Half of the room is for entries that are complete, the other half for older ones in short.
    """
    newest: dict[str, Mapping[str, Any]] = {}
    room = LONGEST
    for version, facts in reversed(list(entries.items())):
        entry = facts if room > LONGEST / 2 else {key: facts[key] for key in facts if key not in _OF_NEWEST}
        room -= len(_text({version: entry}))
        if room < 0:
            break
        newest[version] = entry
    return newest


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def expire_snapshots(session: EngineSession, table: TableName, before: datetime, retain_last: int) -> dict[str, int]:
    """Remove the snapshots before a time but the last ones of each branch, and return the numbers of deleted files."""
    rows = _called(session, EXPIRE, table, older_than=before, retain_last=retain_last)
    return {key: int(value or 0) for row in rows for key, value in row.items()}


def rewrite_data_files(session: EngineSession, table: TableName, options: Mapping[str, str]) -> dict[str, int]:
    """Rewrite the data files of the current rows, and return Iceberg's numbers."""
    return _counts(_called(session, REWRITE, table, options=options))


def rewrite_manifests(session: EngineSession, table: TableName) -> dict[str, int]:
    """Rewrite the manifests of the current rows, and return Iceberg's numbers."""
    return _counts(_called(session, MANIFESTS, table))


def remove_orphan_files(session: EngineSession, table: TableName, location: str, before: datetime) -> int:
    """Remove the files below the table's location that it does not know and that are older, and return their number."""
    # Hadoop, by which Iceberg lists files otherwise, knows no s3://.
    more = {"prefix_listing": True} if location.startswith("s3://") else {}
    return len(_called(session, ORPHANS, table, older_than=before, **more))


def call(procedure: str, table: TableName, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the statement that calls a procedure of the table's catalog, and its parameters.

    >>> call("expire_snapshots", TableName("lake", ("shop",), "orders"), {"retain_last": 2})
    ('CALL `lake`.system.expire_snapshots(table => :table, retain_last => :retain_last)',
     {'table': '`shop`.`orders`', 'retain_last': 2})
    >>> call("rewrite_data_files", TableName("lake", ("shop",), "orders"), {"options": {"rewrite-all": "true"}})[0]
    'CALL `lake`.system.rewrite_data_files(table => :table, options => map(:key0, :value0))'
    """
    parameters: dict[str, Any] = {"table": ".".join(f"`{part}`" for part in table.identifier)}
    texts = ["table => :table"]
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            pairs = list(value.items())
            parameters |= {f"key{number}": key for number, (key, _) in enumerate(pairs)}
            parameters |= {f"value{number}": text for number, (_, text) in enumerate(pairs)}
            entries = ", ".join(f":key{number}, :value{number}" for number in range(len(pairs)))
            texts += [f"{name} => map({entries})"] if pairs else []
        else:
            parameters[name] = value
            texts.append(f"{name} => :{name}")
    return f"CALL `{table.catalog}`.system.{procedure}({', '.join(texts)})", parameters


def _called(session: EngineSession, procedure: str, table: TableName, **arguments: Any) -> list[dict[str, Any]]:
    return session.rows(*call(procedure, table, arguments))


def _counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {key: int(value) for key, value in (rows[0] if rows else {}).items()}
