"""Tables of evaluation errors that are published with the rows of another table."""

from __future__ import annotations

from abc import abstractmethod

from rivet_dagster.catalogs.capabilities.targets import HasTargets
from rivet_dagster.catalogs.capabilities.transaction import TableTransaction
from rivet_dagster.engines.contract import Frame
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.storage import Published, StoredRows


class ErrorTransaction(TableTransaction):
    """A transaction that can publish a table of errors with the version, in the same atomic step."""

    @abstractmethod
    def write_errors(self, table: str, frame: Frame | None) -> StoredRows:
        """Make ``frame`` the error table of the version, readable as ``table``; None: a table without rows.

        To be called at most once, after ``write``; ``frame`` is one of the session that the transaction was begun with
        and has ERROR_COLUMNS. Return the rows, readable until the transaction ends.
        """


class HasErrorTables(HasTargets):
    """publishes a table of evaluation errors with each version of a table."""

    @abstractmethod
    def errors_of(self, published: Published) -> Relation | None:
        """Return the relation of the errors of exactly that version; None if it was published without an error table.

        Raises RVT-401 if the version has expired.
        """
