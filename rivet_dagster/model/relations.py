"""Relations that an engine reads or writes: descriptions of stored data, never open handles, and rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Files:
    """Files of one format that make up one table.

    ``paths`` are absolute paths of files, folders or globs, or URIs of files and folders in a store. ``options`` are
    the engine's reader (or writer) options. The option ``schema`` is DDL, or the JSON that Spark writes into its files.
    With it ``paths`` may be empty: no rows.
    """

    format: str
    paths: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> str | None:
        """The option ``schema``, whose key may be in any letter case."""
        return next((value for key, value in self.options.items() if key.lower() == "schema"), None)


@dataclass(frozen=True)
class CatalogTable:
    """A table of a catalog in the engine's session, in its current or an earlier state.

    ``identifier`` is the parts of its name: catalog, namespaces, table. At most one of ``branch``, ``snapshot`` (an id)
    and ``timestamp`` (ISO 8601) selects the state. With ``after``, the id of an ancestor of ``snapshot``, only the
    rows that were appended since then are meant.
    """

    identifier: tuple[str, ...]
    branch: str | None = None
    snapshot: int | None = None
    timestamp: str | None = None
    after: int | None = None


@dataclass(frozen=True)
class Unreadable:
    """Why a column of a table cannot be read, the end of a sentence that begins with it, and what helps."""

    reason: str
    remedy: str


@dataclass(frozen=True)
class JdbcTable:
    """A table of a database behind a JDBC driver; ``properties`` are passed to the driver and may hold secrets.

    ``table`` is a name, or a query in parentheses with an alias, in the database's own SQL. Each connection executes
    ``before_reading`` before its query, in the same transaction. ``conditions`` on the rows share them out: the rows of
    each are read by a query of its own, and each row fulfills one; without conditions there is one query. Columns that
    are ``hidden`` are for the conditions alone. ``takes_limit`` says that the database knows LIMIT. ``unreadable`` are
    columns that the table has beside those that can be read: for each, why it cannot be, and what helps. ``is_in_utc``
    says that the connections take a time without a zone as one in UTC.

    An engine that runs its queries in the database reads ``native_rows`` instead, a query in parentheses with an alias:
    the same rows with all columns in the database's own types; at the exported ``snapshot``, if there is one.
    """

    url: str
    table: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    before_reading: str = ""
    conditions: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    takes_limit: bool = False
    unreadable: Mapping[str, Unreadable] = field(default_factory=dict)
    is_in_utc: bool = False
    native_rows: str = ""
    snapshot: str | None = None


@dataclass(frozen=True, eq=False)
class ArrowRows:
    """Rows that pass through this process, with a few batches in memory at a time.

    Each call of ``batches`` starts a new read of the same rows.
    """

    schema: pa.Schema
    batches: Callable[[], pa.RecordBatchReader]


Relation = Files | CatalogTable | JdbcTable | ArrowRows
"""A relation that an engine may read directly; each engine declares which kinds it reads and which it writes."""

Kinds = frozenset[type]
"""A set of kinds of relation."""
