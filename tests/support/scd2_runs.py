"""Runs of scd2 on Spark, applied as a write would: the target without what changes, and the changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.sql.write_strategies import scd2
from support.scd2_model import Row, Scd2

VERSION_TYPES = ("TIMESTAMP", "TIMESTAMP", "BOOLEAN")


@dataclass(frozen=True)
class Outcome:
    """The target's rows after a run, and how many versions are new and changed."""

    rows: list[Row]
    inserted: int
    updated: int


@dataclass(frozen=True)
class Runs:
    """Runs of one strategy; ``types`` are Spark's, one for each column of the batch."""

    session: PySparkSession
    strategy: Scd2
    types: Mapping[str, str]

    def run(self, history: Sequence[Row], batch: Sequence[Row], run: datetime) -> Outcome:
        """Apply a batch that has no conflicts to ``history``."""
        self.register(history, batch)
        found = self.session.rows(applied(self.strategy), {"run_started_at": run})
        kinds = Counter(row.pop(scd2.CHANGE) for row in found)
        return Outcome(found, kinds[scd2.INSERT], kinds[scd2.UPDATE])

    def conflicts(self, batch: Sequence[Row], run: datetime) -> list[Row]:
        """The keys that repeat without an order."""
        self.register([], batch)
        return self.session.rows(scd2.conflicts(self.strategy.history_columns, self.strategy.options))

    def register(self, history: Sequence[Row], batch: Sequence[Row]) -> None:
        """The views that the queries read."""
        own = (self.strategy.valid_from, self.strategy.valid_to, self.strategy.is_current)
        self._view("batch", batch, self.types)
        self._view("target", history, {**self.types, **dict(zip(own, VERSION_TYPES, strict=True))})

    def _view(self, name: str, rows: Sequence[Row], types: Mapping[str, str]) -> None:
        schema = ", ".join(f"`{column}` {type_}" for column, type_ in types.items())
        values: list[tuple[Any, ...]] = [tuple(row[column] for column in types) for row in rows]
        self.session.register(name, self.session.spark.createDataFrame(values, schema))


def applied(strategy: Scd2) -> str:
    """The target's rows after the batch, each with what became of it."""
    identity = " AND ".join(f"t.`{c}` <=> u.`{c}`" for c in (*strategy.keys, strategy.valid_from))
    columns = ", ".join(f"`{c}`" for c in strategy.history_columns)
    return f"""
        WITH changes AS ({scd2.changes(strategy.history_columns, strategy.options)})
        SELECT {columns}, 'kept' AS rivet_change FROM target AS t
        LEFT ANTI JOIN (SELECT * FROM changes WHERE rivet_change = 'update') AS u ON {identity}
        UNION ALL SELECT {columns}, rivet_change FROM changes
    """
