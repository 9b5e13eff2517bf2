"""A window of partitions in a write: which rows it may add and remove, and the row count of each partition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from rivet_dagster.catalogs.parquet_rows import partition_type, rows_by_partition
from rivet_dagster.catalogs.rewriting.intervals import Affected, Interval, interval_of
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import shorten_text
from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.model.storage import Statistics
from rivet_dagster.sql.partitions import (
    Condition,
    in_window,
    lower_bound,
    rows_in_window,
    rows_outside,
    upper_bound,
)
from rivet_dagster.sql.write_strategies.alignment import parted_by_window
from rivet_dagster.sql.write_strategies.trees import Columns, distinct_values

_ROWS, _OTHERS = "rivet_window_rows", "rivet_others"

_CHARACTERS = 60
"""The length to which a value is cut in messages."""


class WindowOfTable:
    """The window of a run, applied to a table with ``columns``. Raises RVT-322."""

    def __init__(self, window: Window, columns: Columns) -> None:
        self._partitions: Partitions = window.partitions
        self._window = window
        self._kind = partition_type(columns, window)

    def within(self, session: EngineSession, frame: Frame) -> Frame:
        """Return the rows of ``frame`` that lie in the window."""
        session.register(_ROWS, frame)
        return session.query(*rows_in_window(_ROWS, self._partitions, self._kind, self._window))

    def outside(self, session: EngineSession, frame: Frame) -> Frame:
        """Return all other rows of ``frame``, which the run must not change."""
        session.register(_ROWS, frame)
        return session.query(*rows_outside(_ROWS, self._partitions, self._kind, self._window))

    def condition(self) -> tuple[Condition, Mapping[str, Any]]:
        """Return the condition that a row of the table lies in the window, and the parameters that it needs."""
        return in_window(self._partitions, self._kind, self._window)

    def parted(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Return the query that adds to each row of a relation its part of the table, and the query's parameters."""
        return parted_by_window(name, self._partitions, self._kind, self._window)

    def counted(
        self, session: EngineSession, frame: Frame, statistics: Statistics, shows_values: bool
    ) -> dict[str, int]:
        """Return the row count of each partition in ``frame``. Raises RVT-512 for rows that lie in none of them.

        If the window is one partition, and the statistics prove that all rows lie in it, nothing is read.
        """
        keys = self._window.keys
        if len(keys) == 1 and self._bounds_are_exact and _proven(statistics, self._column, self._intervals()):
            return {keys[0]: statistics.rows}
        counts = rows_by_partition(session, frame, ((self._column, self._kind),), self._window)
        if sum(counts.values()) != statistics.rows:
            raise self._rows_outside(session, frame, statistics.rows - sum(counts.values()), shows_values)
        return counts

    def _rows_outside(self, session: EngineSession, frame: Frame, count: int, shows_values: bool) -> RivetError:
        message = f"{count} rows of the batch lie outside of {self._window}"
        if shows_values:
            session.register(_OTHERS, self.outside(session, frame))
            examples = session.rows(distinct_values([self._column], _OTHERS, 3))
            texts = ("NULL" if row[self._column] is None else str(row[self._column]) for row in examples)
            message += f": their {self._column} is {', '.join(shorten_text(text, _CHARACTERS) for text in texts)}"
        return RivetError("RVT-512", message)

    def affected(self, wholly: bool) -> Affected:
        """Return the rows of the table that the run may change; ``wholly`` if it replaces all of them."""
        ranges = tuple((interval,) for interval in self._intervals())
        return Affected((self._column,), ranges, wholly and self._bounds_are_exact)

    @property
    def _column(self) -> str:
        return self._partitions.column

    @property
    def _bounds_are_exact(self) -> bool:
        """Whether the greatest value within the window is known; for dates as text only the first beyond it is."""
        return not self._partitions.of_time or self._kind != "string"

    def _intervals(self) -> list[Interval]:
        if not self._partitions.of_time:
            values = [_value(key, self._kind) for key in self._window.keys]
            return [Interval(value, value) for value in values if value is not None]
        zone = ZoneInfo(self._partitions.timezone)
        first = _plain(lower_bound(self._window.bounds[0], self._kind, zone), self._kind)
        beyond = _plain(upper_bound(self._window.bounds[-1], self._kind, zone), self._kind)
        steps = {"date": timedelta(days=1), "string": None}
        step = steps.get(self._kind, timedelta(microseconds=1))
        return [Interval(first, beyond if step is None else beyond - step)]


def _plain(bound: Any, kind: str) -> Any:
    """Return a bound in the type of the values in footers; queries take that of a TIMESTAMP_NTZ as text."""
    return datetime.fromisoformat(bound) if kind == "timestamp_ntz" else bound


def _value(key: str, kind: str) -> Any:
    """Return the value of a static partition's column; None if no value of its type has that text."""
    try:
        return _VALUES.get(kind, int)(key)
    except (ValueError, KeyError):
        return None


def _boolean(key: str) -> bool:
    return {"true": True, "false": False}[key]


_VALUES: Mapping[str, Callable[[str], Any]] = {"string": str, "boolean": _boolean, "date": date.fromisoformat}
"""Converters of the text of a key, by the type of the column; all other types are whole numbers."""


def _proven(statistics: Statistics, column: str, allowed: list[Interval]) -> bool:
    if statistics.rows == 0:
        return True
    known = interval_of(statistics, column)
    return known is not None and not known.nulls and any(interval.contains(known) for interval in allowed)
