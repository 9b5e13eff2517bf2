"""The state that a transaction begins with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rivet_dagster.catalogs.iceberg.commits.definition import Definition
from rivet_dagster.catalogs.iceberg.metadata.layout import Layout
from rivet_dagster.catalogs.iceberg.metadata.summary import Publication
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.writes.errors import StagedErrors
from rivet_dagster.catalogs.iceberg.writes.staged_branch import StagedBranch
from rivet_dagster.catalogs.iceberg.writes.staged_table import StagingTable, VersionLocation
from rivet_dagster.model.storage import Base, Published, StoredRows


@dataclass(frozen=True)
class Beginning:
    """The state that a transaction begins with.

    ``declared`` is the table's name as the joint has it; ``upon`` is the current snapshot of the table, ``rows_before``
    the number of its rows, ``begun`` what the table was besides them. ``base`` and ``begun`` are None only if the table
    does not exist. ``described`` returns the published version of a snapshot. ``natively`` says that statements of
    Iceberg's own may write to a branch of the table; ``environment`` is the one in which it is published.
    """

    declared: str
    table: OpenedTable
    place: VersionLocation
    upon: int | None
    base: Base | None
    rows_before: int
    layout: Layout
    described: Callable[[int], Published]
    errors: StagedErrors
    begun: Definition | None
    natively: bool = True
    environment: str | None = None


@dataclass(frozen=True)
class ExistingVersion:
    """A version that exists already: on the branch or in the staging table ``staged``, or as the older ``snapshot``.

    ``key`` is that of a withheld version.
    """

    publication: Publication
    stored: Callable[[], StoredRows]
    staged: StagedBranch | StagingTable | None = None
    snapshot: int | None = None
    key: str | None = None
