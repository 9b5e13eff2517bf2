"""The values of parameters that every run binds: when it started, and which partitions it covers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from rivet_dagster.engines.contract import Typed
from rivet_dagster.model.partitions import PARTITION_END, PARTITION_KEYS, PARTITION_START, Partitions
from rivet_dagster.sql.target import RUN_STARTED_AT

_NO_END = "9999-12-31"


def parameters_of_partitions(names: Sequence[str], partitions: Partitions | None) -> dict[str, Any]:
    """Return the values of those of ``names`` that every run binds: now, and the span of all partitions.

    Raise ValueError with the end of a sentence for the keys of partitions of time, of which a test has none.
    """
    values: dict[str, Any] = {}
    if RUN_STARTED_AT in names:
        values[RUN_STARTED_AT] = Typed(datetime.now(UTC), "timestamp")
    if partitions is None:
        return values
    if PARTITION_KEYS in names:
        if partitions.of_time:
            raise ValueError(f"reads :{PARTITION_KEYS}, and a test has no run of its partitions")
        values[PARTITION_KEYS] = list(partitions.values)
    zone = ZoneInfo(partitions.timezone)
    for name, text in ((PARTITION_START, partitions.start), (PARTITION_END, partitions.end or _NO_END)):
        if name in names and text is not None:
            values[name] = datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)
    return values
