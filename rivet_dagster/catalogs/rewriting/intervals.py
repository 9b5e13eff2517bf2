"""Intervals of a column's values, as statistics of files tell them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rivet_dagster.model.storage import Statistics


@dataclass(frozen=True)
class Interval:
    """Values of a column: those from ``min`` to ``max``, both included, and NULL where ``nulls`` says so.

    No bounds at all mean no value but NULL; an unknown column has the interval None.
    """

    min: Any
    max: Any
    nulls: bool = False

    @property
    def is_point(self) -> bool:
        """Whether it holds one value alone, or NULL alone.

        >>> Interval(1, 1).is_point, Interval(1, 1, nulls=True).is_point, Interval(None, None, nulls=True).is_point
        (True, False, True)
        """
        return self.min is None or (self.min == self.max and not self.nulls)

    def overlaps(self, other: Interval) -> bool:
        """Return whether some value may lie in both; values that cannot be compared may.

        >>> Interval(1, 3).overlaps(Interval(3, 9)), Interval(1, 3).overlaps(Interval(4, 9, nulls=True))
        (True, False)
        """
        if self.nulls and other.nulls:
            return True
        if None in (self.min, other.min):
            return False
        try:
            return bool(self.min <= other.max and other.min <= self.max)
        except TypeError:
            return True

    def contains(self, other: Interval) -> bool:
        """Return whether each value of ``other`` certainly lies in this one.

        >>> Interval(1, 9).contains(Interval(2, 3)), Interval(1, 9).contains(Interval(2, 3, nulls=True))
        (True, False)
        """
        if other.nulls and not self.nulls:
            return False
        if other.min is None:
            return other.nulls
        try:
            return bool(self.min is not None and self.min <= other.min and other.max <= self.max)
        except TypeError:
            return False


NULL = Interval(None, None, nulls=True)
"""NULL alone."""

Range = tuple[Interval | None, ...]
"""An interval, or None for any value, for each of some columns."""


def interval_of(statistics: Statistics, column: str) -> Interval | None:
    """Return the interval that the values of a column certainly lie in; None where that is not known."""
    known = statistics.values.get(column.lower())
    if known is None:
        return None
    if known.min is None:
        return NULL if known.nulls == statistics.rows else None
    return Interval(known.min, known.max, nulls=known.nulls != 0)


@dataclass(frozen=True)
class Affected:
    """The rows of a table that a write may change: those whose ``columns`` lie in one of ``ranges``.

    Where ``wholly`` is set the write removes every row in a range. Without columns one range stands for all rows, and
    no range for none.
    """

    columns: tuple[str, ...] = ()
    ranges: tuple[Range, ...] = ((),)
    wholly: bool = False

    def may_change(self, statistics: Statistics) -> bool:
        """Return whether some row of a file with these statistics may be changed."""
        there = self._intervals(statistics)
        return any(
            all(i is None or r is None or i.overlaps(r) for i, r in zip(there, one, strict=True)) for one in self.ranges
        )

    def removes(self, statistics: Statistics) -> bool:
        """Return whether each row of a file with these statistics is certainly removed."""
        there = self._intervals(statistics)
        return self.wholly and any(
            all(r is None or (i is not None and r.contains(i)) for i, r in zip(there, one, strict=True))
            for one in self.ranges
        )

    def _intervals(self, statistics: Statistics) -> list[Interval | None]:
        return [interval_of(statistics, column) for column in self.columns]


EVERYTHING, NOTHING, REPLACED = Affected(), Affected(ranges=()), Affected(wholly=True)
"""Any row may change, none does, every row goes."""
