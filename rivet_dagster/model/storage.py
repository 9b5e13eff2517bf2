"""What a catalog tells an engine about data at rest: descriptions, never handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Files:
    """Files of one format that make up one table.

    ``paths`` are absolute files, folders or globs; ``options`` are the engine's reader (or writer) options. The option
    ``schema`` is DDL, or the JSON that Spark writes into its files.
    """

    format: str
    paths: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)


Relation = Files
"""Anything an engine can read in place; catalogs of other kinds add their own description here."""


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
    least: Any = None
    greatest: Any = None


@dataclass(frozen=True)
class Statistics:
    """What storage knows without a scan; ``columns`` are (name, the engine's type) in order.

    ``values`` tells more of some columns, by their names in lower case.
    """

    rows: int
    bytes: int
    columns: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, ColumnStatistics] = field(default_factory=dict)


@dataclass(frozen=True)
class Staged:
    """A version of ``table`` being built, that no reader sees.

    ``base`` is the version that was published when it was begun (None: the table did not exist).
    """

    catalog: str
    table: str
    version: str
    base: str | None
    target: Relation


@dataclass(frozen=True)
class Version:
    """A version of a table that is there: the one readers see, an older one, or one that is kept back.

    ``published_at`` is a time in ISO 8601, None of a version that is kept back; so is ``rows`` where it is not known.
    """

    name: str
    state: str
    rows: int | None = None
    published_at: str | None = None
    identity: str = ""


CURRENT, OLDER, KEPT_BACK = "current", "older", "kept back"


@dataclass(frozen=True)
class Published:
    """A version that readers see, how many rows it and the one before it hold, and the identity it was published by."""

    catalog: str
    table: str
    version: str
    uri: str
    statistics: Statistics
    rows_before: int
    identity: str = ""
