"""The rows of a table that a write may affect, by statistics; too many are harmless, too few would lose data."""

import pytest

from rivet_dagster.catalogs.rewriting.intervals import (
    EVERYTHING,
    MOST_VALUES,
    NOTHING,
    REPLACED,
    Affected,
    Interval,
    affected_rows,
)
from rivet_dagster.model.storage import ColumnStatistics, Statistics
from rivet_dagster.model.write_strategy import parse_write_strategy

SNAPSHOT = parse_write_strategy({"mode": "snapshot", "partition_column": "day"}).plan
MERGE = parse_write_strategy({"mode": "merge", "key_columns": ["id", "Region"]}).plan


def batch(rows: int = 9, **values: ColumnStatistics) -> Statistics:
    return Statistics(rows, 0, values=values)


def never(columns, most):
    raise AssertionError("the footers tell")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("append", NOTHING), ("replace", REPLACED), ("truncate_insert", REPLACED)],
)
def test_modes_without_pruning_by_values(mode, expected):
    assert affected_rows(parse_write_strategy(mode).plan, batch(), never) == expected


@pytest.mark.parametrize("strategy", [SNAPSHOT, MERGE])
def test_a_batch_without_rows_affects_nothing(strategy):
    assert affected_rows(strategy, batch(0), never) == NOTHING


def test_one_partition_is_found_from_the_footers():
    point = Affected(("day",), ((Interval(3, 3),),), wholly=True)
    assert affected_rows(SNAPSHOT, batch(day=ColumnStatistics(0, 3, 3)), never) == point
    nothing = Affected(("day",), ((Interval(None, None, nulls=True),),), wholly=True)
    assert affected_rows(SNAPSHOT, batch(day=ColumnStatistics(9)), never) == nothing


@pytest.mark.parametrize("known", [ColumnStatistics(0, 3, 4), ColumnStatistics(1, 3, 3), ColumnStatistics()])
def test_several_partitions_are_queried(known):
    found = affected_rows(SNAPSHOT, batch(day=known), lambda columns, most: [{"day": 3}, {"day": None}])
    assert found == Affected(("day",), ((Interval(3, 3),), (Interval(None, None, nulls=True),)), wholly=True)


def test_too_many_partitions_become_one_range():
    found = affected_rows(SNAPSHOT, batch(day=ColumnStatistics(0, 1, 9)), lambda columns, most: [{"day": 1}] * most)
    assert found == Affected(("day",), ((Interval(1, 9),),))
    assert MOST_VALUES == 1000


def test_keys_become_a_range():
    known = {"id": ColumnStatistics(0, 1, 9), "region": ColumnStatistics(2, "a", "c")}
    box = (Interval(1, 9), Interval("a", "c", nulls=True))
    assert affected_rows(MERGE, batch(**known), never) == Affected(("id", "Region"), (box,))


def test_keys_without_statistics_may_be_in_any_file():
    assert affected_rows(MERGE, batch(), never) == EVERYTHING


class Counted(int):
    """An integer that counts how often it is compared by order."""

    compared = 0

    def __lt__(self, other):
        Counted.compared += 1
        return int(self) < int(other)

    def __le__(self, other):
        Counted.compared += 1
        return int(self) <= int(other)

    __hash__ = int.__hash__


def test_a_file_is_compared_with_few_of_many_values():
    counts = []
    for values in (10, 1000):
        points = tuple((Interval(Counted(2 * n), Counted(2 * n)), Interval(7, 7)) for n in range(values))
        affected = Affected(("day", "region"), points, wholly=True)
        region = ColumnStatistics(0, 7, 7)
        assert affected.removes(batch(day=ColumnStatistics(0, 4, 4), region=region))
        Counted.compared = 0
        assert affected.may_change(batch(day=ColumnStatistics(0, 4, 4), region=region))
        assert not affected.may_change(batch(day=ColumnStatistics(0, Counted(5), Counted(5)), region=region))
        assert not affected.removes(batch(day=ColumnStatistics(0, Counted(4), Counted(5)), region=region))
        counts.append(Counted.compared)
    assert counts[1] < 3 * counts[0]


def test_values_without_an_order_are_all_compared():
    null, one, text = Interval(None, None, nulls=True), Interval(1, 1), Interval("a", "a")
    affected = Affected(("day",), ((null,), (one,), (text,)), wholly=True)
    assert affected.may_change(batch(day=ColumnStatistics(0, 2, 2)))  # not comparable with the text
    numbers = Affected(("day",), ((null,), (one,), (Interval(5, 5),)), wholly=True)
    assert numbers.may_change(batch(day=ColumnStatistics(0, "a", "b")))
    assert numbers.may_change(batch(day=ColumnStatistics(9)))
    assert numbers.removes(batch(day=ColumnStatistics(9)))
    assert not numbers.may_change(batch(day=ColumnStatistics(0, 2, 4)))
