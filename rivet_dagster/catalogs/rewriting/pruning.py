"""Pruning: which rows of the base a write may change, as few as statistics and the values of the batch can tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rivet_dagster.catalogs.rewriting.intervals import (
    EVERYTHING,
    NOTHING,
    NULL,
    REPLACED,
    Affected,
    Interval,
    interval_of,
)
from rivet_dagster.catalogs.rewriting.plans import identity, partition_columns
from rivet_dagster.model.storage import Statistics
from rivet_dagster.model.write_plan import Append, AppendNewer, History, ReplaceAll, WritePlan

MOST_VALUES = 1000
"""So many different values of partition columns are told apart; of more only their minimum and maximum count."""

Distinct = Callable[[Sequence[str], int], Sequence[Mapping[str, Any]]]
"""The different values of columns among the incoming rows, up to a number of them."""


def affected(plan: WritePlan, incoming: Statistics, distinct: Distinct) -> Affected:
    """Return what the ``incoming`` rows may change in a table whose columns stay as they are."""
    if isinstance(plan, Append | AppendNewer):
        return NOTHING
    if isinstance(plan, ReplaceAll):
        return REPLACED
    if incoming.rows == 0:
        return NOTHING
    if isinstance(plan, History):
        return _range(plan.keys, incoming)
    columns = partition_columns(plan)
    return _values(columns, incoming, distinct) if columns else _range(identity(plan), incoming)


def _values(columns: tuple[str, ...], incoming: Statistics, distinct: Distinct) -> Affected:
    only = tuple(interval_of(incoming, column) for column in columns)
    if all(interval is not None and interval.is_point for interval in only):
        return Affected(columns, (only,), wholly=True)
    rows = distinct(columns, MOST_VALUES + 1)
    if len(rows) > MOST_VALUES:
        return _range(columns, incoming)
    return Affected(columns, tuple(tuple(_point(row[column]) for column in columns) for row in rows), wholly=True)


def _point(value: Any) -> Interval:
    return NULL if value is None else Interval(value, value)


def _range(columns: tuple[str, ...], incoming: Statistics) -> Affected:
    """From the minimum to the maximum of each column."""
    interval = tuple(interval_of(incoming, column) for column in columns)
    return Affected(columns, (interval,)) if any(interval) else EVERYTHING
