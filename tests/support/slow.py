"""Queries with a given duration and number of tasks."""

from __future__ import annotations

import pytest

TICK = 0.2


def sleeping(milliseconds: str) -> str:
    """Return an expression that takes that long for each row."""
    return f"java_method('java.lang.Thread', 'sleep', {milliseconds})"


TWO_STAGES = f"""
SELECT k, n, {sleeping("400L + k")} AS slept
FROM (
  SELECT k, count(slept) AS n
  FROM (SELECT id % 4 AS k, {sleeping("200L + id")} AS slept FROM range(0, 8, 1, 8))
  GROUP BY k
)
"""
"""Eight tasks before the shuffle, then as many as there are shuffle partitions, unless Spark coalesces some."""


def poll_often(monkeypatch: pytest.MonkeyPatch, seconds: float = TICK) -> None:
    """Poll progress several times a second, or every ``seconds``."""
    for module in ("waiting", "pyspark.progress"):
        monkeypatch.setattr(f"rivet_dagster.engines.{module}.TICK_SECONDS", seconds)
