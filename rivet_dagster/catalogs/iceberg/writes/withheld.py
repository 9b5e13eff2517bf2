"""Withheld versions: branches and staging tables that no sweep removes, marked by a property with their facts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rivet_dagster.catalogs.iceberg.commits.committing import Changes, commit
from rivet_dagster.catalogs.iceberg.commits.updates import set_properties
from rivet_dagster.catalogs.iceberg.metadata.summary import ERRORS, Publication, publication_of
from rivet_dagster.catalogs.iceberg.names import staging_of
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.writes.staged_branch import head_of, withheld_mark

if TYPE_CHECKING:
    from pyiceberg.table import Table

_BRANCHES = withheld_mark("")


@dataclass(frozen=True)
class Withheld:
    """A withheld version: its name, the key of its branch or staging table, and what is recorded about it.

    ``staged`` is the staging table, None for a version on the branch ``key``, whose head is ``head``; ``errors`` is the
    name of its error table, None without one.
    """

    name: str
    key: str
    publication: Publication
    staged: OpenedTable | None = None
    head: int | None = None
    errors: str | None = None


def withhold(
    table: OpenedTable, key: str, version: str, publication: Publication | None, errors: str | None = None
) -> None:
    """Mark the branch ``key`` of a table, or its staging table itself, as withheld under the name ``version``."""
    facts = publication.properties() if publication is not None else {}
    if errors is not None:
        facts[ERRORS] = errors
    mark = {withheld_mark(key): json.dumps({"version": version, **facts})}
    commit(table.load, lambda found: Changes(set_properties(mark)), str(table.name))


def withheld_versions(table: OpenedTable) -> Iterator[Withheld]:
    """Yield the withheld versions of a table, whether on branches or in staging tables."""
    found = table.load_if_any()
    if found is not None:
        yield from _marked(found, None)
    if not table.catalog.namespace_exists(table.name.namespace):
        return
    for name in sorted(table.catalog.list_tables(table.name.namespace)):
        key = staging_of(name[-1])
        if key is not None and name[-1] == table.name.staged(key).name:
            staged = table.staged(key)
            marked = staged.load_if_any()
            if marked is not None:
                yield from _marked(marked, staged)


def is_withheld(table: Table, key: str) -> bool:
    """Return whether the branch ``key`` of ``table``, or the staging table itself, is withheld."""
    return withheld_mark(key) in table.metadata.properties


def _marked(found: Table, staged: OpenedTable | None) -> Iterator[Withheld]:
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
        yield Withheld(version, key, publication, staged, head, facts.get(ERRORS))
