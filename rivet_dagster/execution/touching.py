"""Which rows of the version before a write may change: as few as statistics and the values that came can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rivet_dagster.model.storage import EVERYTHING, NOTHING, REPLACED, ColumnStatistics, Interval, Statistics, Touched
from rivet_dagster.model.write_strategy import WriteStrategy

MOST_VALUES = 1000
"""So many different values of partition columns are told apart; of more only the least and the greatest count."""

Distinct = Callable[[Sequence[str], int], Sequence[Mapping[str, Any]]]
"""The different values of columns among the incoming rows, up to a number of them."""


def touched(strategy: WriteStrategy, incoming: Statistics, distinct: Distinct) -> Touched:
    """What the ``incoming`` rows may replace in a table whose columns stay as they are."""
    if strategy.mode in ("append", "incremental_append"):
        return NOTHING
    if strategy.replaces_all:
        return REPLACED
    if incoming.rows == 0:
        return NOTHING
    if strategy.partition_columns:
        return _values(strategy.partition_columns, incoming, distinct)
    return _range(strategy.key_columns, incoming)


def _values(columns: tuple[str, ...], incoming: Statistics, distinct: Distinct) -> Touched:
    only = tuple(_bounds(incoming.values.get(column.lower(), ColumnStatistics()), incoming.rows) for column in columns)
    if all(interval is not None and interval.is_point for interval in only):
        return Touched(columns, (only,), wholly=True)
    found = distinct(columns, MOST_VALUES + 1)
    if len(found) > MOST_VALUES:
        return _range(columns, incoming)
    boxes = tuple(tuple(_point(row[column]) for column in columns) for row in found)
    return Touched(columns, boxes, wholly=True)


def _point(value: Any) -> Interval:
    return Interval(None, None, nulls=True) if value is None else Interval(value, value)


def _range(columns: tuple[str, ...], incoming: Statistics) -> Touched:
    """From the least to the greatest of each column."""
    box = tuple(_bounds(incoming.values.get(column.lower(), ColumnStatistics()), incoming.rows) for column in columns)
    return Touched(columns, (box,)) if any(box) else EVERYTHING


def _bounds(known: ColumnStatistics, rows: int) -> Interval | None:
    if known.least is None:
        return Interval(None, None, nulls=True) if known.nulls == rows else None
    return Interval(known.least, known.greatest, nulls=known.nulls != 0)
