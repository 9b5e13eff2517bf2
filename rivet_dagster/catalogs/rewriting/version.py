"""The versions of a rewrite: the interface of the one that it fills, and the columns that the table has after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Base, Statistics, StoredRows
from rivet_dagster.model.write_plan import ReplaceAll, WritePlan
from rivet_dagster.sql.write_strategies.alignment import SchemaChange, align_columns, plain_columns, projection
from rivet_dagster.sql.write_strategies.trees import Columns


@dataclass(frozen=True)
class Remaining:
    """The rows of the base that are not shared, since the write may change some of them.

    ``rows`` counts all rows of the base; ``relation`` reads those that are not shared, None if there are none.
    ``bytes`` is the size of what the new version shares with the base. ``statistics`` are those of the rows that are
    not shared, None where they are not known.
    """

    rows: int
    relation: Relation | None
    bytes: int = 0
    statistics: Statistics | None = None


class RewritableVersion(ABC):
    """A version to which ``session`` adds rows until it is complete."""

    @property
    @abstractmethod
    def session(self) -> EngineSession:
        """The session that computes the rows to be added."""

    @property
    @abstractmethod
    def base(self) -> Base | None:
        """The version that it builds upon; None without one. Raises RVT-405."""

    @abstractmethod
    def add(self, frame: Frame, context: WriteContext, split_by: str | None = None) -> None:
        """Compute ``frame`` once, and add its rows.

        If the version consists of files, no file holds two values of the column ``split_by``, which is not stored. A
        frame without rows still has its columns stored.
        """

    @abstractmethod
    def added(self) -> StoredRows:
        """Return the rows that have been added so far; they stay readable. Raises RVT-402, RVT-407."""

    def narrow_base(self, affected: Affected) -> Base:
        """Return the base, which exists, without data that is certainly not ``affected``.

        Storage without statistics returns ``base`` itself, as does any where all data may be affected. Raises RVT-405.
        """
        base = self.base
        assert base is not None
        return base

    @abstractmethod
    def share(self, affected: Affected) -> Remaining:
        """Make the data of the base that is not ``affected`` part of this version, without reading it.

        Storage without statistics shares nothing. Called once, after the first rows have been added. Raises RVT-404.
        """

    @abstractmethod
    def audit(self) -> StoredRows:
        """Return all rows of the complete version. Raises RVT-402, RVT-407."""

    @abstractmethod
    def scratch(self) -> AbstractContextManager[RewritableVersion]:
        """Return a version without a base that is never published, and is removed when the block ends."""


_BATCH = "rivet_batch"


def fit_columns(plan: WritePlan, session: EngineSession, frame: Frame, base: Base | None) -> Frame:
    """Return ``frame`` with the columns that the table has after the write. Raises RVT-514."""
    if base is None and isinstance(plan, ReplaceAll):
        return frame
    columns = session.columns(frame)
    wanted = table_columns(plan, base.columns, columns) if base is not None else plain_columns(columns)
    return cast_columns(session, frame, wanted, _BATCH)


def cast_columns(session: EngineSession, frame: Frame, columns: Columns, name: str) -> Frame:
    """Return ``frame`` with ``columns``, cast by name: itself if it has them, else a query of it as the view ``name``.

    A query costs the engine about 20 ms before anything is read.
    """
    existing = session.columns(frame)
    if tuple(existing) == tuple(columns):
        return frame
    session.register(name, frame)
    return session.query(projection(columns, existing, name))


def table_columns(plan: WritePlan, base: Columns, batch: Columns) -> Columns:
    """Return the columns that the table has after a batch has been written to it. Raises RVT-514."""
    try:
        return align_columns(base, batch, plan.schema_change)
    except SchemaChange as change:
        raise RivetError("RVT-514", f"the batch does not fit the table: {change}") from None
