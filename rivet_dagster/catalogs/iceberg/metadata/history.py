"""The published snapshots of a table, and what is recorded about them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.metadata.last_publication import last_publication, read_last_publication
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import (
    PUBLISHED_AT,
    current_version,
    facts_of,
    version_of,
    with_facts,
)
from rivet_dagster.catalogs.iceberg.metadata.statistics import statistics_of
from rivet_dagster.catalogs.iceberg.metadata.summary import (
    ADOPTED_SNAPSHOT,
    ENVIRONMENT,
    PublicationFacts,
    foreign_publication,
    names_publisher,
    publication_of,
)
from rivet_dagster.catalogs.iceberg.metadata.types import schema_of, sql_columns
from rivet_dagster.catalogs.versions.facts import ADOPTED, describe_published, describe_version, is_by
from rivet_dagster.model.storage import CURRENT, OLDER, Published, Statistics, Version

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

EXPIRED = "rivet.expired"
"""The table property with the publications whose snapshots have expired: JSON, the snapshot's properties by version."""


def published_snapshots(table: Table) -> list[Snapshot]:
    """Return the snapshots that have been current and still exist, the newest first."""
    ids = dict.fromkeys(entry.snapshot_id for entry in reversed(table.metadata.snapshot_log))
    existing = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    return [existing[snapshot_id] for snapshot_id in ids if snapshot_id in existing]


def published_version(table: Table, snapshot: Snapshot, catalog: str, declared: str) -> Published:
    """Return the version that a snapshot is; ``declared`` is the table's name as joints have it."""
    publication = publication_for(table, snapshot)
    schema = schema_of(table, snapshot.snapshot_id)
    size = int(facts_of(snapshot).get("total-files-size") or 0)
    statistics = Statistics(publication.rows, size, sql_columns(schema))
    version, uri = str(version_of(table, snapshot)), table.metadata.location
    published = describe_published(publication, catalog, declared, version, uri, statistics)
    return replace(published, unknown_before=publication.unknown_before)


def publication_for(table: Table, snapshot: Snapshot) -> PublicationFacts:
    """Return what is recorded about a snapshot.

    Of one by another engine, its summary tells how its rows came about; what they were made from, and by which code,
    is what the last publication before it recorded.
    """
    snapshot = with_facts(table, snapshot)
    last = last_publication(table, snapshot)
    publication = publication_of(last.facts) if last is not None else None
    if last is not None and publication is not None and last.version == version_of(table, snapshot):
        return publication
    parent = table.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id is not None else None
    before = _rows(table, parent) if parent is not None else publication.rows if publication is not None else 0
    other = foreign_publication(facts_of(snapshot), _rows(table, snapshot), before)
    if table.metadata.properties.get(ADOPTED_SNAPSHOT) == str(snapshot.snapshot_id):
        other = replace(other, identity=ADOPTED)
    if last is not None and last.lost is not None:
        return replace(other, unknown_before=str(last.lost))
    return (
        other
        if publication is None
        else replace(other, inputs=publication.inputs, code_versions=publication.code_versions)
    )


def published_by(table: Table, identity: str) -> Snapshot | None:
    """Return the snapshot that ``identity`` published or made; None if there is none, or it has expired.

    What was published on the branch of an environment is left out.
    """
    # Not by the log of current snapshots, which the expiry of one may cut.
    for snapshot in reversed(table.metadata.snapshots):
        facts = facts_of(with_facts(table, snapshot))
        if names_publisher(facts, identity) and ENVIRONMENT not in facts:
            return snapshot
    return None


def expired_publications(table: Table) -> Iterator[tuple[int, PublicationFacts]]:
    """Yield the publications that are remembered although their snapshots have expired, by version."""
    known = {int(version): facts for version, facts in json.loads(table.metadata.properties.get(EXPIRED, "{}")).items()}
    current = table.current_snapshot()
    for last in (read_last_publication(table), last_publication(table, current) if current is not None else None):
        known |= {last.version: dict(last.facts)} if last is not None and last.facts else {}
    for version, facts in known.items():
        publication = publication_of(facts)
        if publication is not None:
            yield version, publication


def expired_version(table: Table, identity: str, current: Published) -> Published | None:
    """Return the version that ``identity`` published or made, as far as it is remembered; None if it is not."""
    for version, known in expired_publications(table):
        if is_by(known, identity):
            statistics = Statistics(known.rows, known.record.bytes or 0, current.statistics.columns)
            published = describe_published(known, current.catalog, current.table, str(version), current.uri, statistics)
            return replace(published, environment=current.environment, unknown_before=current.unknown_before)
    return None


def published_versions(table: Table) -> tuple[Version, ...]:
    """Return the published versions that still exist, the newest first."""
    current, times = current_version(table), _times(table)
    versions: dict[int, Version] = {}
    for snapshot in published_snapshots(table):
        version, publication = version_of(table, snapshot), publication_for(table, snapshot)
        if version not in versions:
            state = CURRENT if version == current else OLDER
            at = _published_at(with_facts(table, snapshot), times)
            versions[version] = describe_version(publication, str(version), state, at)
    return tuple(sorted(versions.values(), key=lambda version: version.state != CURRENT))


def published_at(table: Table, snapshot: Snapshot) -> str:
    """Return when the version of a snapshot was published, in ISO 8601."""
    return _published_at(with_facts(table, snapshot), _times(table))


def _times(table: Table) -> dict[int, int]:
    return {entry.snapshot_id: entry.timestamp_ms for entry in table.metadata.snapshot_log}


def _published_at(first: Snapshot, times: Mapping[int, int]) -> str:
    moment = datetime.fromtimestamp(times.get(first.snapshot_id, first.timestamp_ms) / 1000, UTC)
    return facts_of(first).get(PUBLISHED_AT) or moment.isoformat(timespec="milliseconds")


def _rows(table: Table, snapshot: Snapshot) -> int:
    facts = facts_of(snapshot)
    publication = publication_of(facts)
    if publication is not None:
        return publication.rows
    if "total-records" in facts and not int(facts.get("total-delete-files") or 0):
        return int(facts["total-records"] or 0)
    return statistics_of(table, snapshot.snapshot_id, schema_of(table, snapshot.snapshot_id)).rows
