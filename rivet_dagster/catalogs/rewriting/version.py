"""What a rewrite needs of the version that it fills, and of the one before it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.rewriting.intervals import Affected
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Base, StoredRows


@dataclass(frozen=True)
class Remaining:
    """How many rows the base holds, and those of them that may, but need not, have to go.

    ``relation`` is None where there are none such. ``bytes`` are those that the new version shares with the base.
    """

    rows: int
    relation: Relation | None
    bytes: int = 0


class RewritableVersion(ABC):
    """A version that rows are added to, by ``session``, until it is whole."""

    @property
    @abstractmethod
    def session(self) -> EngineSession:
        """The session that computes what is added."""

    @property
    @abstractmethod
    def base(self) -> Base | None:
        """The version that it builds upon. Raises RVT-405."""

    @abstractmethod
    def add(self, frame: Frame, context: WriteContext, split_by: str | None = None) -> None:
        """Compute ``frame`` once, and add its rows.

        Where files make up the version, none holds two values of ``split_by``, a column that is not stored. Of a frame
        without rows the columns are stored all the same.
        """

    @abstractmethod
    def added(self) -> StoredRows:
        """Return what has been added so far, which stays readable. Raises RVT-402, RVT-407."""

    @abstractmethod
    def share(self, affected: Affected) -> Remaining:
        """Make what is not ``affected`` of the base a part of the version, unread.

        Storage that knows no statistics shares nothing. Called once, after the first rows were added. Raises RVT-404.
        """

    @abstractmethod
    def audit(self) -> StoredRows:
        """Return all rows of the version, now that it is whole. Raises RVT-402, RVT-407."""

    @abstractmethod
    def scratch(self) -> AbstractContextManager[RewritableVersion]:
        """Return a version without a base that nobody publishes, gone when the block ends."""
