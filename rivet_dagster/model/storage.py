"""Descriptions of stored data that catalogs pass to engines, never open handles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rivet_dagster.errors import RivetError
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
    """The number of NULLs of a column, and its min and max, each None where it is not known."""

    nulls: int | None = None
    min: Any = None
    max: Any = None


@dataclass(frozen=True)
class Statistics:
    """Statistics known without a scan; ``columns`` are pairs of name and engine type, in order.

    ``values`` holds the statistics of some columns, by name in lower case.
    """

    rows: int
    bytes: int
    columns: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, ColumnStatistics] = field(default_factory=dict)

    def without_nulls(self, columns: Sequence[str]) -> list[str]:
        """Return those of ``columns`` that are surely NULL in no row."""
        known = {name: self.values.get(name.lower(), ColumnStatistics()) for name in columns}
        return [name for name, values in known.items() if values.nulls == 0]

    def tells_max(self, column: str) -> bool:
        """Return whether ``values`` gives the max of a column, or shows that it has no value but NULL."""
        known = self.values.get(column.lower())
        return known is not None and (known.max is not None or known.nulls == self.rows)

    def max_of(self, column: str, read: Callable[[], Any]) -> Any:
        """Return the max of a column, None if it has none; ``read`` reads it where ``values`` does not tell it."""
        return self.values[column.lower()].max if self.tells_max(column) else read()


@dataclass(frozen=True)
class StoredRows:
    """Stored rows: how an engine reads them, and their statistics.

    ``partition_rows`` are the row counts of the partitions that the run covers, by key, where they have been counted.
    """

    relation: Relation
    statistics: Statistics
    partition_rows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Base:
    """The version on which a new one builds; ``columns`` are pairs of name and engine type, in order."""

    relation: Relation
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Record:
    """The record of the write of a published version: how many rows were inserted, updated and deleted.

    ``bytes`` is the number of bytes written, None where the catalog does not know it.
    """

    inserted: int
    updated: int = 0
    deleted: int = 0
    bytes: int | None = None


@dataclass(frozen=True)
class Version:
    """A version of a table: the published one, an older one, a withheld one, or one that a run has staged.

    ``published_at`` is a time in ISO 8601, None if it is not published; ``rows`` is None where it is not known.
    ``inputs`` are the positions of the data that it was computed from.
    """

    name: str
    state: str
    rows: int | None = None
    published_at: str | None = None
    identity: str = ""
    inputs: Inputs = field(default_factory=dict)


@dataclass(frozen=True)
class ExistingTable:
    """A table that somebody else has made: its address, its rows, and by titles what a person asks of its storage."""

    uri: str
    statistics: Statistics
    layout: Mapping[str, str] = field(default_factory=dict)


CURRENT, OLDER, WITHHELD, STAGED = "current", "older", "withheld", "staged"


@dataclass(frozen=True)
class Provenance:
    """How a version came about: the positions of its inputs, by which code, the run that made it, and its write.

    ``code_versions`` are those of the joints that computed the rows, and of what these read, by name. ``record`` is
    None if the write replaced all rows.
    """

    inputs: Inputs = field(default_factory=dict)
    code_versions: Mapping[str, str] = field(default_factory=dict)
    identity: str = ""
    record: Record | None = None


@dataclass(frozen=True)
class Published:
    """A published version: its rows and those of the version before it, and the run and the write that made it.

    ``inputs`` are the positions of the data that it was computed from. ``environment`` names the branch of the data to
    which the table belongs, None for the main one. ``code_versions`` are those of the joints that computed the rows,
    and of what these read, by name; none in versions of earlier releases. Of a version by another engine, both are
    those of the last publication before it; ``unknown_before`` is an expired version if it is not known which that was.
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
    code_versions: Mapping[str, str] = field(default_factory=dict)
    unknown_before: str | None = None

    @property
    def landed(self) -> Mapping[str, ConsumedFiles]:
        """The files that it has consumed, by landing zone."""
        return {name: position for name, position in self.inputs.items() if isinstance(position, ConsumedFiles)}


def forgotten(published: Published) -> RivetError:
    """Return RVT-420, which names the expired version that another engine had made."""
    return RivetError(
        "RVT-420",
        f"what the rows of '{published.table}' were made from is not known any more: other engines have changed it, "
        f"and removed the snapshot {published.unknown_before}, which may have been a rollback",
    )
