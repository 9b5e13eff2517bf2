"""The interface of the kinds of databases in which tables are published: all that they do differently."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rivet_dagster.catalogs.jdbc.database import Connection, Database
from rivet_dagster.catalogs.jdbc.published.target import TargetTable
from rivet_dagster.sql.database_trees import Name, WrittenColumn

if TYPE_CHECKING:
    import pyarrow as pa

Task = Callable[[Iterator["pa.RecordBatch"]], bytes]
"""A task of an engine; it returns a ``copying.Result``, pickled."""


ENVIRONMENT = "an environment of rivet_dagster"
"""The beginning of the comment of a schema that is an environment."""


@dataclass(frozen=True)
class RecordTexts:
    """The parts of the statements about versions, and about environments, that differ.

    ``create`` are statements that make the tables of the versions in ``{schema}``, ``create_environments`` the one that
    makes ``{table}``, that of the environments, ``exists`` the query that counts the former, ``now`` is the time of the
    clock, and ``share`` the end of a query that locks rows against changes.
    """

    create: tuple[str, ...]
    create_environments: str
    exists: str
    now: str
    share: str


class DatabaseKind(ABC):
    """A kind of database: its SQL, its types, and how rows come to it."""

    dialect: ClassVar[str]
    """sqlglot's name of its SQL."""
    records: ClassVar[RecordTexts]
    changes_tables_in_transactions: ClassVar[bool]
    """Whether tables are made, changed and dropped by the transaction in which rows change; else each commits it."""
    has_unlogged_tables: ClassVar[bool]
    """Whether it has tables that are quicker, and empty after a crash."""
    upserts: ClassVar[bool]
    """Whether one statement inserts and updates rows, and counts both."""
    longest_name: ClassVar[int]
    """The most bytes of a name."""

    @abstractmethod
    def has_table(self, connection: Connection, name: Name) -> bool:
        """Return whether there is a table or view of that name."""

    @abstractmethod
    def find_target(self, connection: Connection, name: Name) -> TargetTable | None:
        """Return the table; None if there is none. Raises RVT-404 for what has no rows of its own."""

    @abstractmethod
    def type_of(self, spark_type: str) -> str | None:
        """Return the type of a new column; None for a type of Spark that the database has not."""

    @abstractmethod
    def new_column(self, name: str, type_: str, before: str | None) -> WrittenColumn:
        """Return a new column of a type that ``type_of`` has returned; ``before`` is the type that it had."""

    @abstractmethod
    def copy_task(self, database: Database, name: Name, columns: Sequence[str], fence: str) -> Task:
        """Return the task that copies rows of the ``columns``, and ATTEMPT, to a table, as ``copying`` says.

        The query ``fence`` has a row as long as rows may still be added.
        """

    @abstractmethod
    def is_gone(self, state: str) -> bool:
        """Return whether an error of a ``copying.Result`` says that the table is not there."""

    @abstractmethod
    def is_about_row(self, state: str) -> bool:
        """Return whether such an error is about the values of a row."""

    @abstractmethod
    def shows_values(self, state: str) -> bool:
        """Return whether the message of such an error may have values of the row."""

    @abstractmethod
    def analyze(self, connection: Connection, name: Name) -> None:
        """Have the database learn about the rows of a table."""

    @abstractmethod
    def index_keys(self, connection: Connection, name: Name, keys: Sequence[WrittenColumn]) -> None:
        """Have a table found by its keys, if the database needs an index for that."""

    @abstractmethod
    def bytes_of(self, connection: Connection, name: Name) -> int:
        """Return the size of a table."""

    @abstractmethod
    def keep(self, connection: Connection, name: Name) -> None:
        """Have a table survive a crash of the database."""

    @abstractmethod
    def limit_locks(self, connection: Connection) -> None:
        """Have the transaction wait for a lock no longer than LOCK_SECONDS."""

    @abstractmethod
    def swap(self, connection: Connection, target: Name, rows: Name) -> None:
        """Have the table ``rows`` take the place of ``target``, in the transaction."""

    @abstractmethod
    def schema_comment(self, connection: Connection, schema: str) -> str | None:
        """Return the comment of a schema, empty if it has none; None if there is no such schema."""

    @abstractmethod
    def create_schema(self, connection: Connection, schema: str, comment: str) -> None:
        """Make a schema with a comment."""

    @abstractmethod
    def drop_schema(self, connection: Connection, schema: str) -> None:
        """Drop a schema with its tables."""
