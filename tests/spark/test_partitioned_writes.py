"""Partitioned runs: exactly their partitions are replaced, or written by the strategy."""

from datetime import UTC, date, datetime, timedelta

import pytest
from support.batches import Table, query
from support.folders import sink

from rivet_dagster.definitions.partitions import window
from rivet_dagster.errors import RivetError
from rivet_dagster.model.partitions import parse_partitions

DAILY = {"type": "daily", "column": "day", "start": "2024-01-01"}
COLUMNS = "day DATE, n INT"
FIRST, SECOND, THIRD, FOURTH = (date(2024, 1, day) for day in (1, 2, 3, 4))


class Partitioned(Table):
    """The table ``out``, whose runs cover some partitions."""

    def __init__(self, folder, columns=COLUMNS, partitions=DAILY, strategy="replace", **fields) -> None:
        self.partitions = partitions
        super().__init__(folder, strategy, columns, partitions=partitions, **fields)

    def run(self, batch, columns=None, keys=("2024-01-02",)):
        text = query(batch, columns or self.columns)
        self.give(text, partitions=self.partitions)
        return self.folder.run("out", window=window(parse_partitions(self.partitions), keys))

    def cover(self, keys, batch):
        """Write a batch for these partitions; return the rows inserted, updated, deleted and in total."""
        self.last = self.run(batch, keys=keys)
        rows = self.last.rows
        return rows.inserted, rows.updated, rows.deleted, rows.total


@pytest.fixture
def make(project):
    return lambda **fields: Partitioned(project({}), **fields)


def test_only_the_partition_of_the_run_is_replaced(make):
    out = make()
    assert out.cover(["2024-01-01"], [(FIRST, 1), (FIRST, 2)]) == (2, 0, 0, 2)
    assert out.cover(["2024-01-02"], [(SECOND, 3)]) == (1, 0, 0, 3)
    assert out.cover(["2024-01-01"], [(FIRST, 9)]) == (1, 0, 2, 2)
    assert out.rows == [(FIRST, 9), (SECOND, 3)]


def test_files_of_other_partitions_are_not_rewritten(make):
    out = make()
    out.cover(["2024-01-01"], [(FIRST, 1)])
    out.cover(["2024-01-02"], [(SECOND, 1)])
    before = out.files
    out.cover(["2024-01-02"], [(SECOND, 2)])
    assert len(before & out.files) == 1
    assert len(out.files) == 2


def test_an_empty_window_empties_its_partitions(make):
    out = make()
    out.cover(["2024-01-01"], [(FIRST, 1)])
    out.cover(["2024-01-02"], [(SECOND, 1)])
    assert out.cover(["2024-01-01"], []) == (0, 0, 1, 1)
    assert out.rows == [(SECOND, 1)]


def test_a_range_is_written_by_partitions_and_each_reports_its_rows(make):
    out = make()
    keys = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"]
    out.cover(keys, [(FIRST, 1), (FIRST, 2), (THIRD, 3), (FOURTH, 4)])
    assert out.last.partition_rows == {"2024-01-01": 2, "2024-01-02": 0, "2024-01-03": 1, "2024-01-04": 1}
    before = out.files
    assert out.cover(["2024-01-03"], [(THIRD, 9)]) == (1, 0, 1, 4)
    assert out.last.partition_rows == {"2024-01-03": 1}
    assert len(before & out.files) == 2
    assert out.rows == [(FIRST, 1), (FIRST, 2), (THIRD, 9), (FOURTH, 4)]


def test_an_empty_range_of_a_new_table(make):
    out = make()
    assert out.cover(["2024-01-01", "2024-01-02"], []) == (0, 0, 0, 0)
    assert out.types == {"day": "date32[day]", "n": "int32"}


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("stray", [FIRST, THIRD, None])
def test_a_row_outside_of_the_window_is_an_error(make, stray):
    out = make()
    out.cover(["2024-01-01"], [(FIRST, 1)])
    error = out.refuse([(SECOND, 2), (stray, 3)])
    assert (error.code, error.joint) == ("RVT-512", "out")
    assert error.message == (
        f"1 rows of the batch lie outside of 2024-01-02: their day is {'NULL' if stray is None else stray}"
    )


def test_a_table_that_was_not_written_by_partitions(make):
    """All days are in one file, and one row has no day."""
    out = make()
    out.declare("replace")
    out.give(query([(FIRST, 1), (SECOND, 2), (THIRD, 3), (None, 4)], COLUMNS))
    out.folder.run("out")
    out.declare("replace", partitions=DAILY)
    assert out.cover(["2024-01-02"], [(SECOND, 9), (SECOND, 8)]) == (2, 0, 1, 5)
    assert out.rows == [(None, 4), (FIRST, 1), (SECOND, 8), (SECOND, 9), (THIRD, 3)]


def test_a_column_may_be_added_if_the_strategy_allows_it(make):
    out = make(strategy={"mode": "truncate_insert", "on_schema_change": "add"})
    out.cover(["2024-01-01"], [(FIRST, 1)])
    out.run([(SECOND, 2, "x")], "day DATE, n INT, more STRING")
    assert out.rows == [(FIRST, 1, None), (SECOND, 2, "x")]


def test_replace_preserves_the_columns_of_the_table(make):
    out = make()
    out.cover(["2024-01-01"], [(FIRST, 1)])
    assert out.refuse([(SECOND, 2, "x")], "day DATE, n INT, more STRING").code == "RVT-514"


def test_a_merge_works_inside_the_window(make):
    """Key 1 on another day is another row."""
    out = make(strategy={"mode": "merge", "key_columns": ["n"]}, columns="day DATE, n INT, v STRING")
    out.cover(["2024-01-01"], [(FIRST, 1, "a"), (FIRST, 2, "b")])
    assert out.cover(["2024-01-02"], [(SECOND, 1, "c")]) == (1, 0, 0, 3)
    assert out.cover(["2024-01-02"], [(SECOND, 1, "d"), (SECOND, 3, "e")]) == (1, 1, 0, 4)
    assert out.last.partition_rows == {"2024-01-02": 2}
    assert out.rows == [(FIRST, 1, "a"), (FIRST, 2, "b"), (SECOND, 1, "d"), (SECOND, 3, "e")]


def test_an_append_adds_to_the_window(make):
    out = make(strategy="append")
    out.cover(["2024-01-01"], [(FIRST, 1)])
    assert out.cover(["2024-01-01"], [(FIRST, 1)]) == (1, 0, 0, 2)
    assert out.refuse([(FIRST, 1)]).code == "RVT-512"


def test_delete_insert_deletes_inside_the_window(make):
    out = make(strategy={"mode": "delete_insert", "key_columns": ["n"]})
    out.cover(["2024-01-01", "2024-01-02"], [(FIRST, 1), (SECOND, 1), (SECOND, 2)])
    assert out.cover(["2024-01-02"], [(SECOND, 1), (SECOND, 1)]) == (2, 0, 1, 4)
    assert out.rows == [(FIRST, 1), (SECOND, 1), (SECOND, 1), (SECOND, 2)]


def test_scd2_has_no_partitions(make):
    with pytest.raises(RivetError) as caught:
        make(strategy={"mode": "scd2", "key_columns": ["n"]}).run([(SECOND, 1)])
    assert [error.code for error in caught.value.diagnostics] == ["RVT-325"]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMP_NTZ", "STRING"])
def test_days_of_another_time_zone(make, kind):
    """The session's time zone is Berlin; the days are in New York's."""
    partitions = {**DAILY, "column": "at", "timezone": "America/New_York"}
    out = make(columns=f"at {kind}, n INT", partitions=partitions)
    forms = {
        "TIMESTAMP": lambda day, hour: f"2024-01-0{day} {hour}:00:00 America/New_York",
        "TIMESTAMP_NTZ": lambda day, hour: f"2024-01-0{day} {hour}:00:00",
        "STRING": lambda day, hour: f"2024-01-0{day}",
    }
    at = forms[kind]
    both = ["2024-01-01", "2024-01-02"]
    assert out.cover(both, [(at(1, "00"), 1), (at(1, "23"), 2), (at(2, "00"), 3)]) == (3, 0, 0, 3)
    assert out.last.partition_rows == {"2024-01-01": 2, "2024-01-02": 1}
    assert out.cover(["2024-01-01"], [(at(1, "12"), 4)]) == (1, 0, 2, 2)
    assert {n for _, n in out.rows} == {3, 4}
    assert out.refuse([(at(1, "23"), 5)]).code == "RVT-512"
    assert out.cover(["2024-01-02"], [(at(2, "23"), 6)]) == (1, 0, 1, 2)
    assert {n for _, n in out.rows} == {4, 6}


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    ("kind", "keys"), [("STRING", ["a", "01"]), ("INT", ["7", "12"]), ("BOOLEAN", ["true", "false"])]
)
def test_static_partitions_of_each_type(make, kind, keys):
    partitions = {"type": "static", "column": "p", "values": [*keys, "2"]}
    out = make(columns=f"p {kind}, n INT", partitions=partitions)
    one, other = keys
    assert out.cover(keys, [(one, 1), (other, 2), (other, 3)]) == (3, 0, 0, 3)
    before = out.files
    assert len(before) == 2
    assert out.cover([other], [(other, 4)]) == (1, 0, 2, 2)
    assert len(before & out.files) == 1
    assert out.last.partition_rows == {other: 1}


def test_a_stored_joint_before_the_sink_retains_its_other_partitions(make):
    out = make(as_sink=True)
    out.folder.write({"sinks/copy.yaml": sink("copy", "batch", partitions=DAILY)})  # read twice, so it is stored
    for day, key in ((FIRST, "2024-01-01"), (SECOND, "2024-01-02")):
        out.give(query([(day, 1)], COLUMNS), partitions=DAILY)
        covered = window(parse_partitions(DAILY), [key])
        for group in ("batch", "out", "copy"):
            out.folder.run(group, window=covered)
    for table, catalog in (("batch", ".rivet/workspace"), ("out", "lake"), ("copy", "lake")):
        assert [row["day"] for row in out.folder.rows(table, catalog)] == [FIRST, SECOND]


@pytest.mark.nightly
def test_hundreds_of_partitions_in_one_run(make):
    """More partitions than are written to separate files at once."""
    hours = 500
    partitions = {"type": "hourly", "column": "at", "start": "2024-01-01"}
    out = make(columns="at TIMESTAMP, n INT", partitions=partitions)
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    moments = [begin + timedelta(hours=n) for n in range(hours)]
    keys = [moment.strftime("%Y-%m-%d-%H:%M") for moment in moments]
    out.cover(keys, [(moment, n) for n, moment in enumerate(moments)])
    assert out.last.partition_rows == dict.fromkeys(keys, 1)
    assert 150 < len(out.files) <= 200
    assert out.cover(keys[7:8], [(moments[7], -1)]) == (1, 0, 1, hours)
    assert sorted(n for _, n in out.rows) == sorted([-1, *range(7), *range(8, hours)])
