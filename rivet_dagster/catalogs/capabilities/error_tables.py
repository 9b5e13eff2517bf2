"""Tables of row errors that are published with the rows of another table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from rivet_dagster.catalogs.capabilities.targets import NO_OPTIONS, HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Published, StoredRows


class ErrorTransaction(TableTransaction):
    """A transaction that can publish a table of errors with the version, in the same atomic step."""

    @abstractmethod
    def write_errors(self, table: str, frame: Frame | None) -> StoredRows:
        """Add the rows of ``frame`` to the error table of the version, readable as ``table``; None adds no row.

        To be called after ``write``, or not at all for a version without an error table. Several calls, of one name,
        make one table. ``frame`` is one of the session that the transaction was begun with and has ERROR_COLUMNS; None
        needs no engine. Return the rows of all calls so far, readable until the transaction ends. Raises RVT-404 if
        something else is at the path of ``table``, be it here or in ``commit``.
        """

    def share_errors(self, table: str) -> StoredRows | None:
        """Make all errors of the version that this one builds upon a part of its error table, without writing them.

        To be called before ``write_errors``. Return them as this does; None if there are none, or if they have to be
        written again, and nothing has been done. By default they always have to be.
        """
        return None


class HasErrorTables(HasTargets):
    """publishes a table of row errors with each version of a table.

    Readers open it like any other table, by its own name: they see the errors of the version that is published, and no
    table if that has none. A version keeps its errors: when it is published again, so are they.
    """

    @abstractmethod
    def begin(
        self, table: str, session: EngineSession | None = None, options: Mapping[str, Any] = NO_OPTIONS
    ) -> ErrorTransaction:
        """Begin a new version of ``table``, which may have an error table."""

    @abstractmethod
    def errors_of(self, published: Published) -> Relation | None:
        """Return the relation of the errors of exactly that version; None if it was published without an error table.

        Raises RVT-401 if the version has expired.
        """
