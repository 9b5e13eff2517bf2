"""scd2 beyond the cases that each catalog passes: types and names of columns, and how Spark computes it."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.scd2_cases import TYPES, batch_of, strategy_of
from support.scd2_model import Row, Scd2
from support.scd2_runs import DuckDb, Runs, Spark

from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.errors import RivetError
from rivet_dagster.model.write_strategy import WriteStrategy
from rivet_dagster.sql.write_strategies import scd2
from rivet_dagster.testing.plan_cases.runs import BY_TIME, CLOSING, hour, started_at

KNOWN = strategy_of(BY_TIME)


def runs(session: PySparkSession, types: dict[str, str], **options: Any) -> Runs:
    """Return runs with columns of Spark's types; the key defaults to ``id``."""
    return Runs(Spark(session), Scd2(tuple(types), **{"keys": ("id",), **options}), types)


def spans(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((row["id"], row["valid_from"], row["valid_to"]) for row in rows)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("type_", "at"), [("DATE", date(2026, 7, 1)), ("TIMESTAMP_NTZ", datetime(2026, 7, 1))]
)  # fmt: skip
def test_dates_and_naive_times_are_in_the_session_time_zone(session: PySparkSession, type_: str, at: Any) -> None:
    prices = runs(session, {"id": "INT", "at": type_, "price": "INT"}, effective_at="at")
    (row,) = prices.run([], [{"id": 1, "at": at, "price": 1}], hour(100)).rows
    assert (row["at"], row["valid_from"]) == (at, datetime(2026, 6, 30, 22, tzinfo=UTC))
    assert prices.run([row], [{"id": 1, "at": at, "price": 1}], hour(100)).counts == (0, 0)
    later = prices.run([row], [{"id": 1, "at": at + timedelta(days=1), "price": 2}], hour(100))
    assert spans(later.updated) == [(1, row["valid_from"], row["valid_from"] + timedelta(days=1))]


@pytest.mark.nightly
def test_columns_may_have_internal_names_and_any_letter_case(session: PySparkSession) -> None:
    taken = ("ROW", "at", "is_new", "until", "bound", "begin", "end", "number", "first", "key_0", "found", "target")
    types = {"place": "INT", **dict.fromkeys(taken, "INT"), "present": "TIMESTAMP"}
    own = {"valid_from": "previous_at", "valid_to": "Closed to", "is_current": "newest"}
    known = runs(session, types, keys=("place",), effective_at="present", track_columns=("ROW",), **own)
    row = {**dict.fromkeys(types, 1), "present": hour(10)}
    first = known.run([], [row, {**row, "present": hour(20), "ROW": 2}], hour(100))
    last = known.run(first.rows, [{**row, "present": hour(30), "ROW": 2, "end": 5}], hour(200))
    assert last.counts == (0, 1)
    assert [(v["ROW"], v["end"], v["previous_at"], v["Closed to"], v["newest"]) for v in last.rows] == [
        (1, 1, hour(10), hour(20), False),
        (2, 5, hour(20), None, True),
    ]
    as_written = {"key_columns": ("PLACE",), "effective_at": "Present", "track_columns": ("row",)}
    as_written |= {name: column.upper() for name, column in own.items()}
    as_written = WriteStrategy("scd2", options=as_written).plan
    assert scd2.changes(known.strategy.history_columns, as_written) == scd2.changes(
        known.strategy.history_columns, known.strategy.plan
    )


def test_values_of_any_type_that_spark_compares(session: PySparkSession) -> None:
    types = {"id": "INT", "tags": "ARRAY<STRING>", "place": "STRUCT<a: INT, b: ARRAY<INT>>", "rate": "DOUBLE"}
    items = runs(session, {**types, "raw": "BINARY", "net": "DECIMAL(9, 2)"})
    row = {"tags": ["a", None], "place": (1, [None, 2]), "rate": math.nan, "raw": b"\0", "net": None}
    others = {"tags": ["a"], "place": (1, [3, 2]), "rate": 1.0, "raw": b"\1", "net": Decimal(0)}
    first = items.run([], [{**row, "id": key} for key in (0, 0, *range(1, 6))], hour(100))
    assert first.counts == (6, 0)
    history = [{**version, "place": row["place"]} for version in first.rows]  # a struct is written as a tuple
    changed = [{**row, "id": key, name: value} for key, (name, value) in enumerate(others.items(), 1)]
    second = items.run(history, [{**row, "id": 0}, *changed], hour(200))
    assert second.counts == (5, 5)
    assert {version["id"] for version in second.updated} == {1, 2, 3, 4, 5}


def test_a_map_is_rejected_before_anything_runs(session: PySparkSession) -> None:
    items = runs(session, {"id": "INT", "labels": "MAP<STRING, INT>"})
    with pytest.raises(RivetError, match="MAP<STRING, INT>") as caught:
        items.run([], [{"id": 1, "labels": {"a": 1}}], hour(100))
    assert caught.value.code == "RVT-503"


@pytest.mark.nightly
def test_a_batch_with_many_columns(session: PySparkSession) -> None:
    types = {"id": "INT", **{f"c{n}": "INT" for n in range(150)}}
    wide = runs(session, types)
    row = dict.fromkeys(types, 1)
    history = [{**row, "valid_from": hour(100), "valid_to": None, "is_current": True}]
    assert wide.run(history, [{**row, "c149": None}], hour(200)).counts == (1, 1)


def test_rows_of_one_batch_mean_what_they_mean_in_runs_of_their_own() -> None:
    """Each catalog passes the same cases in one run on Spark, in the conformance suite."""
    known = Runs(DuckDb(), KNOWN, TYPES)
    start = known.run([], batch_of(BY_TIME, 0), started_at(0)).rows
    batches = [sorted(batch_of(case, 1), key=lambda row: row["at"]) for case in BY_TIME.cases]
    at_once = known.run(start, [row for batch in batches for row in batch], started_at(1))
    history, inserted = start, 0
    for position in range(max(map(len, batches))):
        outcome = known.run(history, [batch[position] for batch in batches if position < len(batch)], started_at(1))
        history, inserted = outcome.rows, inserted + len(outcome.inserted)

    def in_order(rows: list[Row]) -> list[Row]:
        return sorted(rows, key=KNOWN.identity)

    assert in_order(history) == in_order(at_once.rows)
    assert inserted == len(at_once.inserted)


@pytest.mark.usefixtures("in_this_process")
def test_the_target_is_read_once_and_only_affected_rows_are_sorted(session: PySparkSession, tmp_path) -> None:
    spark = session.spark
    batch = "SELECT * FROM VALUES ('a', TIMESTAMP '2026-01-01', 1, 'x') AS batch (id, at, price, note)"
    session.register("batch", spark.sql(batch))
    version = "CAST(id AS STRING) AS id, TIMESTAMP '2025-01-01' AS at, 1 AS price, '' AS note"
    ends = "TIMESTAMP '2025-01-01' AS valid_from, CAST(NULL AS TIMESTAMP) AS valid_to, true AS is_current"
    spark.sql(f"SELECT {version}, {ends} FROM range(10)").write.parquet(str(tmp_path / "history"))
    session.register("target", spark.read.parquet(str(tmp_path / "history")))
    for strategy in (KNOWN, strategy_of(CLOSING)):
        frame = session.query(scd2.changes(strategy.history_columns, strategy.plan), {"run_started_at": hour(100)})
        plan = frame._jdf.queryExecution().executedPlan().toString()
        assert plan.count("FileScan parquet") == 1
        below_the_sweep = plan[plan.index("Union") :]
        assert "BroadcastHashJoin" in below_the_sweep
        assert below_the_sweep.index("BroadcastHashJoin") < below_the_sweep.index("FileScan parquet")
