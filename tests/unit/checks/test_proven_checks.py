"""Results proven by the footers of Parquet files equal those of the rows."""

import datetime
import math
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.torture import examples

from rivet_dagster.catalogs.filesystem.files.footers import read_statistics
from rivet_dagster.checks.contract import kind_of
from rivet_dagster.model import proof
from rivet_dagster.model.check import Check
from rivet_dagster.model.storage import ColumnStatistics, Statistics

D = Decimal
DAYS = [datetime.date(2024, 2, 28) + datetime.timedelta(days=n) for n in range(4)]
COLUMNS = {"n": pa.int32(), "Big": pa.int64(), "x": pa.float64(), "s": pa.string()}
CELLS = {
    "n": st.none() | st.integers(-3, 3),
    "Big": st.integers(-3, 3),
    "x": st.none() | st.sampled_from([-1.0, 0.0, 1.5, math.nan]),
    "s": st.none() | st.sampled_from(["", "a", "b"]),
}
BOUNDS = {
    "n > {0}": lambda v, a, b: v > a,
    "n >= {0}": lambda v, a, b: v >= a,
    "n < {0}": lambda v, a, b: v < a,
    "(n <= {0})": lambda v, a, b: v <= a,
    "n BETWEEN {0} AND {1}": lambda v, a, b: a <= v <= b,
    "n >= {0} AND n <= {1} -- both": lambda v, a, b: a <= v <= b,
}


def check(kind: str, **options: Any) -> Check:
    return Check(kind=kind, name="c", phase="assertion", options=options)


def proven_violations(judged: Check, known: Statistics) -> int | None:
    return proof.proven_violations(kind_of(judged).proof(), known)


@pytest.mark.slow
@settings(
    max_examples=examples(40, 200), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    rows=st.lists(st.fixed_dictionaries(CELLS), max_size=8),
    split=st.integers(0, 8),
    group=st.integers(1, 4),
    a=st.integers(-4, 4),
    b=st.integers(-4, 4),
)
def test_a_proven_result_equals_the_computed_one(
    tmp_path: Path, rows: list[dict], split: int, group: int, a: int, b: int
) -> None:
    files = []
    for number, part in enumerate((rows[:split], rows[split:])):
        files.append(tmp_path / f"{number}.parquet")
        pq.write_table(pa.Table.from_pylist(part, pa.schema(COLUMNS)), files[-1], row_group_size=group)
    known = read_statistics(files)
    for columns in (("n",), ("big",), ("s",), ("x",), ("n", "s"), ("Big", "BIG")):
        cells = [[{k.lower(): v for k, v in row.items()}[c.lower()] for c in columns] for row in rows]
        proven = proven_violations(check("not_null", columns=columns), known)
        assert proven in (None, sum(None in row for row in cells))
        assert proven is not None or len(columns) == 2
    for sql, holds in BOUNDS.items():
        broken = sum(row["n"] is not None and not holds(row["n"], a, b) for row in rows)
        proven = proven_violations(check("expression", sql=sql.format(a, b)), known)
        assert proven in (None, broken)
        if broken == 0 and any(row["n"] is not None for row in rows):
            assert proven == 0, sql  # a test in which nothing is proven would be useless


@pytest.mark.parametrize(
    "sql",
    [
        "x <= 2",
        "s < 5",
        "n + 1 > -9",
        "n > -9 OR n < 9",
        "NOT n > 9",
        "nope > 0",
        "t.n > -9",
        "n > 'a'",
        "n > (",
        "n = n",
    ],
)
def test_conditions_that_bounds_cannot_decide_need_the_rows(tmp_path: Path, sql: str) -> None:
    row = {"n": 1, "Big": 1, "x": math.nan, "s": "a"}
    pq.write_table(pa.Table.from_pylist([row], pa.schema(COLUMNS)), tmp_path / "t.parquet")
    assert proven_violations(check("expression", sql=sql), read_statistics([tmp_path / "t.parquet"])) is None


def test_files_without_statistics_prove_only_their_row_count(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, None]}), tmp_path / "t.parquet", write_statistics=False)
    known = read_statistics([tmp_path / "t.parquet"])
    assert known.values == {"n": ColumnStatistics()}
    assert proven_violations(check("not_null", columns=("n",)), known) is None
    assert proven_violations(check("row_count", max=1), known) == 1


def test_nested_columns_and_columns_of_other_types(tmp_path: Path) -> None:
    table = pa.table({
        "day": [datetime.date(2026, 1, 1), None],
        "pair": [{"a": 1}, None],
        "xs": [[1], []],
        "price": pa.array([1, 2], pa.decimal128(9, 2)),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    known = read_statistics([tmp_path / "t.parquet"])
    assert known.values.keys() == {"day", "pair.a", "price"}
    assert proven_violations(check("not_null", columns=("day",)), known) == 1
    assert proven_violations(check("not_null", columns=("pair",)), known) is None
    assert proven_violations(check("not_null", columns=("pair.A",)), known) == 1
    for sql in ("day > 0", "price > 0", "pair > 0", "day > '2020-01-01'"):
        assert proven_violations(check("expression", sql=sql), known) is None


TYPES = {
    "n": pa.int64(),
    "price": pa.decimal128(9, 2),
    "day": pa.date32(),
    "flag": pa.bool_(),
    "s": pa.string(),
    "x": pa.float64(),
    "place": pa.struct({"city": pa.string(), "zip": pa.int32()}),
}
VALUES: dict[str, list[Any]] = {
    "n": [-1, 0, 1, 2],
    "price": [D("-0.01"), D("0.00"), D("0.50"), D("7.00")],
    "day": DAYS,
    "flag": [False, True],
    "s": ["", "a", "b", "\u00e4"],
    "x": [-1.0, 0.0, 1.5, math.nan],
    "place": [{"city": "a", "zip": None}, {"city": None, "zip": 1}, {"city": "b", "zip": 2}],
}
HOLDS: dict[str, tuple[str, Any]] = {
    "n = 1": ("n", lambda v: v == 1),
    "n <> 0": ("n", lambda v: v != 0),
    "0.5 <= n": ("n", lambda v: v >= D("0.5")),
    "n IN (0, 1, -1)": ("n", lambda v: v in (0, 1, -1)),
    "n > -1 AND (n < 2 AND n <> 5)": ("n", lambda v: -1 < v < 2),
    "price >= 0": ("price", lambda v: v >= 0),
    "price > -0.01": ("price", lambda v: v > D("-0.01")),
    "price BETWEEN 0 AND 0.500": ("price", lambda v: 0 <= v <= D("0.5")),
    "price IN (0.5, 7)": ("price", lambda v: v in (D("0.5"), 7)),
    "day >= DATE '2024-02-29'": ("day", lambda v: v >= DAYS[1]),
    "CAST('2024-03-01' AS DATE) > day": ("day", lambda v: v < DAYS[2]),
    "day BETWEEN DATE '2024-02-28' AND DATE '2024-02-29'": ("day", lambda v: v <= DAYS[1]),
    "flag = true": ("flag", lambda v: v),
    "flag IN (true, false)": ("flag", lambda v: True),
    "s = 'a'": ("s", lambda v: v == "a"),
    "s IN ('a', 'b')": ("s", lambda v: v in ("a", "b")),
    "s > 'a'": ("s", lambda v: v > "a"),
    "x >= -1": ("x", lambda v: not v < -1),
    "x = 0": ("x", lambda v: v == 0),
}
LISTED: dict[str, list[Any]] = {
    "n": [0, 1, 2],
    "price": [0.5, 7],
    "flag": [True],
    "s": ["a"],
    "x": [0.0, 1.5],
}


@pytest.mark.slow
@settings(max_examples=examples(30, 150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    chosen=st.fixed_dictionaries({name: st.lists(st.sampled_from(v), min_size=1) for name, v in VALUES.items()}),
    nulls=st.booleans(),
    count=st.integers(0, 5),
    seed=st.randoms(use_true_random=False),
)
def test_conditions_on_columns_of_every_type(
    tmp_path: Path, chosen: dict[str, list[Any]], nulls: bool, count: int, seed: random.Random
) -> None:
    rows = [{c: seed.choice([*v, *([None] if nulls else [])]) for c, v in chosen.items()} for _ in range(count)]
    file = tmp_path / "rows.parquet"
    table = pa.Table.from_pylist(rows, pa.schema(TYPES))
    pq.write_table(table, file, row_group_size=2, store_decimal_as_integer=True)
    known = read_statistics([file])
    for sql, (column, holds) in HOLDS.items():
        broken = sum(row[column] is not None and not holds(row[column]) for row in rows)
        assert proven_violations(check("expression", sql=sql), known) in (None, broken), sql
    for column, values in LISTED.items():
        broken = sum(row[column] is not None and row[column] not in values for row in rows)
        judged = check("accepted_values", column=column, values=tuple(values))
        assert proven_violations(judged, known) in (None, broken), column
    cities = sum(row["place"] is None or row["place"]["city"] is None for row in rows)
    assert proven_violations(check("not_null", columns=("Place.city",)), known) == cities


@pytest.mark.parametrize("sql", [sql for sql in HOLDS if not sql.startswith(("x", "s >"))])
def test_each_condition_can_be_proven(tmp_path: Path, sql: str) -> None:
    column, holds = HOLDS[sql]
    value = next(value for value in VALUES[column] if holds(value))
    table = pa.Table.from_pylist([{column: value}, {column: None}], pa.schema({column: TYPES[column]}))
    pq.write_table(table, tmp_path / "t.parquet", store_decimal_as_integer=True)
    assert proven_violations(check("expression", sql=sql), read_statistics([tmp_path / "t.parquet"])) == 0


@pytest.mark.parametrize(
    "sql",
    [
        "n < 1e3",  # is compared as a double, in which neighbouring values are equal
        "n < 1234567890123456789",
        "n < 1.0000000000000000000000000001",
        "s = 'a\\b'",  # with backslashes, which Spark interprets by a setting
        's = "a"',  # with double quotes, a name by another setting
        "day > DATE '2020-1-1'",
        "n > NULL",
        "n IN (SELECT 1)",
        "n IN (1, NULL)",
        "n IS NULL",
        "NOT (n > 9)",
        "n > (SELECT 0)",
    ],
)
def test_constants_that_engines_may_interpret_differently_prove_nothing(sql: str) -> None:
    assert kind_of(check("expression", sql=sql)).proof() is None


def test_an_interval_is_not_a_number() -> None:
    known = Statistics(1, 0, (("i", "interval year to month"),), {"i": ColumnStatistics(0, 1, 1)})
    assert proven_violations(check("expression", sql="i > 0"), known) is None
    assert proven_violations(check("accepted_values", column="i", values=(1,)), known) is None


def test_only_an_existing_column_can_be_all_null() -> None:
    known = Statistics(0, 0, (("n", "bigint"),), {"n": ColumnStatistics(0)})
    assert proven_violations(check("expression", sql="n > 0"), known) == 0
    assert proven_violations(check("expression", sql="nope > 0"), known) is None


@pytest.mark.parametrize(
    ("age", "zone", "proven"),
    [(1, datetime.UTC, 0), (3, datetime.UTC, None), (1, None, None)],
)
def test_the_newest_time(age: int, zone: datetime.tzinfo | None, proven: int | None) -> None:
    newest = datetime.datetime.now(zone) - datetime.timedelta(hours=age)
    known = Statistics(1, 0, values={"at": ColumnStatistics(0, newest, newest)})
    assert proven_violations(check("freshness", column="at", max_age=7200.0), known) == proven


def test_a_column_with_a_dot_in_its_name_is_not_a_nested_field(tmp_path: Path) -> None:
    table = pa.table({"a.b": [None, 1], "a": [{"b": 1}, {"b": 2}], "xs": [[1], []]})
    pq.write_table(table, tmp_path / "t.parquet")
    assert read_statistics([tmp_path / "t.parquet"]).values.keys() == set()
    pq.write_table(table.select(["a", "xs"]), tmp_path / "t.parquet")
    assert read_statistics([tmp_path / "t.parquet"]).values.keys() == {"a.b"}
