"""The comparison of rows: against a plain model, and what it says of columns and order."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import parse_type
from rivet_dagster.project_tests.comparing import compare
from rivet_dagster.project_tests.declared import GivenRows, LineOfFile, ProjectTest
from rivet_dagster.project_tests.results import Difference
from rivet_dagster.project_tests.values import Table

PLACE = LineOfFile("tests/t.test.yaml", 1)


def compared(
    expected: list[tuple[Any, ...]], actual: list[tuple[Any, ...]], *columns: str, schema: bool = False, **fields: Any
) -> Difference:
    """Compare rows of these columns, each written as ``name type``."""
    types = tuple((name, parse_type(kind)) for name, kind in (column.split(" ", 1) for column in columns))
    given_rows = GivenRows(
        PLACE,
        tuple(name for name, _ in types),
        tuple(expected),
        (None,) * len(expected),
        types=types if schema else None,
    )
    test = ProjectTest("t", PLACE, "j", **fields)
    return compare(test, given_rows, Table(types, tuple(actual)), lambda: UTC)


def same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or abs(one - other) <= tolerance
    return one == other


def most_partners(expected: list[Any], actual: list[Any], tolerance: float) -> int:
    """Return how many rows can have a partner, by trying all assignments."""
    few, many = sorted((expected, actual), key=len)
    return max(
        sum(all(map(same, one, many[n], itertools.repeat(tolerance))) for one, n in zip(few, chosen, strict=True))
        for chosen in itertools.permutations(range(len(many)), len(few))
    )


VALUES = st.sampled_from([None, 0.0, 1.0, 1.05, 1.1, 1.15, 1.2, math.nan, math.inf])
ROWS = st.lists(st.tuples(st.sampled_from([None, "a", "b"]), VALUES), max_size=5)


@given(ROWS, ROWS, st.sampled_from([None, 0.051, 0.11]))
def test_as_many_rows_have_a_partner_as_can(expected, actual, tolerance):
    difference = compared(expected, actual, "k string", "v double", tolerance=tolerance)
    partners = most_partners(expected, actual, tolerance or 0.0)
    assert (len(difference.missing), len(difference.unexpected)) == (len(expected) - partners, len(actual) - partners)
    for pair in difference.near:
        assert set(pair.columns) == {c for c in "kv" if not same(pair.missing[c], pair.unexpected[c], tolerance or 0.0)}


@given(ROWS)
def test_rows_are_themselves_in_any_order_but_not_exactly(rows):
    columns = ("k string", "v double")
    assert compared(rows, rows[::-1], *columns).empty
    assert compared(rows, rows, *columns, compare="exact").empty
    exact = compared(rows, rows[::-1], *columns, compare="exact")
    differs = [n for n, pair in enumerate(zip(rows, rows[::-1], strict=True), 1) if repr(pair[0]) != repr(pair[1])]
    assert exact.order == (differs[0] if differs else None)


@pytest.mark.parametrize(
    ("type_", "expected", "actual", "is_same"),
    [
        ("decimal(10,2)", "1.5", Decimal("1.50"), True),
        ("decimal(10,2)", 1.5, Decimal("1.51"), False),
        ("float", 0.1, 0.10000000149011612, True),
        ("double", 0.0, -0.0, True),
        ("timestamp", "2026-01-01 01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC), True),
        ("timestamp", "2026-01-01", datetime(2026, 1, 1, tzinfo=UTC), True),
        ("timestamp_ntz", "2026-01-01", datetime(2026, 1, 1), True),
        ("array<double>", [".nan", None], [math.nan, None], True),
        ("array<int>", [1, 2], [2, 1], False),
        ("map<string,int>", {"a": 1, "b": None}, [("b", None), ("a", 1)], True),
        ("map<string,int>", {"a": 1}, [("a", 2)], False),
        ("struct<x:int,y:array<double>>", {"x": 1, "y": [1.0]}, {"x": 1, "y": [1.0]}, True),
        ("binary", "ab", b"ab", True),
        ("string", 12, "12", True),
    ],
)
def test_values_of_a_type(type_, expected, actual, is_same):
    value = [math.nan, None] if expected == [".nan", None] else expected
    assert compared([(value,)], [(actual,)], f"v {type_}").empty == is_same


def test_a_tolerance_holds_for_nested_floats_and_for_nothing_else():
    type_ = "v struct<a:array<double>,m:map<string,double>,d:decimal(4,2)>"
    row = {"a": [1.0], "m": [("k", 2.0)], "d": Decimal("1.00")}
    near = {"a": [1.05], "m": [("k", 1.95)], "d": Decimal("1.00")}
    assert compared([(row,)], [(near,)], type_, tolerance=0.1).empty
    assert not compared([(row,)], [(near,)], type_).empty
    assert not compared([(row,)], [({**near, "d": Decimal("1.01")},)], type_, tolerance=0.1).empty


def test_columns_are_matched_by_name_whatever_their_order_and_letter_case():
    given_rows = GivenRows(PLACE, ("B", "a"), (("x", 1),), (None,))
    actual = Table((("a", parse_type("int")), ("b", parse_type("string"))), ((1, "x"),))
    assert compare(ProjectTest("t", PLACE, "j"), given_rows, actual, lambda: UTC).empty


def test_a_column_that_the_target_lacks_is_a_difference_and_one_that_is_not_named_an_error():
    actual = Table((("a", parse_type("int")), ("b", parse_type("string"))), ((1, "x"),))
    more = GivenRows(PLACE, ("a", "b", "c"), ((1, "x", 2),), (None,))
    difference = compare(ProjectTest("t", PLACE, "j"), more, actual, lambda: UTC)
    assert [(change.column, change.actual) for change in difference.schema] == [("c", None)]
    less = GivenRows(PLACE, ("a",), ((1,),), (None,))
    with pytest.raises(RivetError, match=r"RVT-217 .*does not name the column b of 'j'"):
        compare(ProjectTest("t", PLACE, "j"), less, actual, lambda: UTC)
    assert compare(ProjectTest("t", PLACE, "j", ignored=("B",)), less, actual, lambda: UTC).empty
    with pytest.raises(RivetError, match="'j' has no column 'bb'; did you mean 'b'"):
        compare(ProjectTest("t", PLACE, "j", ignored=("bb",)), less, actual, lambda: UTC)


def test_an_expected_value_that_does_not_fit_its_column_is_an_error():
    with pytest.raises(RivetError, match="`expected`, column v: 'x' is no int"):
        compared([("x",)], [(1,)], "v int")


def test_types_are_compared_where_a_schema_gives_them():
    actual = Table((("a", parse_type("bigint")),), ((1,),))
    expected = GivenRows(PLACE, ("a",), ((1,),), (None,), types=(("a", parse_type("int")),))
    (change,) = compare(ProjectTest("t", PLACE, "j"), expected, actual, lambda: UTC).schema
    assert (change.column, change.expected, change.actual) == ("a", "int", "bigint")


def test_no_row_may_be_expected_of_columns_that_a_schema_tells_or_of_any():
    types = (("a", parse_type("int")),)
    test, empty = ProjectTest("t", PLACE, "j"), Table(types, ())
    for rows in (GivenRows(PLACE), GivenRows(PLACE, ("a",), types=types)):
        assert compare(test, rows, empty, lambda: UTC).empty
        assert compare(test, rows, Table(types, ((1,),)), lambda: UTC).unexpected == ({"a": 1},)
    (change,) = compare(test, rows, Table((("a", parse_type("string")),), ()), lambda: UTC).schema
    assert (change.column, change.expected, change.actual) == ("a", "int", "string")


def test_an_expected_row_without_columns_is_not_taken_for_no_row():
    with pytest.raises(RivetError, match=r"RVT-217 .*does not name the column a of 'j'"):
        compare(
            ProjectTest("t", PLACE, "j"),
            GivenRows(PLACE, None, ((),), (1,)),
            Table((("a", parse_type("int")),), ()),
            lambda: UTC,
        )
