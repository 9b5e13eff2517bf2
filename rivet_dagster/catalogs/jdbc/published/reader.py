"""The interface that reads the tables of a database as relations of an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from rivet_dagster.catalogs.jdbc.database import Connection
from rivet_dagster.model.relations import JdbcTable, Unreadable
from rivet_dagster.sql.database_trees import Name


class Reader(ABC):
    """Reads the tables of a database, by the names that joints give them or by those that the database has."""

    @abstractmethod
    def columns(self, table: str, options: Mapping[str, Any]) -> tuple[Mapping[str, str | None], dict[str, Unreadable]]:
        """Return Spark's types of the columns that can be read, and the others. Raises RVT-403."""

    @abstractmethod
    def table(self, connection: Any, table: str, options: Mapping[str, Any]) -> JdbcTable:
        """Return the relation of a table, read by one query. Raises RVT-204, RVT-403."""

    @abstractmethod
    def data_version(self, connection: Any, name: Name, version_by: str | None) -> str:
        """Return a text that changes when the data of a table changes, or its columns. Raises RVT-403."""

    @abstractmethod
    def tables(self, connection: Any) -> list[tuple[str, str]]:
        """Return schema and name of the tables and views that the user may read, in order."""

    @abstractmethod
    def current_rows(self, connection: Connection, name: Name, check: str, otherwise: str) -> JdbcTable:
        """Return the relation of a table's rows, as long as the one value of the query ``check`` is true.

        Afterwards reading raises an error with the text ``otherwise``. Raises RVT-403.
        """

    @abstractmethod
    def staged_rows(
        self, connection: Connection, name: Name, without: str, query: str | None = None, parts: int = 1
    ) -> JdbcTable:
        """Return the relation of the rows of a table, in at most ``parts`` parts, but for the column ``without``.

        Of a ``query`` with these columns instead, if there is one. The rows must not change. Raises RVT-403.
        """
