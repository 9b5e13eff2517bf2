"""What the footers of Parquet files prove is what the rows say."""

import datetime
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rivet_dagster.catalogs.filesystem.footers import read_statistics
from rivet_dagster.checks.registry import kind_of
from rivet_dagster.model import proof
from rivet_dagster.model.check import Check
from rivet_dagster.model.storage import ColumnStatistics, Statistics

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


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    rows=st.lists(st.fixed_dictionaries(CELLS), max_size=8),
    split=st.integers(0, 8),
    group=st.integers(1, 4),
    a=st.integers(-4, 4),
    b=st.integers(-4, 4),
)
def test_what_is_proven_is_true(tmp_path: Path, rows: list[dict], split: int, group: int, a: int, b: int) -> None:
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
            assert proven == 0, sql  # it is no use if it proves nothing


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
def test_what_bounds_cannot_tell_is_left_to_the_rows(tmp_path: Path, sql: str) -> None:
    row = {"n": 1, "Big": 1, "x": math.nan, "s": "a"}
    pq.write_table(pa.Table.from_pylist([row], pa.schema(COLUMNS)), tmp_path / "t.parquet")
    assert proven_violations(check("expression", sql=sql), read_statistics([tmp_path / "t.parquet"])) is None


def test_files_without_statistics_prove_nothing_but_their_rows(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, None]}), tmp_path / "t.parquet", write_statistics=False)
    known = read_statistics([tmp_path / "t.parquet"])
    assert known.values == {"n": ColumnStatistics()}
    assert proven_violations(check("not_null", columns=("n",)), known) is None
    assert proven_violations(check("row_count", max=1), known) == 1


def test_nested_columns_and_those_of_another_kind(tmp_path: Path) -> None:
    table = pa.table({
        "day": [datetime.date(2026, 1, 1), None],
        "pair": [{"a": 1}, None],
        "xs": [[1], []],
        "price": pa.array([1, 2], pa.decimal128(9, 2)),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    known = read_statistics([tmp_path / "t.parquet"])
    assert known.values.keys() == {"day", "price"}
    assert proven_violations(check("not_null", columns=("day",)), known) == 1
    assert proven_violations(check("not_null", columns=("pair",)), known) is None
    for sql in ("day > 0", "price > 0"):
        assert proven_violations(check("expression", sql=sql), known) is None
