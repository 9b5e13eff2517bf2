"""What a test that has not passed shows, as text and as JSON."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal

from rivet_dagster.project_tests.results import Difference, NearRow, SchemaDifference, TestResult, explanation


def result(difference: Difference, message: str = "rows differ") -> TestResult:
    return TestResult("t", "tests/t.test.yaml", 3, "j", "failed", 0.25, difference, message)


def test_rows_stand_below_each_other_and_near_ones_in_pairs():
    ann, other = {"customer": "ann", "net": 10.0, "day": date(2026, 1, 2)}, {"customer": "ann", "net": None}
    other |= {"day": date(2026, 1, 2)}
    bob, eve = {"customer": "bob\n", "net": math.nan, "day": None}, {"customer": "", "net": 1e300, "day": None}
    difference = Difference((ann, bob), (other, eve), near=(NearRow(ann, other, ("net",)),), rows=5)
    assert explanation(result(difference)).splitlines() == [
        "rows differ",
        "    customer  net     day",
        "  - ann       10.0    2026-01-02  expected",
        "  + ann       NULL    2026-01-02  differs in net",
        "  - bob\\n     NaN     NULL        missing",
        "  + ''        1e+300  NULL        unexpected",
    ]


def test_columns_that_differ():
    changes = (
        SchemaDifference("a", "int", "bigint"),
        SchemaDifference("b", "any", None),
        SchemaDifference("c", "decimal(4,1)", None),
    )
    assert explanation(result(Difference(schema=changes))).splitlines()[1:] == [
        "  ~ column a: bigint, expected int",
        "  - column b",
        "  - column c decimal(4,1)",
    ]


def test_of_many_rows_only_some_are_shown():
    rows = tuple({"n": n} for n in range(100))
    lines = explanation(result(Difference(unexpected=rows, rows=100))).splitlines()
    assert len(lines) == 23
    assert lines[-1] == "    ... and 80 more rows"


def test_json_has_all_rows_and_only_what_json_can_have():
    row = {
        "n": 1,
        "d": Decimal("1.50"),
        "t": datetime(2026, 1, 2, tzinfo=UTC),
        "x": math.nan,
        "l": [None, {"a": True}],
        "m": [("k", date(2026, 1, 2))],
        "e": [],
    }
    shown = result(Difference(missing=(row,), schema=(SchemaDifference("a", None, "int"),))).to_dict()
    assert json.loads(json.dumps(shown, allow_nan=False)) == {
        "name": "t",
        "file": "tests/t.test.yaml",
        "line": 3,
        "target": "j",
        "status": "failed",
        "seconds": 0.25,
        "diff": {
            "missing": [
                {
                    "n": 1,
                    "d": "1.50",
                    "t": "2026-01-02 00:00:00+00:00",
                    "x": "NaN",
                    "l": [None, {"a": True}],
                    "m": {"k": "2026-01-02"},
                    "e": [],
                }
            ],
            "unexpected": [],
            "schema": [{"column": "a", "expected": None, "actual": "int"}],
        },
        "message": "rows differ",
    }
