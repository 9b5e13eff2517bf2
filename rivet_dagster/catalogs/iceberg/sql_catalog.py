"""PyIceberg's catalog in a database, which tells a commit whose outcome is not known from one that was refused."""

from __future__ import annotations

from weakref import finalize

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from sqlalchemy.exc import DBAPIError


class DatabaseCatalog(SqlCatalog):
    """A catalog in a database whose answer to COMMIT may be lost; its connections are closed with it."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        # SQLAlchemy's engine refers to itself: Python's collector alone would close its connections, some time later.
        finalize(self, self.engine.dispose)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit updates to a table. Raises CommitStateUnknownException if the connection breaks meanwhile."""
        try:
            return super().commit_table(table, requirements, updates)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            message = f"the connection to the database broke during a commit: {error.orig}"
            raise CommitStateUnknownException(message) from error
