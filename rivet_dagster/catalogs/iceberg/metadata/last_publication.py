"""The last publication before a snapshot: what is known of a table outlives the commits of other engines.

A snapshot of another engine has no facts of its own; those of the last publication among its parents hold. That one may
have expired, so each publication also sets a property of the table, in the same commit::

    rivet.last-publication   JSON: the id of the snapshot, and its properties

If snapshots of other engines after it have expired, too, older metadata files, which the table's metadata names, show
what their parents were. If none does, the table may have been rolled back before the last publication: then the facts
of that one are not taken for those of the snapshot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import ROWS_OF, facts_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS, IDENTITY, LANDED

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

LAST = "rivet.last-publication"
"""The table property with the facts of the last publication."""

CONTINUES = "rivet.continues"
"""The table property that a person sets: the id of an expired snapshot that came after the last publication."""

LONGEST = 30_000
"""The greatest number of characters of the property; the metastores of some catalogs take no more than 32 KB."""

Facts = Mapping[str, str | None]


@dataclass(frozen=True)
class LastPublication:
    """A publication: its version, its facts, and the ``later`` snapshots of other engines, up to the one asked for.

    If it could not be found, there are no facts, and ``lost`` is the expired snapshot whose parents are not known.
    """

    version: int
    facts: Facts
    later: tuple[int, ...] = ()
    lost: int | None = None


@dataclass(frozen=True)
class Remembered:
    """The facts of the last publication in the property of a table; ``is_cut`` if consumed files are left out."""

    snapshot: int
    facts: Facts = field(default_factory=dict)
    is_cut: bool = False

    @property
    def version(self) -> int:
        """The version whose rows it has."""
        return int(self.facts.get(ROWS_OF) or self.snapshot)


def last_publication(table: Table, snapshot: Snapshot) -> LastPublication | None:
    """Return the publication that ``snapshot`` is, or the last one before it; None if there was none."""
    if IDENTITY in facts_of(snapshot):
        return _of(snapshot, [])
    return _before(table, snapshot, {s.snapshot_id: s for s in table.metadata.snapshots}, [])


def read_last_publication(table: Table) -> Remembered | None:
    """Return the last publication by the property of the table; None without one."""
    known = table.metadata.properties.get(LAST)
    return None if known is None else Remembered(**json.loads(known))


def last_publication_property(snapshot: int, facts: Facts) -> dict[str, str]:
    """Return the property that remembers a publication.

    >>> last_publication_property(7, {"rivet.identity": "1f/orders", "total-records": "3"})
    {'rivet.last-publication': '{"snapshot":7,"facts":{"rivet.identity":"1f/orders"}}'}
    """
    properties = {key: value for key, value in facts.items() if key.startswith("rivet.")}
    text = _text({"snapshot": snapshot, "facts": properties})
    if len(text) > LONGEST:
        properties.pop(LANDED, None)
        text = _text({"snapshot": snapshot, "facts": properties, "is_cut": True})
    return {LAST: text}


def error_tables(table: Table) -> list[str]:
    """Return the names of the error tables that the versions of a table have had, as far as they are known."""
    last = read_last_publication(table)
    known = [facts_of(snapshot) for snapshot in table.metadata.snapshots] + [last.facts if last is not None else {}]
    return sorted({name for facts in known if (name := facts.get(ERRORS))})


def _before(
    table: Table, snapshot: Snapshot, snapshots: Mapping[int, Snapshot], later: list[int]
) -> LastPublication | None:
    while IDENTITY not in facts_of(snapshot):
        later.append(snapshot.snapshot_id)
        parent = _parent(table, snapshot)
        if parent is None:
            return None
        if parent not in snapshots:
            return _beyond(table, parent, later)
        snapshot = snapshots[parent]
    return _of(snapshot, later)


def _of(snapshot: Snapshot, later: list[int]) -> LastPublication:
    facts = facts_of(snapshot)
    return LastPublication(int(facts.get(ROWS_OF) or snapshot.snapshot_id), facts, tuple(later))


def _beyond(table: Table, expired: int, later: list[int]) -> LastPublication | None:
    """Return the publication that an expired snapshot was, or that came before it."""
    last = read_last_publication(table)
    if last is None:
        return None
    follows = str(expired) in (str(last.snapshot), table.metadata.properties.get(CONTINUES))
    if follows and not last.is_cut:
        return LastPublication(last.version, last.facts, tuple(later))
    known = _earlier_snapshots(table, expired)
    if known:
        return _before(table, known[expired], known, later)
    if follows or last.is_cut or {LANDED, ERRORS} & last.facts.keys():
        return LastPublication(last.version, {}, tuple(later), lost=expired)
    return None


def _parent(table: Table, snapshot: Snapshot) -> int | None:
    """Return the id of the parent of a snapshot, which the table's metadata may have lost when that expired."""
    from pyiceberg.avro.file import AvroFile

    if snapshot.parent_snapshot_id is not None or read_last_publication(table) is None:
        return snapshot.parent_snapshot_id
    with AvroFile[Any](table.io.new_input(snapshot.manifest_list)) as file:
        parent = file.header.meta.get("parent-snapshot-id", "null")
    return None if parent == "null" else int(parent)


def _earlier_snapshots(table: Table, expired: int) -> dict[int, Snapshot]:
    """Return the snapshots of the newest metadata file that has an expired one; none if no file has."""
    from pyiceberg.serializers import FromInputFile

    for entry in reversed(table.metadata.metadata_log):
        try:
            metadata = FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except FileNotFoundError:
            return {}  # this one and those before it have been removed
        by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        if expired in by_id:
            return by_id
    return {}


def _text(value: Mapping[str, object]) -> str:
    return json.dumps(value, separators=(",", ":"))
