"""Pruning: the rows of the base that a write may change, by the statistics and the values of the incoming rows."""

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
"""Up to this number of distinct values of partition columns each counts; beyond it only their min and max."""

Distinct = Callable[[Sequence[str], int], Sequence[Mapping[str, Any]]]
"""Given columns and a maximum number, the distinct values of these columns in the incoming rows."""


def affected(plan: WritePlan, incoming: Statistics, distinct: Distinct) -> Affected:
    """Return the rows that the ``incoming`` rows may change in a table whose columns do not change."""
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
    """Return the range from the minimum to the maximum of each column."""
    interval = tuple(interval_of(incoming, column) for column in columns)
    return Affected(columns, (interval,)) if any(interval) else EVERYTHING
