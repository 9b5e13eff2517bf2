"""Generic tests of packages on random rows, each with what it says of rows, written in Python."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from random import Random
from typing import Any

FIRST_DAY = date(2024, 2, 27)


@dataclass(frozen=True)
class Row:
    """A row of a table: keys, two numbers, a text, a day, and for how many days it has been there."""

    id: int | None
    grp: str
    x: int | None
    y: int | None
    name: str | None
    day: date
    days_old: int


Rows = list[Row]
Verdict = Callable[[Rows, Rows], bool]


def random_rows(number: int) -> Rows:
    """Return the rows of a table, the same ones for each number; those of 0 are none."""
    random = Random(number)
    names = ("abc", "ABC", "a1", "x@y.z", "", " ", "zz", None)
    count = 0 if number == 0 else random.choice((1, 3, 6))
    nullable = 0.0 if number % 2 else 0.2
    return [
        Row(
            id=None if random.random() < nullable else random.choice((index, index, random.randint(0, 3))),
            grp=random.choice("ab"),
            x=None if random.random() < nullable else random.randint(0, 4) * (index if number % 3 == 0 else 1),
            y=None if random.random() < nullable else random.randint(0, 4),
            name=random.choice(names[:-1] if number % 2 else names),
            day=FIRST_DAY + timedelta(days=index if number % 3 else random.randint(0, 4)),
            days_old=random.randint(0, 9),
        )
        for index in range(count)
    ]


def query(rows: Rows) -> str:
    """Return the rows as a query of Spark's."""
    shown = rows or [Row(0, "", 0, 0, "", FIRST_DAY, 0)]
    values = ", ".join(
        f"({_literal(r.id)}, '{r.grp}', {_literal(r.x)}, {_literal(r.y)}, {_literal(r.name)}, '{r.day}', {r.days_old})"
        for r in shown
    )
    return (
        "select cast(id as int) as id, grp, cast(x as int) as x, cast(y as int) as y, cast(name as string) as name, "
        "cast(day as date) as day, current_timestamp() - make_interval(0, 0, 0, days_old, 1, 0, 0) as at\n"
        f"from values {values} as t(id, grp, x, y, name, day, days_old){'' if rows else ' where false'}"
    )


def _literal(value: Any) -> str:
    return "null" if value is None else f"'{value}'" if isinstance(value, str) else str(value)


@dataclass(frozen=True)
class Case:
    """A generic test with its arguments, and of which rows it holds; ``column`` is that of the rows it is one of.

    ``where`` is the condition of the rows that it judges.
    """

    test: str
    arguments: dict[str, Any]
    holds: Verdict
    column: str | None = None
    where: str | None = None


def each(condition: Callable[[Row], bool | None]) -> Verdict:
    """Hold where no row violates a condition; it is None where a NULL makes it unknown."""
    return lambda rows, others: all(condition(row) is not False for row in rows)


def known(value: Any, condition: Callable[[Any], bool]) -> bool | None:
    """Return a condition of a value; None for a NULL."""
    return None if value is None else condition(value)


def measured(measure: Callable[[Rows], Any], condition: Callable[[Any], bool], by: str | None = None) -> Verdict:
    """Hold where what one measures of all rows, or of each group, meets a condition, or is NULL."""

    def holds(rows: Rows, others: Rows) -> bool:
        groups = [rows] if by is None else groups_of(rows, by)
        return all(known(measure(group), condition) is not False for group in groups)

    return holds


def groups_of(rows: Rows, by: str) -> list[Rows]:
    """Return the rows of each value of a column."""
    return [[row for row in rows if getattr(row, by) == key] for key in dict.fromkeys(getattr(r, by) for r in rows)]


def values(rows: Iterable[Row], column: str) -> list[Any]:
    """Return the values of a column but for NULLs."""
    return [value for row in rows if (value := getattr(row, column)) is not None]


def of(column: str, aggregate: Callable[[list[Any]], Any]) -> Callable[[Rows], Any]:
    """Return the aggregate of a column; NULL of no value."""
    return lambda rows: aggregate(found) if (found := values(rows, column)) else None


def distinct(column: str) -> Callable[[Rows], int]:
    """Return the number of different values of a column."""
    return lambda rows: len({*values(rows, column)})


def quantile(numbers: list[int], part: float) -> float:
    """Return a percentile between the two nearest numbers."""
    ordered = sorted(numbers)
    position = part * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (position - low) * (ordered[high] - ordered[low])


def deviation(numbers: list[int]) -> float | None:
    """Return the standard deviation of a sample; NULL of one number."""
    return statistics.stdev(numbers) if len(numbers) > 1 else None


def unique(*columns: str, ignored: Callable[[list[Any]], bool] = lambda key: False) -> Verdict:
    """Hold where no combination of values occurs twice; NULLs are equal."""

    def holds(rows: Rows, others: Rows) -> bool:
        keys = [[getattr(row, column) for column in columns] for row in rows]
        counted = Counter(tuple(key) for key in keys if not ignored(key))
        return all(times == 1 for times in counted.values())

    return holds


def all_missing(key: list[Any]) -> bool:
    return all(value is None for value in key)


def any_missing(key: list[Any]) -> bool:
    return any(value is None for value in key)


def steps(
    column: str, condition: Callable[[Any, Any], bool], by: str | None = None, order: str | None = None
) -> Verdict:
    """Hold where each value and the one before it meet a condition, in the order of a column that has no NULL."""

    def holds(rows: Rows, others: Rows) -> bool:
        for group in [rows] if by is None else groups_of(rows, by):
            ordered = sorted(group, key=lambda row: getattr(row, order or column))
            for before, after in pairwise(ordered):
                one, two = getattr(before, column), getattr(after, column)
                if one is not None and two is not None and not condition(one, two):
                    return False
        return True

    return holds


def one_step(column: str) -> Verdict:
    """Hold where each number but the least is one more than another; NULLs are first, and no step."""

    def holds(rows: Rows, others: Rows) -> bool:
        ordered = sorted(values(rows, column))
        return all(after - before == 1 for before, after in pairwise(ordered))

    return holds


def counted(rows: Rows, by: str | None) -> Counter[Any]:
    return Counter(getattr(row, by) if by else 1 for row in rows)


def same_counts(rows: Rows, others: Rows, by: str | None, factor: int = 1) -> bool:
    """Return whether the groups of both have as many rows; a missing group has none."""
    ours, theirs = counted(rows, by), counted(others, by)
    return all(ours[key] == theirs[key] * factor for key in {*ours, *theirs})


def joined_counts(condition: Callable[[int, int], bool], by: str | None) -> Verdict:
    """Hold where the numbers of rows meet a condition in each group that both have."""

    def holds(rows: Rows, others: Rows) -> bool:
        ours, theirs = counted(rows, by), counted(others, by)
        return all(condition(ours[key], theirs[key]) for key in ours.keys() & theirs.keys())

    return holds


def exclusive(gaps: str, zero_length: bool) -> Verdict:
    """Hold where the ranges from x to y of each group do not overlap."""

    def holds(rows: Rows, others: Rows) -> bool:
        for group in groups_of(rows, "grp"):
            # NULLs are first in Spark, and last in the other direction.
            ordered = sorted(group, key=lambda r: [(v is not None, v or 0) for v in (r.x, r.y)])
            for index, row in enumerate(ordered):
                if row.x is None or row.y is None or not (row.x <= row.y if zero_length else row.x < row.y):
                    return False
                after = ordered[index + 1].x if index + 1 < len(ordered) else None
                if index + 1 < len(ordered):
                    compared = {"allowed": row.y <= after, "not_allowed": row.y == after, "required": row.y < after}
                    if not compared[gaps]:
                        return False
        return True

    return holds


def every_day(last: date | None, first: date | None = None, interval: int = 1) -> Verdict:
    """Hold where there is a row of each day, or of each slice of days, from the first one to before the last one."""

    def holds(rows: Rows, others: Rows) -> bool:
        if not rows and not (first and last):
            return True
        begin, end = first or min(row.day for row in rows), last or max(row.day for row in rows)
        slices = {(row.day - begin).days // interval for row in rows if row.day >= begin}
        return all(number // interval in slices for number in range(0, (end - begin).days, interval))

    return holds


def recent(days: int, by: str | None = None) -> Verdict:
    """Hold where the newest row is not older than some days; rows are an hour older than their days."""

    def holds(rows: Rows, others: Rows) -> bool:
        if by is None:
            return bool(rows) and min(row.days_old for row in rows) < days
        return bool(rows) and all(min(row.days_old for row in group) < days for group in groups_of(rows, by))

    return holds


def in_set(column: str, wanted: set[Any]) -> Verdict:
    return lambda rows, others: all(getattr(row, column) in wanted for row in rows)


def within(column: str, sigma: float, by: str) -> Verdict:
    """Hold where the sum of no group is far from the mean of the sums."""

    def holds(rows: Rows, others: Rows) -> bool:
        sums = [sum(found) for group in groups_of(rows, by) if (found := values(group, column))]
        spread = deviation(sums)
        return not spread or all(abs((n - statistics.mean(sums)) / spread) <= sigma for n in sums)

    return holds


def follows_trend(periods: int, sigma: float) -> Verdict:
    """Hold where the sum of x of each day is not far from the mean of the days before it; the last day is left out."""

    def holds(rows: Rows, others: Rows) -> bool:
        days = sorted({row.days_old for row in rows if row.days_old > 0}, reverse=True)
        totals = [sum(values([row for row in rows if row.days_old == day], "x")) for day in days]
        for index, total in enumerate(totals):
            before = totals[max(index - periods, 0) : index]
            spread = deviation(before)
            if spread and abs(total - statistics.mean(before)) / spread > sigma:
                return False
        return True

    return holds


def equal_columns(rows: Rows, others: Rows) -> bool:
    return {(row.x, row.y) for row in rows} == {(row.x, row.y) for row in others}


def contains(column: str, wanted: set[Any]) -> Verdict:
    return lambda rows, others: wanted <= {*values(rows, column)}


def sums_differ_at_most(tolerance: float, by: str | None) -> Verdict:
    def holds(rows: Rows, others: Rows) -> bool:
        keys = {getattr(row, by) for row in (*rows, *others)} if by else {1}

        def total(of_rows: Rows, key: Any) -> int:
            return sum(values([row for row in of_rows if by is None or getattr(row, by) == key], "x"))

        return all(abs(total(rows, key) - total(others, key)) <= tolerance for key in keys)

    return holds


def always(is_so: bool) -> Verdict:
    return lambda rows, others: is_so


def consistent(rows: Rows, others: Rows) -> bool:
    found = {row.name for row in rows}
    return len(found) == len({name.lower() for name in found if name is not None})


def most_common(wanted: set[str]) -> Verdict:
    """Hold where the value with the most rows is in a set, or NULL; without doubt about which one that is."""

    def holds(rows: Rows, others: Rows) -> bool:
        common = Counter(row.grp for row in rows).most_common(2)
        return not common or common[0][0] in wanted

    return holds


OTHER = {"compare_model": "ref('others')"}
_ROWS_OF_A = "grp = 'a'"

UTILS = [
    Case("equal_rowcount", OTHER, joined_counts(lambda a, b: a == b, None)),
    Case("equal_rowcount", {**OTHER, "group_by_columns": ["grp"]}, joined_counts(lambda a, b: a == b, "grp")),
    Case("fewer_rows_than", OTHER, joined_counts(lambda a, b: a < b, None)),
    Case("fewer_rows_than", {**OTHER, "group_by_columns": ["grp"]}, joined_counts(lambda a, b: a < b, "grp")),
    Case("equality", {**OTHER, "compare_columns": ["x", "y"]}, equal_columns),
    Case(
        "expression_is_true", {"expression": "x + 1 > y"}, each(lambda r: None if None in (r.x, r.y) else r.x + 1 > r.y)
    ),
    Case("expression_is_true", {"expression": "< 4"}, each(lambda r: known(r.x, lambda x: x < 4)), "x"),
    Case("accepted_range", {"min_value": 1, "max_value": 3}, each(lambda r: known(r.x, lambda x: 1 <= x <= 3)), "x"),
    Case("accepted_range", {"min_value": 0, "inclusive": False}, each(lambda r: known(r.x, lambda x: x > 0)), "x"),
    Case("not_empty_string", {}, each(lambda r: known(r.name, lambda n: n.strip() != "")), "name"),
    Case("not_empty_string", {"trim_whitespace": False}, each(lambda r: known(r.name, lambda n: n != "")), "name"),
    Case("not_accepted_values", {"values": ["zz", "a1"]}, each(lambda r: r.name not in ("zz", "a1")), "name"),
    Case("not_accepted_values", {"values": [0, 9], "quote": False}, each(lambda r: r.x not in (0, 9)), "x"),
    Case(
        "recency",
        {"field": "at", "datepart": "day", "interval": 3},
        lambda rows, others: not rows or min(row.days_old for row in rows) < 3,
    ),
    Case(
        "recency",
        {"field": "at", "datepart": "day", "interval": 3, "group_by_columns": ["grp"]},
        lambda rows, others: not rows or recent(3, "grp")(rows, others),
    ),
    Case("at_least_one", {}, lambda rows, others: bool(values(rows, "x")), "x"),
    Case("at_least_one", {"group_by_columns": ["x"]}, lambda rows, others: bool(values(rows, "x")), "x"),
    Case("at_least_one", {"group_by_columns": ["grp"]}, measured(lambda g: len(values(g, "x")), bool, "grp"), "x"),
    Case("not_constant", {}, measured(distinct("y"), lambda n: n != 1), "y"),
    Case("not_constant", {"group_by_columns": ["grp"]}, measured(distinct("y"), lambda n: n != 1, "grp"), "y"),
    Case(
        "not_null_proportion",
        {"at_least": 0.8, "at_most": 0.99},
        measured(lambda g: len(values(g, "x")) / len(g) if g else None, lambda p: 0.8 <= p <= 0.99),
        "x",
    ),
    Case(
        "not_null_proportion",
        {"at_least": 1, "group_by_columns": ["grp"]},
        measured(lambda g: len(values(g, "x")) / len(g), lambda p: p >= 1, "grp"),
        "x",
    ),
    Case(
        "cardinality_equality",
        {"to": "ref('others')", "field": "grp"},
        lambda rows, others: counted(rows, "grp") == counted(others, "grp"),
        "grp",
    ),
    Case(
        "relationships_where",
        {"to": "ref('others')", "field": "x", "from_condition": "x > 1", "to_condition": "x < 4"},
        lambda rows, others: {x for x in values(rows, "x") if x > 1} <= {x for x in values(others, "x") if x < 4},
        "x",
    ),
    Case("unique_combination_of_columns", {"combination_of_columns": ["x", "grp"]}, unique("x", "grp")),
    Case(
        "unique_combination_of_columns",
        {"combination_of_columns": ["x", "y"], "quote_columns": True},
        unique("x", "y"),
    ),
    Case("sequential_values", {"datepart": "day"}, steps("day", lambda a, b: (b - a).days == 1), "day"),
    Case(
        "sequential_values",
        {"datepart": "day", "interval": 2, "group_by_columns": ["grp"]},
        steps("day", lambda a, b: (b - a).days == 2, "grp"),
        "day",
    ),
    *(
        Case(
            "mutually_exclusive_ranges",
            {
                "lower_bound_column": "x",
                "upper_bound_column": "y",
                "partition_by": "grp",
                "gaps": gaps,
                "zero_length_range_allowed": zero,
            },
            exclusive(gaps, zero),
        )
        for gaps, zero in (("allowed", True), ("not_allowed", True), ("required", False))
    ),
]

_UPPER = ["ID", "GRP", "X", "Y", "NAME", "DAY", "AT"]

EXPECTATIONS = [
    Case("expression_is_true", {"expression": "count(*) > 2"}, measured(len, lambda n: n > 2)),
    Case(
        "expression_is_true",
        {"expression": "sum(x)", "test_condition": "> 2", "group_by_columns": ["grp"]},
        measured(of("x", sum), lambda n: n > 2, "grp"),
    ),
    Case(
        "expression_between",
        {"expression": "avg(x)", "max_value": 3},
        measured(of("x", statistics.mean), lambda m: m <= 3),
    ),
    Case(
        "expect_table_row_count_to_be_between", {"min_value": 1, "max_value": 3}, measured(len, lambda n: 1 <= n <= 3)
    ),
    Case(
        "expect_table_row_count_to_be_between",
        {"max_value": 3, "group_by": ["grp"], "strictly": True},
        measured(len, lambda n: n < 3, "grp"),
    ),
    Case("expect_table_row_count_to_equal", {"value": 3}, measured(len, lambda n: n == 3)),
    Case(
        "expect_table_row_count_to_equal",
        {"value": 1, "row_condition": _ROWS_OF_A},
        lambda rows, others: counted(rows, "grp")["a"] == 1,
    ),
    Case("expect_table_row_count_to_equal_other_table", OTHER, lambda a, b: same_counts(a, b, None)),
    Case(
        "expect_table_row_count_to_equal_other_table",
        {**OTHER, "group_by": ["grp"], "compare_group_by": ["grp"]},
        lambda a, b: same_counts(a, b, "grp"),
    ),
    Case(
        "expect_table_row_count_to_equal_other_table_times_factor",
        {**OTHER, "factor": 2},
        lambda a, b: same_counts(a, b, None, 2),
    ),
    Case(
        "expect_table_aggregation_to_equal_other_table",
        {**OTHER, "expression": "sum(x)", "tolerance": 2},
        sums_differ_at_most(2, None),
    ),
    Case("equal_expression", {**OTHER, "expression": "sum(x)", "group_by": ["grp"]}, sums_differ_at_most(0, "grp")),
    Case("expect_row_values_to_have_recent_data", {"datepart": "day", "interval": 3}, recent(3), "at"),
    Case(
        "expect_grouped_row_values_to_have_recent_data",
        {"group_by": ["grp"], "timestamp_column": "at", "datepart": "day", "interval": 3},
        lambda rows, others: not rows or recent(3, "grp")(rows, others),
    ),
    Case("expect_column_to_exist", {}, always(True), "x"),
    Case("expect_column_to_exist", {"column_index": 3}, always(True), "X"),
    Case("expect_column_to_exist", {"column_index": 2}, always(False), "x"),
    Case("expect_column_to_exist", {}, always(False), "nothing"),
    Case("expect_table_column_count_to_equal", {"value": 7}, always(True)),
    Case("expect_table_column_count_to_equal", {"value": 6}, always(False)),
    Case("expect_table_column_count_to_be_between", {"min_value": 7}, always(True)),
    Case("expect_table_column_count_to_be_between", {"max_value": 6}, always(False)),
    Case("expect_table_column_count_to_equal_other_table", OTHER, always(True)),
    Case("expect_table_column_count_to_equal_other_table", {"compare_model": "ref('narrow')"}, always(False)),
    Case("expect_table_columns_to_contain_set", {"column_list": ["x", "DAY"]}, always(True)),
    Case("expect_table_columns_to_contain_set", {"column_list": ["x", "z"]}, always(False)),
    Case("expect_table_columns_to_not_contain_set", {"column_list": ["z"]}, always(True)),
    Case("expect_table_columns_to_not_contain_set", {"column_list": ["z", "y"]}, always(False)),
    Case("expect_table_columns_to_match_set", {"column_list": _UPPER[::-1]}, always(True)),
    Case("expect_table_columns_to_match_set", {"column_list": _UPPER[1:]}, always(False)),
    Case("expect_table_columns_to_match_set", {"column_list": _UPPER, "transform": "lower"}, always(True)),
    Case("expect_table_columns_to_match_ordered_list", {"column_list": _UPPER}, always(True)),
    Case("expect_table_columns_to_match_ordered_list", {"column_list": _UPPER[::-1]}, always(False)),
    Case("expect_column_values_to_be_of_type", {"column_type": "int"}, always(True), "x"),
    Case("expect_column_values_to_be_of_type", {"column_type": "string"}, always(False), "x"),
    Case("expect_column_values_to_be_in_type_list", {"column_type_list": ["string", "date"]}, always(True), "day"),
    Case("expect_column_values_to_be_null", {}, each(lambda r: r.x is None), "x"),
    Case("expect_column_values_to_not_be_null", {}, each(lambda r: r.x is not None), "x"),
    Case(
        "expect_column_values_to_not_be_null",
        {"row_condition": _ROWS_OF_A},
        each(lambda r: r.grp != "a" or r.x is not None),
        "x",
    ),
    Case("expect_column_values_to_be_unique", {}, unique("id", ignored=all_missing), "id"),
    Case(
        "expect_column_values_to_be_unique",
        {"row_condition": _ROWS_OF_A},
        lambda rows, others: unique("id", ignored=all_missing)([r for r in rows if r.grp == "a"], others),
        "id",
    ),
    Case("expect_column_values_to_have_consistent_casing", {}, consistent, "name"),
    Case(
        "expect_column_values_to_have_consistent_casing",
        {"display_inconsistent_columns": True},
        lambda rows, others: len({*values(rows, "name")}) == len({n.lower() for n in values(rows, "name")}),
        "name",
    ),
    Case(
        "expect_column_values_to_be_in_set",
        {"value_set": ["abc", "zz", "a1", "ABC", ""]},
        in_set("name", {"abc", "zz", "a1", "ABC", ""}),
        "name",
    ),
    Case(
        "expect_column_values_to_be_in_set",
        {"value_set": [1, 2, 3], "quote_values": False},
        in_set("x", {1, 2, 3}),
        "x",
    ),
    Case(
        "expect_column_values_to_be_in_set",
        {"value_set": ["1", "2", "3"], "row_condition": "x is not null"},
        each(lambda r: known(r.x, lambda x: x in (1, 2, 3))),
        "x",
    ),
    Case(
        "expect_column_values_to_not_be_in_set",
        {"value_set": ["zz", "a1"]},
        each(lambda r: r.name not in ("zz", "a1")),
        "name",
    ),
    Case(
        "expect_column_values_to_be_between",
        {"min_value": 1, "max_value": 3},
        each(lambda r: known(r.x, lambda x: 1 <= x <= 3)),
        "x",
    ),
    Case(
        "expect_column_values_to_be_between",
        {"min_value": 1, "strictly": True, "row_condition": _ROWS_OF_A},
        each(lambda r: r.grp != "a" or known(r.x, lambda x: x > 1)),
        "x",
    ),
    Case(
        "expect_column_values_to_be_between",
        {"min_value": "date'2024-02-28'"},
        each(lambda r: r.day > FIRST_DAY),
        "day",
    ),
    Case("expect_column_values_to_be_increasing", {}, steps("day", lambda a, b: b > a), "day"),
    Case(
        "expect_column_values_to_be_increasing",
        {"strictly": False, "group_by": ["grp"]},
        steps("day", lambda a, b: b >= a, "grp"),
        "day",
    ),
    Case("expect_column_values_to_be_increasing", {"step": 1}, one_step("id"), "id"),
    Case("expect_column_values_to_be_decreasing", {}, steps("day", lambda a, b: b < a), "day"),
    Case("expect_column_values_to_be_decreasing", {"strictly": False}, steps("day", lambda a, b: b <= a), "day"),
    Case(
        "expect_column_value_lengths_to_be_between",
        {"min_value": 1, "max_value": 3},
        each(lambda r: known(r.name, lambda n: 1 <= len(n) <= 3)),
        "name",
    ),
    Case(
        "expect_column_value_lengths_to_equal",
        {"value": 3},
        each(lambda r: known(r.name, lambda n: len(n) == 3)),
        "name",
    ),
    Case(
        "expect_column_values_to_match_regex",
        {"regex": "[a-z]"},
        each(lambda r: known(r.name, lambda n: bool(re.search("[a-z]", n)))),
        "name",
    ),
    Case(
        "expect_column_values_to_match_regex",
        {"regex": "^[a-z]{2,}$", "row_condition": "length(name) > 2"},
        each(lambda r: known(r.name, lambda n: len(n) <= 2 or bool(re.search("^[a-z]{2,}$", n)))),
        "name",
    ),
    Case(
        "expect_column_values_to_not_match_regex",
        {"regex": "[0-9]"},
        each(lambda r: known(r.name, lambda n: not re.search("[0-9]", n))),
        "name",
    ),
    Case(
        "expect_column_values_to_match_regex_list",
        {"regex_list": ["[a-z]", "[A-Z]"]},
        each(lambda r: known(r.name, lambda n: bool(re.search("[a-zA-Z]", n)))),
        "name",
    ),
    Case(
        "expect_column_values_to_not_match_regex_list",
        {"regex_list": ["[0-9]", "@"], "match_on": "all"},
        each(lambda r: known(r.name, lambda n: not re.search("[0-9@]", n))),
        "name",
    ),
    Case(
        "expect_column_values_to_match_like_pattern",
        {"like_pattern": "%a%"},
        each(lambda r: known(r.name, lambda n: "a" in n)),
        "name",
    ),
    Case(
        "expect_column_values_to_not_match_like_pattern",
        {"like_pattern": "%@%"},
        each(lambda r: known(r.name, lambda n: "@" not in n)),
        "name",
    ),
    Case(
        "expect_column_values_to_match_like_pattern_list",
        {"like_pattern_list": ["a%", "z%"]},
        each(lambda r: known(r.name, lambda n: n[:1] in ("a", "z"))),
        "name",
    ),
    Case(
        "expect_column_values_to_not_match_like_pattern_list",
        {"like_pattern_list": ["a%", "%1"]},
        each(lambda r: known(r.name, lambda n: not (n.startswith("a") and n.endswith("1")))),
        "name",
    ),
    Case("expect_column_distinct_count_to_equal", {"value": 2}, measured(distinct("x"), lambda n: n == 2), "x"),
    Case(
        "expect_column_distinct_count_to_be_greater_than", {"value": 1}, measured(distinct("x"), lambda n: n > 1), "x"
    ),
    Case(
        "expect_column_distinct_count_to_be_less_than",
        {"value": 3, "group_by": ["grp"]},
        measured(distinct("x"), lambda n: n < 3, "grp"),
        "x",
    ),
    Case(
        "expect_column_distinct_count_to_equal_other_table",
        {**OTHER, "compare_column_name": "y"},
        lambda rows, others: distinct("x")(rows) == distinct("y")(others),
        "x",
    ),
    Case("expect_column_distinct_values_to_be_in_set", {"value_set": ["a"]}, in_set("grp", {"a"}), "grp"),
    Case(
        "expect_column_distinct_values_to_contain_set",
        {"value_set": ["abc", "zz"]},
        contains("name", {"abc", "zz"}),
        "name",
    ),
    Case(
        "expect_column_distinct_values_to_equal_set",
        {"value_set": ["a", "b"]},
        lambda rows, others: {row.grp for row in rows} == {"a", "b"},
        "grp",
    ),
    Case(
        "expect_column_most_common_value_to_be_in_set",
        {"value_set": ["a", "b"], "top_n": 1},
        always(True),
        "grp",
    ),
    Case("expect_column_most_common_value_to_be_in_set", {"value_set": ["c"], "top_n": 1}, most_common({"c"}), "grp"),
    Case("expect_column_max_to_be_between", {"max_value": 3}, measured(of("x", max), lambda m: m <= 3), "x"),
    Case(
        "expect_column_min_to_be_between",
        {"min_value": 1, "group_by": ["grp"]},
        measured(of("x", min), lambda m: m >= 1, "grp"),
        "x",
    ),
    Case(
        "expect_column_mean_to_be_between",
        {"min_value": 1, "max_value": 2},
        measured(of("x", statistics.mean), lambda m: 1 <= m <= 2),
        "x",
    ),
    Case(
        "expect_column_sum_to_be_between",
        {"min_value": 2, "strictly": True},
        measured(of("x", sum), lambda s: s > 2),
        "x",
    ),
    Case(
        "expect_column_median_to_be_between",
        {"min_value": 1, "max_value": 2},
        measured(of("x", statistics.median), lambda m: 1 <= m <= 2),
        "x",
    ),
    Case(
        "expect_column_quantile_values_to_be_between",
        {"quantile": 0.9, "max_value": 3.5, "group_by": ["grp"]},
        measured(of("x", lambda v: quantile(v, 0.9)), lambda q: q <= 3.5, "grp"),
        "x",
    ),
    Case(
        "expect_column_stdev_to_be_between", {"max_value": 1.3}, measured(of("x", deviation), lambda d: d <= 1.3), "x"
    ),
    Case(
        "expect_column_unique_value_count_to_be_between",
        {"min_value": 2},
        measured(distinct("y"), lambda n: n >= 2),
        "y",
    ),
    Case(
        "expect_column_proportion_of_unique_values_to_be_between",
        {"min_value": 0.6},
        measured(of("x", lambda v: len({*v}) / len(v)), lambda p: p >= 0.6),
        "x",
    ),
    Case(
        "expect_column_pair_values_A_to_be_greater_than_B",
        {"column_A": "x", "column_B": "y", "or_equal": True},
        each(lambda r: None if None in (r.x, r.y) else r.x >= r.y),
    ),
    Case(
        "expect_column_pair_values_to_be_equal",
        {"column_A": "x", "column_B": "y", "row_condition": "x > 2"},
        each(lambda r: None if None in (r.x, r.y) else r.x <= 2 or r.x == r.y),
    ),
    Case(
        "expect_column_pair_values_to_be_in_set",
        {"column_A": "x", "column_B": "grp", "value_pairs_set": [[0, "'a'"], [1, "'a'"], [2, "'b'"], [3, "'b'"]]},
        each(lambda r: (r.x, r.grp) in ((0, "a"), (1, "a"), (2, "b"), (3, "b")) if r.x is not None else None),
    ),
    Case("expect_compound_columns_to_be_unique", {"column_list": ["x", "y"]}, unique("x", "y", ignored=all_missing)),
    Case(
        "expect_compound_columns_to_be_unique",
        {"column_list": ["x", "grp"], "ignore_row_if": "any_value_is_missing", "quote_columns": True},
        unique("x", "grp", ignored=any_missing),
    ),
    Case(
        "expect_select_column_values_to_be_unique_within_record",
        {"column_list": ["x", "y"]},
        each(lambda r: (r.x is None and r.y is None) or len({r.x, r.y} - {None}) == 2),
    ),
    Case(
        "expect_select_column_values_to_be_unique_within_record",
        {"column_list": ["x", "y"], "ignore_row_if": "any_value_is_missing"},
        each(lambda r: None in (r.x, r.y) or r.x != r.y),
    ),
    Case(
        "expect_multicolumn_sum_to_equal",
        {"column_list": ["x", "y"], "sum_total": 8},
        lambda r, o: not (values(r, "x") and values(r, "y")) or sum(values(r, "x")) + sum(values(r, "y")) == 8,
    ),
    Case("expect_column_values_to_be_within_n_stdevs", {"sigma_threshold": 0.1}, always(True), "x"),
    Case(
        "expect_column_values_to_be_within_n_stdevs",
        {"group_by": ["day"], "sigma_threshold": 1.1},
        within("x", 1.1, "day"),
        "x",
    ),
    Case(
        "expect_column_values_to_be_within_n_moving_stdevs",
        {
            "date_column_name": "at",
            "trend_periods": 3,
            "test_periods": 20,
            "sigma_threshold": 1,
            "take_logs": False,
            "take_diffs": False,
        },
        follows_trend(3, 1),
        "x",
        where="at < current_timestamp() - interval 1 day",
    ),
    Case("expect_row_values_to_have_data_for_every_n_datepart", {"date_col": "day"}, every_day(None)),
    Case(
        "expect_row_values_to_have_data_for_every_n_datepart",
        {"date_col": "day", "test_start_date": "2024-02-27", "test_end_date": "2024-03-01"},
        every_day(date(2024, 3, 1), FIRST_DAY),
    ),
    Case(
        "expect_row_values_to_have_data_for_every_n_datepart",
        {"date_col": "day", "interval": 2},
        every_day(None, None, 2),
    ),
    Case(
        "expect_row_values_to_have_data_for_every_n_datepart",
        {
            "date_col": "day",
            "test_end_date": "2024-03-04",
            "exclusion_condition": "not(date_day > date'2024-02-28')",
        },
        lambda rows, others: (
            not rows
            or {FIRST_DAY, FIRST_DAY + timedelta(days=1)}
            <= {*(r.day for r in rows)}
            | {FIRST_DAY + timedelta(days=n) for n in range((min(r.day for r in rows) - FIRST_DAY).days)}
        ),
    ),
]

CASES = [
    *((("dbt_utils." + case.test), case) for case in UTILS),
    *((("dbt_expectations." + case.test), case) for case in EXPECTATIONS),
]

TABLES = (0, 5, 6, 7)
"""The tables of random rows of which the tests are judged; most tests hold of one, and do not of another."""


def declared_cases(tables: Iterable[int] = TABLES) -> list[dict[str, object]]:
    """Return the properties of the tables of random rows: each generic test, which warns, with a name of its own."""
    declared: list[dict[str, object]] = []
    for number in tables:
        of_table: list[dict[str, object]] = []
        of_columns: dict[str, list[dict[str, object]]] = {}
        for index, (name, case) in enumerate(CASES):
            where = {"where": case.where} if case.where else {}
            given: dict[str, object] = {"name": name_of_case(index, number), "config": {"severity": "warn", **where}}
            given |= {"arguments": case.arguments} if case.arguments else {}
            tests = of_table if case.column is None else of_columns.setdefault(case.column, [])
            tests.append({name: given})
        columns = [{"name": column, "data_tests": tests} for column, tests in of_columns.items()]
        declared.append({"name": f"rows_{number}", "data_tests": of_table, "columns": columns})
    return declared


def name_of_case(index: int, number: int) -> str:
    """Return the name of the test of one case on one table."""
    return f"case_{index}_of_{number}"
