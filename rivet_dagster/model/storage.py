"""What a catalog tells an engine about data at rest: descriptions, never handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.model.inputs import ConsumedFiles, Inputs
from rivet_dagster.model.relations import Relation


@dataclass(frozen=True)
class Projection:
    """A source's inline transforms: columns as (name, None) or (alias, expression), then a filter, then a limit.

    The filter sees the columns of the table, as a WHERE does.
    """

    columns: tuple[tuple[str, str | None], ...] = ()
    filter: str | None = None
    limit: int | None = None


@dataclass(frozen=True)
class ColumnStatistics:
    """How many NULLs a column holds, and its least and greatest value, each None where that is not known."""

    nulls: int | None = None
    min: Any = None
    max: Any = None


@dataclass(frozen=True)
class Statistics:
    """What storage knows without a scan; ``columns`` are (name, the engine's type) in order.

    ``values`` tells more of some columns, by their names in lower case.
    """

    rows: int
    bytes: int
    columns: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def tells_max(self, column: str) -> bool:
        """Return whether ``values`` tells the greatest value of a column, or that it has none."""
        found = self.values.get(column.lower())
        return found is not None and (found.max is not None or found.nulls == self.rows)


@dataclass(frozen=True)
class StoredRows:
    """Rows at rest: how an engine reads them, and what storage tells of them.

    ``partition_rows`` are those of each partition that the run covers, by key, where they have been counted.
    """

    relation: Relation
    statistics: Statistics
    partition_rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Base:
    """The version that a new one builds upon; ``columns`` are (name, the engine's type) in order."""

    relation: Relation
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Record:
    """What a published version remembers of its write: how many rows were inserted, updated and deleted.

    ``bytes`` are those that it wrote, None of a version whose catalog does not know.
    """

    inserted: int
    updated: int = 0
    deleted: int = 0
    bytes: int | None = None


@dataclass(frozen=True)
class Version:
    """A version of a table that is there: the one readers see, an older one, or one that is withheld.

    ``published_at`` is a time in ISO 8601, None of a withheld version; so is ``rows`` where it is not known. ``inputs``
    says what it was made from.
    """

    name: str
    state: str
    rows: int | None = None
    published_at: str | None = None
    identity: str = ""
    inputs: Inputs = field(default_factory=dict)


CURRENT, OLDER, WITHHELD = "current", "older", "withheld"


@dataclass(frozen=True)
class Published:
    """A version that readers see, how many rows it and the one before it hold, and the run and the write it is from.

    ``inputs`` says what it was made from. ``environment`` names the branch of the data that the table belongs to, None
    the main one.
    """

    catalog: str
    table: str
    version: str
    uri: str
    statistics: Statistics
    rows_before: int
    identity: str = ""
    record: Record = Record(0)
    inputs: Inputs = field(default_factory=dict)
    environment: str | None = None

    @property
    def landed(self) -> Mapping[str, ConsumedFiles]:
        """The files that it was made from, by landing zone."""
        return {name: position for name, position in self.inputs.items() if isinstance(position, ConsumedFiles)}
