"""The statistics of many files taken together, which follow the files that come and go without a look at the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from rivet_dagster.model.storage import ColumnStatistics, Statistics


@dataclass
class ColumnTotals:
    """One column of the files with rows: ``files`` of them tell something about it, ``unknown`` not how many NULLs.

    ``bounded`` have values with a known min and max, ``unbounded`` values without. ``at_min`` and ``at_max`` count
    those whose own min and max are these: where none is left, the min is greater, or the max less, than what is given.
    """

    files: int = 0
    nulls: int = 0
    unknown: int = 0
    bounded: int = 0
    unbounded: int = 0
    min: Any = None
    at_min: int = 0
    max: Any = None
    at_max: int = 0

    def add(self, rows: int, known: ColumnStatistics) -> None:
        """Take a file with ``rows`` into account."""
        if self._counts(rows, known, 1):
            if self.min is None or known.min <= self.min:
                self.at_min = self.at_min + 1 if known.min == self.min else 1
                self.min = known.min
            if self.max is None or known.max >= self.max:
                self.at_max = self.at_max + 1 if known.max == self.max else 1
                self.max = known.max

    def remove(self, rows: int, known: ColumnStatistics) -> None:
        """Take a file with ``rows`` into account no more."""
        if self._counts(rows, known, -1):
            self.at_min -= known.min == self.min
            self.at_max -= known.max == self.max

    def _counts(self, rows: int, known: ColumnStatistics, by: int) -> bool:
        """Count the file, and return whether it has bounds."""
        self.files += by
        if known.nulls is None:
            self.unknown += by
            return False
        self.nulls += by * known.nulls
        if known.nulls == rows:
            return False
        if known.min is None:
            self.unbounded += by
            return False
        self.bounded += by
        return True

    @property
    def has_lost_bounds(self) -> bool:
        """Whether the files with the least or the greatest value are gone, so that the others have to be asked."""
        return self.bounded > 0 and not (self.at_min and self.at_max)

    def statistics(self, filled: int) -> ColumnStatistics:
        """Return the statistics, if ``filled`` is the number of files with rows."""
        if self.unknown or self.files != filled:
            return ColumnStatistics()
        if self.unbounded or not self.bounded:
            return ColumnStatistics(self.nulls)
        return ColumnStatistics(self.nulls, self.min, self.max)


TOTALS = tuple(each.name for each in fields(ColumnTotals))
"""The names of the values of a ``ColumnTotals``, in order."""


@dataclass
class Totals:
    """The totals of some files, of which ``filled`` have rows; ``columns`` has what is told of each column."""

    rows: int = 0
    bytes: int = 0
    filled: int = 0
    columns: dict[str, ColumnTotals] = field(default_factory=dict)

    @classmethod
    def of(cls, parts: Iterable[Statistics]) -> Totals:
        """Return the totals of files with these statistics."""
        totals = cls()
        for part in parts:
            totals.add(part)
        return totals

    def add(self, part: Statistics) -> None:
        """Take a file into account."""
        self.rows += part.rows
        self.bytes += part.bytes
        if part.rows:
            self.filled += 1
            for name, known in part.values.items():
                self.columns.setdefault(name, ColumnTotals()).add(part.rows, known)

    def remove(self, part: Statistics) -> None:
        """Take a file into account no more. Bounds may be lost by that, until ``restore`` is told all files."""
        self.rows -= part.rows
        self.bytes -= part.bytes
        if part.rows:
            self.filled -= 1
            for name, known in part.values.items():
                self.columns[name].remove(part.rows, known)

    def restore(self, parts: Iterable[Statistics]) -> None:
        """Find bounds that are lost anew, of ``parts``, which are all files; they are not looked at if none is."""
        lost = [name for name, column in self.columns.items() if column.has_lost_bounds]
        if not lost:
            return
        totals = {name: ColumnTotals() for name in lost}
        for part in parts:
            for name in lost:
                if part.rows and (known := part.values.get(name)) is not None:
                    totals[name].add(part.rows, known)
        self.columns |= totals

    def statistics(self, first: Statistics) -> Statistics:
        """Return the statistics of all, with the columns of the ``first`` file."""
        values = {name: self.columns.get(name, ColumnTotals()).statistics(self.filled) for name in first.values}
        return Statistics(self.rows, self.bytes, first.columns, values)
