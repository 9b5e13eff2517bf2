"""Runs of scd2 on an engine, applied like a write: the unchanged rows of the target, and the changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb
from sqlglot import exp, parse_one

from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.sql.write_strategies import history_keys, scd2
from support.joint_by_joint import QUICK
from support.scd2_model import Row, Scd2

VERSION_TYPES = ("TIMESTAMP", "TIMESTAMP", "BOOLEAN")
DUCKDB_TYPES = {"TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP"}


@dataclass(frozen=True)
class Outcome:
    """The target's rows after a run, and the new or changed rows among them."""

    rows: list[Row]
    inserted: list[Row]
    updated: list[Row]

    @property
    def counts(self) -> tuple[int, int]:
        return len(self.inserted), len(self.updated)


class Spark:
    """Spark, for which the queries are written."""

    def __init__(self, session: PySparkSession) -> None:
        self._session = session
        for name, value in QUICK.items():
            session.spark.conf.set(name, value)

    def register(self, name: str, rows: Sequence[Row], types: Mapping[str, str]) -> None:
        """Create a view with columns of Spark's types."""
        schema = ", ".join(f"`{column}` {type_}" for column, type_ in types.items())
        values: list[Any] = [tuple(row[column] for column in types) for row in rows]
        self._session.register(name, self._session.spark.createDataFrame(values, schema))

    def rows(self, sql: str, run: datetime) -> list[Row]:
        """Return the rows of a query for a run that started at that time."""
        return self._session.rows(sql, {"run_started_at": run})


class DuckDb:
    """An engine without a JVM, for queries translated by sqlglot."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET TimeZone = 'Europe/Berlin'")

    def register(self, name: str, rows: Sequence[Row], types: Mapping[str, str]) -> None:
        """Create a table with columns of Spark's types."""
        columns = ", ".join(f'"{column}" {DUCKDB_TYPES.get(type_, type_)}' for column, type_ in types.items())
        self._connection.execute(f'CREATE OR REPLACE TABLE "{name}" ({columns})')
        if rows:
            row_of_places = f"({', '.join('?' for _ in types)})"
            places = ", ".join([row_of_places] * len(rows))
            values = [row[column] for row in rows for column in types]
            self._connection.execute(f'INSERT INTO "{name}" VALUES {places}', values)

    def rows(self, sql: str, run: datetime) -> list[Row]:
        """Return the rows of a query for a run that started at that time."""
        tree = parse_one(sql, read="databricks")
        started_at = exp.cast(exp.Literal.string(run.isoformat()), "timestamptz")
        for placeholder in list(tree.find_all(exp.Placeholder)):
            placeholder.replace(started_at.copy())
        cursor = self._connection.execute(tree.sql(dialect="duckdb"))
        names = [column[0] for column in cursor.description or ()]
        return [{name: _in_utc(value) for name, value in zip(names, row, strict=True)} for row in cursor.fetchall()]


def _in_utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


@dataclass(frozen=True)
class Runs:
    """Runs of one strategy on an engine; ``types`` are Spark's, one for each column of the batch."""

    engine: Spark | DuckDb
    strategy: Scd2
    types: Mapping[str, str]

    def run(
        self, history: Sequence[Row], batch: Sequence[Row], run: datetime, has_new_keys: bool | None = None
    ) -> Outcome:
        """Apply a batch without ambiguous keys to ``history``, by ``plain_changes`` if ``has_new_keys`` is given."""
        self._register(history, batch)
        columns, plan = self.strategy.history_columns, self.strategy.plan
        query = scd2.changes(columns, plan)
        if has_new_keys is not None:
            query = scd2.plain_changes(columns, plan, has_new_keys)
        found = self.engine.rows(query, run)
        kinds: dict[str, list[Row]] = {scd2.INSERT: [], scd2.UPDATE: []}
        for row in found:
            kinds[row.pop(scd2.CHANGE)].append(row)
        updated = [self.strategy.identity(row) for row in kinds[scd2.UPDATE]]
        rows = [row for row in history if self.strategy.identity(row) not in updated] + found
        assert len(rows) == len(history) + len(kinds[scd2.INSERT]), "an update of what is not there"
        return Outcome(rows, kinds[scd2.INSERT], kinds[scd2.UPDATE])

    def unusual_keys(
        self, history: Sequence[Row], batch: Sequence[Row], run: datetime, most: int
    ) -> list[tuple[Any, ...]]:
        """Return the keys of the batch that are late or have several rows, each with LATE, SEVERAL and KNOWN."""
        self._register(history, batch)
        found = self.engine.rows(
            history_keys.unusual_keys(self.strategy.history_columns, self.strategy.plan, most), run
        )
        return [tuple(row.values()) for row in found]

    def conflicts(self, batch: Sequence[Row], run: datetime) -> list[Row]:
        """Return the ambiguous keys, as far as they are shown."""
        self._register([], batch)
        return self.engine.rows(history_keys.conflicts(self.strategy.history_columns, self.strategy.plan), run)

    def _register(self, history: Sequence[Row], batch: Sequence[Row]) -> None:
        own = (self.strategy.valid_from, self.strategy.valid_to, self.strategy.is_current)
        self.engine.register("batch", batch, self.types)
        self.engine.register("target", history, {**self.types, **dict(zip(own, VERSION_TYPES, strict=True))})
