"""What a catalog tells an engine about data at rest: descriptions, never handles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

    def tells_greatest(self, column: str) -> bool:
        """Whether ``values`` tells the greatest value of a column, or that it has none."""
        found = self.values.get(column.lower())
        return found is not None and (found.greatest is not None or found.nulls == self.rows)


@dataclass(frozen=True, order=True)
class LandedFile:
    """A file that a source is read from.

    One with the same path, seen from the catalog, size and time is the same file.
    """

    path: str
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Reading:
    """What a version was made of, of one landing zone.

    ``files`` were read for it, ``earlier`` are those that versions before it had read and that are still there.
    ``schema`` is that of the files, as the option ``schema`` takes it; None where the source declares its own.
    """

    files: tuple[LandedFile, ...] = ()
    earlier: tuple[LandedFile, ...] = ()
    schema: str | None = None

    @property
    def known(self) -> frozenset[LandedFile]:
        """All files that must not be read again."""
        return frozenset((*self.files, *self.earlier))


@dataclass(frozen=True)
class Staged:
    """A version of ``table`` being built, that no reader sees.

    ``base`` is the version that was published when it was begun (None: the table did not exist). ``landed`` says by
    source what it was made of; that is kept with the version, published or kept back. ``identity`` is that of the run
    which made it, of a version that was kept back.
    """

    catalog: str
    table: str
    version: str
    base: str | None
    target: Relation
    landed: Mapping[str, Reading] = field(default_factory=dict)
    identity: str = ""


@dataclass(frozen=True)
class Interval:
    """Values of a column: those from ``least`` to ``greatest``, both included, and NULL where ``nulls`` says so.

    No bounds at all mean no value but NULL; an unknown column has the interval None.
    """

    least: Any
    greatest: Any
    nulls: bool = False

    @property
    def is_point(self) -> bool:
        """Whether it holds one value alone, or NULL alone.

        >>> Interval(1, 1).is_point, Interval(1, 1, nulls=True).is_point, Interval(None, None, nulls=True).is_point
        (True, False, True)
        """
        return self.least is None or (self.least == self.greatest and not self.nulls)

    def meets(self, other: Interval) -> bool:
        """Whether some value may lie in both; values that cannot be compared may.

        >>> Interval(1, 3).meets(Interval(3, 9)), Interval(1, 3).meets(Interval(4, 9, nulls=True))
        (True, False)
        """
        if self.nulls and other.nulls:
            return True
        if None in (self.least, other.least):
            return False
        try:
            return bool(self.least <= other.greatest and other.least <= self.greatest)
        except TypeError:
            return True

    def holds(self, other: Interval) -> bool:
        """Whether each value of ``other`` certainly lies in this one.

        >>> Interval(1, 9).holds(Interval(2, 3)), Interval(1, 9).holds(Interval(2, 3, nulls=True))
        (True, False)
        """
        if other.nulls and not self.nulls:
            return False
        if other.least is None:
            return other.nulls
        try:
            return bool(self.least is not None and self.least <= other.least and other.greatest <= self.greatest)
        except TypeError:
            return False


@dataclass(frozen=True)
class Touched:
    """The rows of a table that a write may change: those whose ``columns`` lie in one of ``boxes``.

    A box has an interval, or None for any value, for each column. Where ``wholly`` is set the write removes every row
    in a box. Without columns one box stands for all rows, and no box for none.
    """

    columns: tuple[str, ...] = ()
    boxes: tuple[tuple[Interval | None, ...], ...] = ((),)
    wholly: bool = False


EVERYTHING, NOTHING, REPLACED = Touched(), Touched(boxes=()), Touched(wholly=True)
"""Any row may change, none does, every row goes."""


@dataclass(frozen=True)
class Base:
    """The version that a new one builds upon; ``columns`` are (name, the engine's type) in order."""

    relation: Relation
    columns: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Rest:
    """How many rows the version before a write holds, and those of them that may, but need not, have to go.

    ``relation`` is None where there are none such. ``bytes`` are those that the new version goes on with as they are.
    """

    rows: int
    relation: Relation | None
    bytes: int = 0


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
    """A version that readers see, how many rows it and the one before it hold, and the run and the write it is from.

    ``landed`` says what it was made of by landing zone.
    """

    catalog: str
    table: str
    version: str
    uri: str
    statistics: Statistics
    rows_before: int
    identity: str = ""
    record: Record = Record(0)
    landed: Mapping[str, Reading] = field(default_factory=dict)
