"""User input: empty lists, and long texts, which must be processed quickly."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from support.projects import sink, source, sql

from rivet_dagster.engines.pyspark.messages import summary
from rivet_dagster.errors import RivetError
from rivet_dagster.model import convert
from rivet_dagster.sql.error import SqlError
from rivet_dagster.sql.parsing.lexer import pieces

LONG = 200_000


@pytest.mark.parametrize(
    "strategy",
    [
        {"mode": "merge", "key_columns": []},
        {"mode": "merge", "key_columns": ["id", "ID"]},
        {"mode": "merge", "key_columns": [" "]},
        {"mode": "merge", "key_columns": "id", "order_by": []},
        {"mode": "delete_insert", "partition_by": []},
        {"mode": "scd2", "key_columns": "id", "track_columns": []},
    ],
)
def test_column_lists_of_strategies_are_not_empty_and_unique(strategy: dict[str, Any]) -> None:
    with pytest.raises(RivetError, match=r"RVT-204 .* a wrong `(key_columns|order_by|partition_by|track_columns)`"):
        sink("out", "orders", write_strategy=strategy)


@pytest.mark.parametrize("columns", [[], {}, ["id", "ID"], [" "]])
def test_column_lists_of_checks_and_sources_are_not_empty_and_unique(columns: Any) -> None:
    for declare in (
        lambda: source("raw", columns=columns),
        lambda: sql("a", "SELECT 1", quality={"assertions": [{"type": "unique", "columns": columns}]}),
    ):
        with pytest.raises(RivetError, match=r"RVT-204 .* `columns` (must|names) "):
            declare()


@pytest.mark.parametrize(
    "make",
    [
        lambda: source("raw", owners=["a@" + "a." * LONG + "@"]),
        lambda: source("raw", owners=["a" * LONG]),
        lambda: source("raw", tags={"a" * LONG: "b" * LONG}),
        lambda: source("raw", group="a/" * LONG),
        lambda: sink("out", "orders", write_strategy={"mode": "merge", "key_columns": ["id"] * LONG}),
        lambda: convert.seconds("1" * LONG),
    ],
)
def test_a_long_text_is_rejected_quickly(make: Callable[[], object]) -> None:
    begun = time.process_time()
    with pytest.raises((RivetError, ValueError)):
        make()
    assert time.process_time() - begun < 10  # quadratic algorithms would take minutes


def test_a_long_message_of_spark_is_parsed_quickly() -> None:
    begun = time.process_time()
    for text in (" " * LONG, "Caused by: x" + "\n" * LONG):
        summary(RuntimeError(text))
    assert time.process_time() - begun < 10


def test_a_long_message_of_spark_is_cut_after_its_secrets() -> None:
    shown = summary(
        RuntimeError(f"[CAST_INVALID_INPUT] The value '{'x' * 4_900} s3://key:{'w' * 200}@lake/a {'y' * LONG}'")
    )
    assert len(shown) == 5_000
    assert shown.endswith("y...")
    assert "s3://lake/a" in shown
    assert "www" not in shown


def test_a_duration_has_a_maximum() -> None:
    assert convert.seconds("36500d") == 36500 * 86400
    for text in ("36501d", "9" * 400 + "s", "15m\n", "\uff11\uff15m", "0s"):
        with pytest.raises(ValueError, match="must be "):
            convert.seconds(text)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["1", "1.", "a", "''", "\\'", "`", '"x', "-- \\\n", "- / * ", "1e+", "é/"])
def test_quotes_and_comments_in_a_long_text_are_found_quickly(part: str) -> None:
    started = time.perf_counter()
    with suppress(SqlError):
        pieces(part * LONG)
    assert time.perf_counter() - started < 5
