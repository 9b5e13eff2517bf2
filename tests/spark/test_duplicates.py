"""Rows of a batch with the same key: which one wins, and which keys are ambiguous."""

from __future__ import annotations

from typing import Any

import pytest

from rivet_dagster.compiler.targets import write_plan
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.model.write_plan import Upsert
from rivet_dagster.model.write_strategy import WriteStrategy
from rivet_dagster.sql.write_strategies.duplicates import conflicts, latest
from rivet_dagster.sql.write_strategies.trees import column, text

COLUMNS = ("id", "place", "row")
"""A key, an order and a value, with names that the queries also use internally."""

CASES: list[tuple[str, tuple[str, ...], list[tuple[Any, Any]], Any]] = [
    ("a row alone counts", (), [(1, "a")], "a"),
    ("rows that are equal are one", (), [(1, "a"), (1, "a")], "a"),
    ("NULL equals NULL", (), [(None, None), (None, None)], None),
    ("unequal rows without an order are a conflict", (), [(1, "a"), (2, "a")], ...),
    ("the greatest order counts", ("place",), [(1, "a"), (3, "b"), (2, "c")], "b"),
    ("NULL is the least order", ("place",), [(None, "a"), (-5, "b")], "b"),
    ("NULL alone is an order", ("place",), [(None, "a"), (None, "a")], "a"),
    ("a tie for the greatest is a conflict", ("place",), [(2, "a"), (2, "b"), (1, "c")], ...),
    ("a tie of equal rows is none", ("place",), [(2, "a"), (2, "a"), (1, "c")], "a"),
    ("a tie below the greatest is none", ("place",), [(2, "a"), (1, "b"), (1, "c")], "a"),
    ("a tie of NULL orders is a conflict", ("place",), [(None, "a"), (None, "b")], ...),
    ("the next column decides a tie", ("place", "row"), [(2, "a"), (2, "b"), (1, "z")], "b"),
    ("the next column may be NULL", ("place", "row"), [(2, None), (2, "a")], "a"),
]


@pytest.fixture
def batch(session: PySparkSession):
    """Return a function that registers a batch of rows."""

    def register(rows: list[tuple[Any, ...]]) -> None:
        session.register("batch", session.spark.createDataFrame(rows, "id STRING, place INT, row STRING"))

    return register


@pytest.mark.parametrize("order_by", [(), ("place",), ("place", "row")], ids=" ".join)
def test_duplicates_are_resolved_or_their_keys_are_shown(
    session: PySparkSession, batch, order_by: tuple[str, ...]
) -> None:
    cases = {name: (rows, winner) for name, order, rows, winner in CASES if order == order_by}
    null_key: list[tuple[Any, ...]] = [(None, 7, "n"), (None, 7, "n")]
    batch([*null_key, *[(name, *row) for name, (rows, _) in cases.items() for row in rows]])
    shown = session.rows(text(conflicts("batch", [column("id")], order_by, COLUMNS)))
    assert {row["id"] for row in shown} == {name for name, (_, winner) in cases.items() if winner is ...}
    found = session.rows(text(latest("batch", [column("id")], order_by, COLUMNS)))
    assert len(found) == len(cases) + 1
    decided = {row["id"]: row["row"] for row in found if row["id"] not in {row["id"] for row in shown}}
    assert decided == {None: "n"} | {name: winner for name, (_, winner) in cases.items() if winner is not ...}


def test_ambiguous_null_keys_conflict_and_ten_keys_are_shown(session: PySparkSession, batch) -> None:
    batch([(None, 1, "a"), (None, 1, "b")])
    assert session.rows(text(conflicts("batch", [column("id")], (), COLUMNS))) == [{"id": None}]
    batch([(str(n), 1, value) for n in range(12) for value in "ab"])
    shown = session.rows(text(conflicts("batch", [column("id")], (), COLUMNS)))
    assert len({row["id"] for row in shown}) == len(shown) == 10


def order_of(**options: Any) -> tuple[str, ...]:
    """Return the order in the write plan of a merge."""
    plan = write_plan(WriteStrategy("merge", options={"key_columns": ("id",), **options}))
    assert isinstance(plan, Upsert)
    return plan.order_by


def test_the_watermark_is_the_default_order():
    assert order_of(watermark_column="at") == ("at",)
    assert order_of(watermark_column="at", order_by=("seq", "at")) == ("seq", "at")
    assert order_of() == ()
