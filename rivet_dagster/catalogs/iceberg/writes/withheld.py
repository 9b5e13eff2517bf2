"""Versions with a mark, a property that holds their facts: withheld ones, and those that live runs have staged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import Definition, set_properties
from rivet_dagster.catalogs.iceberg.heartbeat import ObjectHeartbeat
from rivet_dagster.catalogs.iceberg.metadata.snapshot_rows import facts_of
from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS, PublicationFacts, publication_of
from rivet_dagster.catalogs.iceberg.metadata.types import schema_of, sql_columns
from rivet_dagster.catalogs.iceberg.names import staging_of
from rivet_dagster.catalogs.iceberg.nessie.run_branch import RunBranch, branches_of_runs
from rivet_dagster.catalogs.iceberg.opened import OpenedTable, Opener, tables_in
from rivet_dagster.catalogs.iceberg.writes import staged_table
from rivet_dagster.catalogs.iceberg.writes.staged_branch import head_of, withheld_mark
from rivet_dagster.catalogs.versions import marks
from rivet_dagster.catalogs.versions.facts import describe_published, describe_version
from rivet_dagster.catalogs.versions.marks import find_staged, find_staged_by
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.storage import STAGED, WITHHELD, Published, Statistics, Version

if TYPE_CHECKING:
    from pyiceberg.table import Table


_BRANCHES = withheld_mark("")

_UPON, _NOTHING = "rivet.staged-upon", "nothing"
"""In the mark of a version that a run has staged: the snapshot that was current when it was begun."""

_JUDGED, _JUDGED_ERRORS, _BEGUN = "rivet.judged", "rivet.judged-errors", "rivet.begun"
"""In a mark: the snapshots of rows and of errors that were judged, and what the table was when that was begun."""


@dataclass(frozen=True)
class Judged:
    """The snapshot whose rows were judged, None without rows, and that of the errors with them.

    ``begun`` is what the table was, besides its rows, when the version was begun; None where there was no table.
    """

    snapshot: int | None
    errors: int | None = None
    begun: Definition | None = None

    def facts(self) -> dict[str, str]:
        """Return it as a mark records it."""
        known = {_JUDGED: self.snapshot, _JUDGED_ERRORS: self.errors}
        begun = {_BEGUN: json.dumps(asdict(self.begun))} if self.begun is not None else {}
        return {**{key: str(value) for key, value in known.items() if value is not None}, **begun}


@dataclass(frozen=True)
class Withheld:
    """A withheld or staged version: its name, the key of its branch or staging table, and what is recorded about it.

    ``table`` is the table that it is a version of, on the branch of its run where runs have one; ``iceberg_table`` is
    the one that it is in, as its metadata were then: that table, or the staging table. ``staged`` is the staging table,
    None for a version on the branch ``key`` of the table, whose head is ``head``; ``errors`` is the name of its error
    table, None without one, ``judged`` what the mark says of both. ``is_staged`` says that the last step of a run will
    publish it ``upon`` a snapshot, None where there was no table.
    """

    name: str
    key: str
    publication: PublicationFacts
    table: OpenedTable
    iceberg_table: Table = field(repr=False, compare=False)
    staged: OpenedTable | None = None
    head: int | None = None
    errors: str | None = None
    is_staged: bool = False
    upon: int | None = None
    judged: Judged = Judged(None)

    @property
    def identity(self) -> str:
        """The run that has made it."""
        return self.publication.identity

    def describe(self) -> Version:
        """Return it as a list of versions tells it."""
        return describe_version(self.publication, self.name, STAGED if self.is_staged else WITHHELD)


def withhold(
    table: OpenedTable, key: str, version: str, publication: PublicationFacts | None, errors: str | None, judged: Judged
) -> None:
    """Mark the branch ``key`` of a table, or its staging table itself, as withheld under the name ``version``."""
    _mark(table, key, version, publication, errors, judged.facts())


def stage(
    table: OpenedTable,
    key: str,
    version: str,
    publication: PublicationFacts,
    errors: str | None,
    judged: Judged,
    upon: int | None,
) -> None:
    """Mark a branch or a staging table as one that the last step of a run publishes ``upon`` a snapshot."""
    more = {_UPON: _NOTHING if upon is None else str(upon)}
    _mark(table, key, version, publication, errors, judged.facts() | more)


def _mark(
    table: OpenedTable,
    key: str,
    version: str,
    publication: PublicationFacts | None,
    errors: str | None,
    more: dict[str, str],
) -> None:
    facts = publication.properties() if publication is not None else {}
    if errors is not None:
        facts[ERRORS] = errors
    mark = {withheld_mark(key): json.dumps({"version": version, **facts, **more})}
    commit(table.load, lambda found: Changes(set_properties(mark)), str(table.name))


def withheld_versions(table: OpenedTable) -> Iterator[Withheld]:
    """Yield the withheld versions of a table, whether on branches or in staging tables, unless they are published."""
    iceberg_table = table.load_if_any()
    return (
        v for v in list_marked(table) if not v.is_staged and not (iceberg_table and is_published(iceberg_table, v.name))
    )


def list_marked(table: OpenedTable, version: str | None = None) -> Iterator[Withheld]:
    """Yield the withheld versions of a table, and those that runs have staged, also on branches of their own.

    With ``version`` only the one of that name.
    """
    branches = (branch for branch in branches_of_runs(table.catalog, table, version) if not branch.is_begun)
    on_branches = chain.from_iterable(_marked_on(branch, table, version) for branch in branches)
    return (marked for marked in chain(on_branches, _marked_there(table)) if version in (None, marked.name))


def _marked_on(branch: RunBranch, table: OpenedTable, version: str | None) -> Sequence[Withheld]:
    """Return the version on the branch of a run; none if the branch has been removed meanwhile."""
    from rivet_dagster.catalogs.iceberg.nessie.run_catalog import opened_on

    if branch.record is None or version not in (None, branch.record.version):
        return ()
    try:
        return tuple(_marked_by(opened_on(branch, table), [branch.ref]))
    except (OSError, RivetError):
        if branch.exists():
            raise
        return ()


def _marked_there(table: OpenedTable) -> Iterator[Withheld]:
    keys = ((staging_of(name[-1]), name[-1]) for name in tables_in(table.catalog, table.name.namespace))
    yield from _marked_by(table, (key for key, name in keys if key and table.name.staged(key).name == name))


def _marked_by(table: OpenedTable, keys: Iterable[str]) -> Iterator[Withheld]:
    """Yield the versions with a mark on branches of a table, and those in its staging tables of these keys."""
    iceberg_table = table.load_if_any()
    if iceberg_table is not None:
        yield from _marked(table, iceberg_table, None)
    for key in keys:
        staged = table.staged(key)
        marked = staged.load_if_any() if table.sees(key) else None
        if marked is not None:
            yield from _marked(table, marked, staged)


def is_published(table: Table, version: str) -> bool:
    """Return whether a table has a version that was withheld beside it, whatever has become of the commit's answer."""
    return table.snapshot_by_id(int(version)) is not None


def withheld_as(table: Table, key: str) -> str | None:
    """Return the name of the version withheld on the branch ``key`` of ``table``, or in it; None if none is.

    One that is only staged is not withheld.
    """
    mark = json.loads(table.metadata.properties.get(withheld_mark(key), "null"))
    return mark["version"] if mark is not None and _UPON not in mark else None


def _marked(table: OpenedTable, iceberg_table: Table, staged: OpenedTable | None) -> Iterator[Withheld]:
    for name, value in iceberg_table.metadata.properties.items():
        if not name.startswith(_BRANCHES):
            continue
        facts = json.loads(value)
        version, publication = facts.pop("version"), publication_of(facts)
        if publication is None:
            continue
        key = name.removeprefix(_BRANCHES)
        if staged is None and key not in iceberg_table.metadata.refs:
            continue
        current = head_of(iceberg_table, key) if staged is None else iceberg_table.metadata.current_snapshot_id
        judged = _judged(facts, current)
        upon = facts.get(_UPON)
        begun_upon = int(upon) if upon not in (None, _NOTHING) else None
        errors, is_staged = facts.get(ERRORS), upon is not None
        head = judged.snapshot
        yield Withheld(
            version, key, publication, table, iceberg_table, staged, head, errors, is_staged, begun_upon, judged
        )


def _judged(facts: Mapping[str, str], current: int | None) -> Judged:
    """Return what a mark says of what was judged; one of an earlier release says nothing, and ``current`` was."""
    snapshot, errors, begun = facts.get(_JUDGED), facts.get(_JUDGED_ERRORS), facts.get(_BEGUN)
    return Judged(
        int(snapshot) if snapshot is not None else current,
        int(errors) if errors is not None else None,
        Definition(**json.loads(begun)) if begun is not None else None,
    )


def staged_by(table: OpenedTable, identity: str) -> Withheld | None:
    """Return the version that was staged under ``identity``; None if there is none."""
    return find_staged_by(list_marked(table), identity)


def staged_version(table: OpenedTable, version: str) -> Withheld | None:
    """Return the staged version of that name; None if there is none."""
    return find_staged(list_marked(table, version), version)


def require_staged(table: OpenedTable, version: str, key: str | None = None) -> Withheld:
    """Return the staged version of that name, with ``key`` the one that was staged under that. Raises RVT-418."""
    marked = list_marked(table, version) if key is None else _marked_by(table, [key])
    return marks.require_staged(marked, str(table.name), version)


def heartbeat_of(version: Withheld) -> ObjectHeartbeat:
    """Return the heartbeat of the run that has staged a version.

    The location of a table that does not exist yet is known only by its staging table.
    """
    iceberg_table = version.iceberg_table
    if version.staged is not None:
        return staged_table.heartbeat_of(iceberg_table)
    return ObjectHeartbeat(iceberg_table.io, iceberg_table.metadata.location, version.key)


def describe_staged(version: Withheld, catalog: str, declared: str) -> Published:
    """Return a staged version as it will be published; ``declared`` is the table's name as joints have it."""
    _, head = stored_in(version)
    iceberg_table = version.iceberg_table
    snapshot = iceberg_table.snapshot_by_id(head)
    size = int(facts_of(snapshot).get("total-files-size") or 0) if snapshot is not None else 0
    known = version.publication
    statistics = Statistics(known.rows, size, sql_columns(schema_of(iceberg_table, head)))
    return describe_published(known, catalog, declared, version.name, heartbeat_of(version).location, statistics)


def errors_relation(open: Opener, version: Withheld) -> CatalogTable | None:
    """Return the errors that were staged with a version; None if it has no error table."""
    if version.errors is None:
        return None
    errors = version.table.beside(replace(open(version.errors).name, ref=version.table.name.ref))
    iceberg_table = errors.load_if_any()
    ref = iceberg_table.metadata.refs.get(version.key) if iceberg_table is not None else None
    judged = version.judged.errors
    if ref is not None:
        return CatalogTable(errors.name.parts, snapshot=ref.snapshot_id if judged is None else judged)
    staged = errors.staged(version.key)
    current = staged.load().metadata.current_snapshot_id
    return CatalogTable(staged.name.parts, snapshot=current if judged is None else judged)


def stored_in(version: Withheld) -> tuple[OpenedTable, int]:
    """Return the table that holds the rows of a staged version, and the snapshot there."""
    assert version.head is not None, "it was judged before it was staged"
    return version.staged or version.table, version.head
