"""Partitions as Dagster's partitions definitions, and the window of partitions that a run covers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any

import dagster as dg

from rivet_dagster.errors import RivetError
from rivet_dagster.model.partitions import DAILY, HOURLY, MONTHLY, WEEKLY, Partitions, Window

_OF_TIME: dict[str, Any] = {
    HOURLY: dg.HourlyPartitionsDefinition,
    DAILY: dg.DailyPartitionsDefinition,
    WEEKLY: dg.WeeklyPartitionsDefinition,
    MONTHLY: dg.MonthlyPartitionsDefinition,
}


@cache
def partitions_definition(partitions: Partitions) -> dg.PartitionsDefinition[str]:
    """Return Dagster's partitions definition with the same keys.

    >>> partitions_definition(Partitions("monthly", "day", "2024-01-15", "2024-04-01")).get_partition_keys()
    ['2024-02-01', '2024-03-01']
    """
    if partitions.start is None:
        return dg.StaticPartitionsDefinition(list(partitions.values))
    end = datetime.fromisoformat(partitions.end) if partitions.end is not None else None
    definition: dg.PartitionsDefinition[str] = _OF_TIME[partitions.type](
        start_date=datetime.fromisoformat(partitions.start), end_date=end, timezone=partitions.timezone
    )
    return definition


def last_whole_partition(definition: dg.TimeWindowPartitionsDefinition, time: datetime, offset: int = 0) -> str | None:
    """Return the key of the last partition that has ended by ``time``, or of the ``offset``-th before it, if any.

    >>> days = dg.DailyPartitionsDefinition(start_date="2024-01-01", timezone="Europe/Berlin")
    >>> midnight = datetime(2024, 1, 3, 23, tzinfo=UTC)
    >>> [last_whole_partition(days, midnight, offset) for offset in (0, 2, 3)]
    ['2024-01-03', '2024-01-01', None]
    """
    end = time if definition.end is None else min(time, definition.end)
    for _ in range(offset + 1):
        span = definition.get_prev_partition_window(end)
        if span is None:
            return None
        end = span.start
    return definition.get_partition_keys_in_time_window(span)[0]


def definition_text(definition: dg.PartitionsDefinition[str]) -> str:
    """Return a text that is the same for equal definitions only.

    >>> days = dg.DailyPartitionsDefinition(start_date="2024-01-01")
    >>> definition_text(days) == definition_text(partitions_definition(Partitions("daily", "day", "2024-01-01")))
    True
    """
    if isinstance(definition, dg.MultiPartitionsDefinition):
        parts = {part.name: definition_text(part.partitions_def) for part in definition.partitions_defs}
        return json.dumps(["multi", parts], sort_keys=True)
    if isinstance(definition, dg.DynamicPartitionsDefinition):
        return json.dumps(["dynamic", definition.name])
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        bounds = [str(time) if time else None for time in (definition.start, definition.end)]
        details = (definition.cron_schedule, definition.fmt, definition.end_offset, definition.exclusions)
        return json.dumps(["time", definition.timezone, *bounds, *map(str, details)])
    return json.dumps(["static", *definition.get_partition_keys()])


def run_window(context: dg.AssetExecutionContext, partitions: Partitions | None) -> Window | None:
    """Return the window of partitions that the run covers; None if the step's joints have no partitions.

    Raises RVT-114 if the run names no partition.
    """
    if partitions is None:
        return None
    if not context.has_partition_key and not context.has_partition_key_range:
        raise RivetError("RVT-114", f"the joint has partitions ({partitions}), and the run names none of them")
    return window(partitions, context.partition_keys)


def window(partitions: Partitions, keys: Sequence[str]) -> Window:
    """Return the window of ``keys``. Raises ValueError if time partitions do not follow one another without gaps."""
    definition = partitions_definition(partitions)
    text = definition_text(definition)
    if not isinstance(definition, dg.TimeWindowPartitionsDefinition):
        return Window(partitions, tuple(keys), definition=text)
    spans = [definition.time_window_for_partition_key(key) for key in keys]
    # In UTC, since Python compares the two times of a repeated hour as equal.
    bounds = [(span.start.astimezone(UTC), span.end.astimezone(UTC)) for span in spans]
    for (_, end), (start, _) in pairwise(bounds):
        if end != start:
            raise ValueError(f"between {end} and {start} there are partitions left out")
    return Window(partitions, tuple(keys), (*(start for start, _ in bounds), bounds[-1][1]), text)
