"""Versions with a mark, a property with their facts: withheld ones, which no sweep removes, and those of live runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import set_properties
from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS, Publication, publication_of
from rivet_dagster.catalogs.iceberg.names import staging_of
from rivet_dagster.catalogs.iceberg.nessie.run_branch import RunBranch, branches_of_runs
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.writes.staged_branch import head_of, withheld_mark
from rivet_dagster.errors import RivetError

if TYPE_CHECKING:
    from pyiceberg.table import Table

_BRANCHES = withheld_mark("")

_UPON, _NOTHING = "rivet.staged-upon", "nothing"
"""In the mark of a version that a run has staged: the snapshot that was current when it was begun."""


@dataclass(frozen=True)
class Withheld:
    """A withheld or staged version: its name, the key of its branch or staging table, and what is recorded about it.

    ``table`` is the table that it is a version of, on the branch of its run where runs have one. ``staged`` is the
    staging table, None for a version on the branch ``key`` of the table, whose head is ``head``; ``errors`` is the name
    of its error table, None without one. ``is_staged`` says that the last step of a run will publish it ``upon``
    a snapshot, None where there was no table.
    """

    name: str
    key: str
    publication: Publication
    table: OpenedTable
    staged: OpenedTable | None = None
    head: int | None = None
    errors: str | None = None
    is_staged: bool = False
    upon: int | None = None


def withhold(
    table: OpenedTable, key: str, version: str, publication: Publication | None, errors: str | None = None
) -> None:
    """Mark the branch ``key`` of a table, or its staging table itself, as withheld under the name ``version``."""
    _mark(table, key, version, publication, errors, {})


def stage(
    table: OpenedTable, key: str, version: str, publication: Publication, errors: str | None, upon: int | None
) -> None:
    """Mark a branch or a staging table as one that the last step of a run publishes ``upon`` a snapshot."""
    _mark(table, key, version, publication, errors, {_UPON: _NOTHING if upon is None else str(upon)})


def _mark(
    table: OpenedTable,
    key: str,
    version: str,
    publication: Publication | None,
    errors: str | None,
    more: dict[str, str],
) -> None:
    facts = publication.properties() if publication is not None else {}
    if errors is not None:
        facts[ERRORS] = errors
    mark = {withheld_mark(key): json.dumps({"version": version, **facts, **more})}
    commit(table.load, lambda found: Changes(set_properties(mark)), str(table.name))


def withheld_versions(table: OpenedTable) -> Iterator[Withheld]:
    """Yield the withheld versions of a table, whether on branches or in staging tables."""
    return (version for version in marked_versions(table) if not version.is_staged)


def marked_versions(table: OpenedTable, version: str | None = None) -> Iterator[Withheld]:
    """Yield the withheld versions of a table, and those that runs have staged, also on branches of their own.

    With ``version`` only the one of that name.
    """
    on_branches = chain.from_iterable(_marked_on(branch, table, version) for branch in _branches(table))
    return (marked for marked in chain(_marked_there(table), on_branches) if version in (None, marked.name))


def _branches(table: OpenedTable) -> Iterator[RunBranch]:
    return (branch for branch in branches_of_runs(table.catalog, table) if not branch.is_begun)


def _marked_on(branch: RunBranch, table: OpenedTable, version: str | None) -> Sequence[Withheld]:
    """Return the version on the branch of a run; none if the branch has been removed meanwhile."""
    from rivet_dagster.catalogs.iceberg.nessie.run_catalog import opened_on

    if branch.record is None or version not in (None, branch.record.version):
        return ()
    try:
        return tuple(_marked_there(opened_on(branch, table)))
    except (OSError, RivetError):
        if branch.exists():
            raise
        return ()


def _marked_there(table: OpenedTable) -> Iterator[Withheld]:
    found = table.load_if_any()
    if found is not None:
        yield from _marked(table, found, None)
    if not table.catalog.namespace_exists(table.name.namespace):
        return
    for name in sorted(table.catalog.list_tables(table.name.namespace)):
        key = staging_of(name[-1])
        if key is not None and table.sees(key) and name[-1] == table.name.staged(key).name:
            staged = table.staged(key)
            marked = staged.load_if_any()
            if marked is not None:
                yield from _marked(table, marked, staged)


def is_withheld(table: Table, key: str) -> bool:
    """Return whether the branch ``key`` of ``table``, or the staging table itself, is withheld, and not only staged."""
    mark = table.metadata.properties.get(withheld_mark(key))
    return mark is not None and _UPON not in json.loads(mark)


def _marked(table: OpenedTable, found: Table, staged: OpenedTable | None) -> Iterator[Withheld]:
    for name, value in found.metadata.properties.items():
        if not name.startswith(_BRANCHES):
            continue
        facts = json.loads(value)
        version, publication = facts.pop("version"), publication_of(facts)
        if publication is None:
            continue
        key = name.removeprefix(_BRANCHES)
        if staged is None and key not in found.metadata.refs:
            continue
        head = head_of(found, key) if staged is None else found.metadata.current_snapshot_id
        upon = facts.get(_UPON)
        begun_upon = int(upon) if upon not in (None, _NOTHING) else None
        yield Withheld(version, key, publication, table, staged, head, facts.get(ERRORS), upon is not None, begun_upon)
