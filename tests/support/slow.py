"""Queries that take the time they are told to take, in as many tasks as they are told to."""

from __future__ import annotations

import pytest

TICK = 0.2


def sleeping(milliseconds: str) -> str:
    """An expression that takes so long a row."""
    return f"java_method('java.lang.Thread', 'sleep', {milliseconds})"


TWO_STAGES = f"""
SELECT k, n, {sleeping("400L + k")} AS slept
FROM (
  SELECT k, count(slept) AS n
  FROM (SELECT id % 4 AS k, {sleeping("200L + id")} AS slept FROM range(0, 8, 1, 8))
  GROUP BY k
)
"""
"""Eight tasks before the shuffle; after it as many as there are shuffle partitions, unless Spark puts some together."""


def ask_often(monkeypatch: pytest.MonkeyPatch, seconds: float = TICK) -> None:
    """Let progress be told several times a second, or so often."""
    for module in ("waiting", "stages"):
        monkeypatch.setattr(f"rivet_dagster.engines.pyspark.{module}.TICK_SECONDS", seconds)
