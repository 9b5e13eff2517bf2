"""What an engine reads or writes in place: descriptions of data at rest, never handles on it, and rows in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Files:
    """Files of one format that make up one table.

    ``paths`` are absolute files, folders or globs; ``options`` are the engine's reader (or writer) options. The option
    ``schema`` is DDL, or the JSON that Spark writes into its files. With it ``paths`` may be empty: no rows.
    """

    format: str
    paths: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> str | None:
        """The option ``schema``, in whichever letter case it is written."""
        return next((value for key, value in self.options.items() if key.lower() == "schema"), None)


@dataclass(frozen=True)
class CatalogTable:
    """A table of a catalog that the engine's session knows, as it is now or as it was.

    ``identifier`` are the parts of its name: catalog, namespaces, table. At most one of ``branch``, ``snapshot`` (its
    id) and ``timestamp`` (ISO 8601) says which state of it is meant.
    """

    identifier: tuple[str, ...]
    branch: str | None = None
    snapshot: int | None = None
    timestamp: str | None = None


@dataclass(frozen=True)
class JdbcTable:
    """A table of a database behind a JDBC driver; ``properties`` are the driver's, secrets among them."""

    url: str
    table: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, eq=False)
class ArrowRows:
    """Rows that pass through this process, a few batches in memory at a time.

    ``batches`` begins a new reading of the same rows each time it is called.
    """

    schema: pa.Schema
    batches: Callable[[], pa.RecordBatchReader]


Relation = Files | CatalogTable | JdbcTable | ArrowRows
"""Anything an engine may read in place; each says which of them it reads, and which it writes."""

Kinds = frozenset[type]
"""Some of the kinds of relation."""
