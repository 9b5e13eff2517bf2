"""The interface of a database product: all that databases do differently, from reading a table to publishing one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rivet_dagster.catalogs.capabilities.sources import Snapshot
from rivet_dagster.catalogs.jdbc.database import Connection, Database
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.relations import JdbcTable, Unreadable
from rivet_dagster.model.session_needs import QueryDatabase
from rivet_dagster.model.write_strategy import WriteStrategy
from rivet_dagster.sql.database_table import SelectedColumn
from rivet_dagster.sql.database_trees import Name, WrittenColumn
from rivet_dagster.sql.write_strategies.trees import Columns

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ReadColumn:
    """How a column is read: its part of the query, and Spark's name of its type, None if only Spark can tell."""

    selected: SelectedColumn
    spark_type: str | None


@dataclass(frozen=True)
class TargetColumn:
    """A column that a batch can fill: as the database has it, and Spark's type, None if Spark has none for it."""

    written: WrittenColumn
    spark_type: str | None
    unreadable: Unreadable | None = None


@dataclass(frozen=True)
class TargetTable:
    """An existing table: the columns that a batch can fill, by name, and the columns of each unique index.

    Identity and generated columns are left out: the database fills them.
    """

    name: Name
    columns: Mapping[str, TargetColumn]
    unique: frozenset[frozenset[str]]

    @property
    def spark_columns(self) -> Columns:
        """The columns with their Spark types, in order. Raises RVT-422 for one that Spark cannot read."""
        return tuple((name, self.spark_type(name)) for name in self.columns)

    def spark_type(self, name: str) -> str:
        """Return Spark's type of a column. Raises RVT-422 for one that Spark cannot read."""
        column = self.columns[name]
        if column.spark_type is not None:
            return column.spark_type
        why = column.unreadable.reason if column.unreadable is not None else "has a type that Spark has not"
        message = f"the column '{name}' of {self} {why}, so nothing can be published to it"
        raise RivetError("RVT-422", message, remediation="Have its type changed in the database.")

    def __str__(self) -> str:
        return ".".join(self.name)


def nothing_is_published_to(table: object) -> RivetError:
    """Return RVT-404 for a view, and what else has no rows of its own."""
    message = f"{table} is a view or a foreign table, to which nothing is published"
    return RivetError("RVT-404", message, remediation="Name another table in the sink's `table`.")


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


Options = Mapping[str, Any]


@dataclass(frozen=True)
class Product:
    """A database product.

    ``driver`` is the class of its JDBC driver, which is in ``package``. ``schema`` returns the schema of tables that
    name none, of a catalog with these options. ``reader`` takes a function that returns the name of a joint's table,
    and the class of the driver; ``snapshot`` takes how many tables are read, by how many connections, and the catalog's
    options; ``examine`` the subject of findings, the schema, and whether tables are published. ``wrong_source`` and
    ``wrong_target`` take the catalog's options and those of a joint that reads or writes a table; ``refuses`` returns
    why it cannot do a write strategy, None if it can. ``queries`` is there where an engine runs queries in the
    database.
    """

    name: str
    driver: str
    package: str
    kind: DatabaseKind
    database: type[Database]
    schema: Callable[[Options], str]
    reader: Callable[[Database, Callable[[str], Name], str], Reader]
    snapshot: Callable[[Reader, int, int, Options], Snapshot]
    examine: Callable[[str, Database, str, bool], Iterable[Finding]]
    wrong_source: Callable[[Options, Options], Iterable[Wrong]]
    wrong_target: Callable[[Options, Options], Iterable[Wrong]]
    refuses: Callable[[WriteStrategy], str | None]
    queries: Callable[[Database], QueryDatabase] | None = None
