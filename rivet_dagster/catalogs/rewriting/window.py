"""What a window of partitions means for writing: which rows may come, which may go, and how many each partition has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from rivet_dagster.catalogs.partition_rows import partition_type, rows_by_partition
from rivet_dagster.catalogs.rewriting.intervals import Affected, Interval, interval_of
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import shortened
from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.model.storage import Statistics
from rivet_dagster.sql.partition_filter import lower_bound, rows_in_window, rows_outside, upper_bound
from rivet_dagster.sql.write_strategies.layout import parted_by_window
from rivet_dagster.sql.write_strategies.relations import Columns, distinct_values

_ROWS, _OTHERS = "rivet_window_rows", "rivet_others"

_CHARACTERS = 60
"""How much of a value is shown."""


class WindowOfTable:
    """The window of a run in a table that has ``columns``. Raises RVT-322."""

    def __init__(self, window: Window, columns: Columns) -> None:
        self._partitions: Partitions = window.partitions
        self._window = window
        self._kind = partition_type(columns, window)

    def within(self, session: EngineSession, frame: Frame) -> Frame:
        """The rows of ``frame`` that the run is about."""
        session.register(_ROWS, frame)
        return session.query(*rows_in_window(_ROWS, self._partitions, self._kind, self._window))

    def outside(self, session: EngineSession, frame: Frame) -> Frame:
        """All other rows of ``frame``, which the run must leave alone."""
        session.register(_ROWS, frame)
        return session.query(*rows_outside(_ROWS, self._partitions, self._kind, self._window))

    def parted(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """The query that says of each row of a relation which part of the table it belongs to; its parameters."""
        return parted_by_window(name, self._partitions, self._kind, self._window)

    def counted(
        self, session: EngineSession, frame: Frame, statistics: Statistics, shows_values: bool
    ) -> dict[str, int]:
        """How many rows of ``frame`` each partition has; raises RVT-512 where one lies in none of them.

        Where the statistics prove that all lie in the only one nothing is read.
        """
        keys = self._window.keys
        if len(keys) == 1 and self._bounds_are_exact and _proven(statistics, self._column, self._intervals()):
            return {keys[0]: statistics.rows}
        counts = rows_by_partition(session, frame, ((self._column, self._kind),), self._window)
        if sum(counts.values()) != statistics.rows:
            raise self._others(session, frame, statistics.rows - sum(counts.values()), shows_values)
        return counts

    def _others(self, session: EngineSession, frame: Frame, count: int, shows_values: bool) -> RivetError:
        message = f"{count} rows of the batch lie outside of {self._window}"
        if shows_values:
            session.register(_OTHERS, self.outside(session, frame))
            some = session.rows(distinct_values([self._column], _OTHERS, 3))
            texts = ("NULL" if row[self._column] is None else str(row[self._column]) for row in some)
            message += f": their {self._column} is {', '.join(shortened(text, _CHARACTERS) for text in texts)}"
        return RivetError("RVT-512", message)

    def affected(self, wholly: bool) -> Affected:
        """What the run may change of the table; ``wholly`` where all of it goes."""
        ranges = tuple((interval,) for interval in self._intervals())
        return Affected((self._column,), ranges, wholly and self._bounds_are_exact)

    @property
    def _column(self) -> str:
        return self._partitions.column

    @property
    def _bounds_are_exact(self) -> bool:
        """Of texts of dates the greatest within a window is not known, only the least beyond it."""
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
    """A bound as the footers of files tell such values: a wall clock is bound as text."""
    return datetime.fromisoformat(bound) if kind == "timestamp_ntz" else bound


def _value(key: str, kind: str) -> Any:
    """The value of a static partition's column; None where no value has that text."""
    try:
        return _VALUES.get(kind, int)(key)
    except (ValueError, KeyError):
        return None


def _boolean(key: str) -> bool:
    return {"true": True, "false": False}[key]


_VALUES: Mapping[str, Callable[[str], Any]] = {"string": str, "boolean": _boolean, "date": date.fromisoformat}
"""From the text of a key, by the type of the column; all other types are whole numbers."""


def _proven(statistics: Statistics, column: str, allowed: list[Interval]) -> bool:
    if statistics.rows == 0:
        return True
    there = interval_of(statistics, column)
    return there is not None and not there.nulls and any(interval.contains(there) for interval in allowed)
