"""Intervals of the values of columns, derived from the statistics of files."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rivet_dagster.model.storage import Statistics
from rivet_dagster.model.write_plan import Append, AppendNewer, History, ReplaceAll, WritePlan


@dataclass(frozen=True)
class Interval:
    """The values of a column from ``min`` to ``max``, both included, and NULL if ``nulls`` is true.

    Without bounds it contains no value but NULL. The interval of a column about which nothing is known is None.
    """

    min: Any
    max: Any
    nulls: bool = False

    @property
    def is_point(self) -> bool:
        """Whether it contains exactly one value, or only NULL.

        >>> Interval(1, 1).is_point, Interval(1, 1, nulls=True).is_point, Interval(None, None, nulls=True).is_point
        (True, False, True)
        """
        return self.min is None or (self.min == self.max and not self.nulls)

    def overlaps(self, other: Interval) -> bool:
        """Return whether a value may lie in both intervals; True if the values cannot be compared.

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
        """Return whether each value of ``other`` certainly lies in this interval.

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
"""The interval of NULL alone."""

Range = tuple[Interval | None, ...]
"""For each of some columns an interval, or None, which stands for any value."""


def interval_of(statistics: Statistics, column: str) -> Interval | None:
    """Return the interval in which all values of a column certainly lie; None if it is not known."""
    known = statistics.values.get(column.lower())
    if known is None:
        return None
    if known.min is None:
        return NULL if known.nulls == statistics.rows else None
    return Interval(known.min, known.max, nulls=known.nulls != 0)


@dataclass(frozen=True)
class Affected:
    """The rows of a table that a write may change: those whose ``columns`` lie in one of ``ranges``.

    If ``wholly`` is true the write removes every row in the ranges. Without ``columns``, one range means all rows, and
    no range means none. With ``joins_small`` other rows in small files are to be written again, too, where these are
    many and storage knows their size.
    """

    columns: tuple[str, ...] = ()
    ranges: tuple[Range, ...] = ((),)
    wholly: bool = False
    joins_small: bool = False

    def may_change(self, statistics: Statistics) -> bool:
        """Return whether any row of a file with these statistics may be changed."""
        known = self._intervals(statistics)
        return any(
            all(i is None or r is None or i.overlaps(r) for i, r in zip(known, range_, strict=True))
            for range_ in self._near(known)
        )

    def removes(self, statistics: Statistics) -> bool:
        """Return whether every row of a file with these statistics is certainly removed."""
        if not self.wholly:
            return False
        known = self._intervals(statistics)
        return any(
            all(r is None or (i is not None and r.contains(i)) for i, r in zip(known, range_, strict=True))
            for range_ in self._near([i and Interval(i.min, i.min, i.nulls) for i in known])
        )

    def _near(self, known: Sequence[Interval | None]) -> Sequence[Range]:
        """Return the ranges but those that certainly do not overlap, found by bisection in one column."""
        if self._sorted is None:
            return self.ranges
        column, values, ranges, others = self._sorted
        interval = known[column]
        if interval is None:
            return self.ranges
        if interval.min is None:
            return others
        try:
            return [*ranges[bisect_left(values, interval.min) : bisect_right(values, interval.max)], *others]
        except TypeError:
            return self.ranges

    @cached_property
    def _sorted(self) -> tuple[int, list[Any], list[Range], list[Range]] | None:
        """The column with the most values, its sorted values with their ranges, and the ranges without a value.

        None if there is one range only, or if the values have no order.
        """
        if len(self.ranges) < 2 or not self.columns:
            return None
        if not all(r is not None and r.is_point and r.min == r.min for range_ in self.ranges for r in range_):
            return None
        places = range(len(self.columns))
        try:
            column = max(places, key=lambda place: len({_point_of(range_, place) for range_ in self.ranges}))
            points = [range_ for range_ in self.ranges if _point_of(range_, column) is not None]
            points.sort(key=lambda range_: _point_of(range_, column))
        except TypeError:
            return None
        others = [range_ for range_ in self.ranges if _point_of(range_, column) is None]
        return column, [_point_of(range_, column) for range_ in points], points, others

    def _intervals(self, statistics: Statistics) -> list[Interval | None]:
        return [interval_of(statistics, column) for column in self.columns]


def _point_of(range_: Range, index: int) -> Any:
    interval = range_[index]
    return interval.min if interval is not None else None


EVERYTHING, NOTHING, REPLACED = Affected(), Affected(ranges=()), Affected(wholly=True)
"""Any row may change; no row changes; every row is removed."""


MOST_VALUES = 1000
"""Up to this number of distinct values of partition columns each counts; beyond it only their min and max."""

Distinct = Callable[[Sequence[str], int], Sequence[Mapping[str, Any]]]
"""Given columns and a maximum number, the distinct values of these columns in the incoming rows."""


def affected_rows(plan: WritePlan, incoming: Statistics, distinct: Distinct) -> Affected:
    """Return the rows that the ``incoming`` rows may change in a table whose columns do not change."""
    if isinstance(plan, Append | AppendNewer):
        return NOTHING
    if isinstance(plan, ReplaceAll):
        return REPLACED
    if incoming.rows == 0:
        return NOTHING
    if isinstance(plan, History):
        return _range(plan.keys, incoming)
    columns = plan.partition_columns
    return _values(columns, incoming, distinct) if columns else _range(plan.identity, incoming)


def _values(columns: tuple[str, ...], incoming: Statistics, distinct: Distinct) -> Affected:
    only = tuple(interval_of(incoming, column) for column in columns)
    if all(interval is not None and interval.is_point for interval in only):
        return Affected(columns, (only,), wholly=True)
    rows = distinct(columns, MOST_VALUES + 1)
    if len(rows) > MOST_VALUES:
        return _range(columns, incoming)
    return Affected(
        columns, tuple(tuple(point_interval(row[column]) for column in columns) for row in rows), wholly=True
    )


def point_interval(value: Any) -> Interval:
    """Return the interval that contains one value alone, which may be NULL."""
    return NULL if value is None else Interval(value, value)


def _range(columns: tuple[str, ...], incoming: Statistics) -> Affected:
    """Return the range from the minimum to the maximum of each column."""
    interval = tuple(interval_of(incoming, column) for column in columns)
    return Affected(columns, (interval,)) if any(interval) else EVERYTHING
