"""A history in a table: rows published by runs with scd2, and rejected batches."""

from datetime import UTC, date, datetime

import pytest
from support.batches import Table

HISTORY = {"mode": "scd2", "key_columns": ["id"], "effective_at": "at"}
COLUMNS = "id INT, plan STRING, at DATE"
MAY, JUNE, JULY = (date(2024, month, 1) for month in (5, 6, 7))


@pytest.fixture
def table(project):
    return lambda strategy=HISTORY, columns=COLUMNS, **fields: Table(project({}), strategy, columns, **fields)


def versions(table: Table, names=("id", "plan", "valid_from", "valid_to", "is_current")) -> list[tuple]:
    """Return keys, values and intervals; the session's time zone is Berlin, so days begin there."""
    rows = [[row[name] for name in names] for row in table.folder.table("out").to_pylist()]
    day = {
        date(2024, month, 1): datetime(2024, month - 1, 31 if month != 5 and month != 7 else 30, 22, tzinfo=UTC)
        for month in (5, 6, 7)
    }
    days = {moment: when for when, moment in day.items()}
    return sorted((tuple(days.get(v, v) if isinstance(v, datetime) else v for v in row) for row in rows), key=str)


def test_a_change_closes_a_version_and_begins_another(table):
    out = table()
    assert out.write([(1, "free", MAY), (2, "paid", MAY)]) == (2, 0, 0, 2)
    assert out.write([(1, "paid", JUNE)]) == (1, 1, 0, 3)
    assert versions(out) == [
        (1, "free", MAY, JUNE, False),
        (1, "paid", JUNE, None, True),
        (2, "paid", MAY, None, True),
    ]


def test_the_same_batch_again_changes_no_file(table):
    out = table()
    batch = [(1, "free", MAY), (1, "paid", JUNE), (None, "free", MAY)]
    assert out.write(batch) == (3, 0, 0, 3)
    before = out.files
    assert out.write(batch) == (0, 0, 0, 3)
    assert out.files == before


def test_a_late_row_is_inserted_at_its_time(table):
    out = table()
    out.write([(1, "free", MAY), (1, "paid", JULY)])
    assert out.write([(1, "trial", JUNE)]) == (1, 1, 0, 3)
    assert [row[1:4] for row in versions(out)] == [
        ("free", MAY, JUNE), ("paid", JULY, None), ("trial", JUNE, JULY),
    ]  # fmt: skip


def test_missing_keys_are_closed_at_the_start_of_the_run(table):
    out = table({"mode": "scd2", "key_columns": ["id"], "close_missing": True}, "id INT, plan STRING")
    begun = datetime.now(UTC)
    out.write([(1, "free"), (2, "free")])
    assert out.write([(1, "free")]) == (0, 1, 0, 2)
    open_, closed = versions(out)
    assert open_[3:] == (None, True)
    assert begun < closed[2] < closed[3]
    assert closed[4] is False
    assert out.write([(1, "free"), (2, "free")]) == (1, 0, 0, 3)


def test_the_columns_may_have_other_names(table):
    own = {"valid_from": "since", "valid_to": "until", "is_current": "now"}
    out = table({**HISTORY, **own})
    out.write([(1, "free", MAY)])
    assert out.types == {
        "id": "int32", "plan": "string", "at": "date32[day]",
        "since": "timestamp[us, tz=UTC]", "until": "timestamp[us, tz=UTC]", "now": "bool",
    }  # fmt: skip


def test_a_new_column_is_tracked_from_its_first_run_on(table):
    out = table({**HISTORY, "on_schema_change": "add"})
    out.write([(1, "free", MAY)])
    assert out.run([(1, "free", JUNE, 5)], COLUMNS + ", price INT").rows.total == 2
    assert list(out.types) == ["id", "plan", "at", "valid_from", "valid_to", "is_current", "price"]


def test_an_audit_reads_the_whole_history(table):
    one = {
        "type": "custom",
        "name": "one",
        "sql": "SELECT id FROM {{ this }} WHERE is_current GROUP BY id HAVING count(*) > 1",
    }
    out = table(quality={"audits": [one]})
    out.write([(1, "free", MAY)])
    result = out.run([(1, "paid", JUNE)])
    assert [(check.check.name, check.violations) for check in result.checks] == [("one", 0)]


@pytest.mark.parametrize(
    ("batch", "code", "words"),
    [
        ([(1, "free", None)], "RVT-516", "1 rows of the batch have no at"),
        ([(1, "free", MAY), (1, "paid", MAY), (2, "x", MAY)], "RVT-515", "id=1"),
    ],
)
def test_ambiguous_rows_and_rows_without_effective_at_are_rejected(table, batch, code, words):
    out = table()
    out.write([(9, "old", MAY)])
    error = out.refuse(batch)
    assert (error.code, error.joint) == (code, "out")
    assert words in error.message


def test_an_effective_at_of_another_type_is_rejected(table):
    error = table(columns="id INT, plan STRING, at STRING").refuse([(1, "free", "2024-05-01")])
    assert error.code == "RVT-513"
    assert "`effective_at` names at, which is string and no date or timestamp" in error.message


def test_a_table_that_is_not_a_history_is_rejected(table):
    out = table("append")
    out.write([(1, "free", MAY)])
    other = Table(out.folder, HISTORY, COLUMNS)
    assert "the table has no valid_from (timestamp)" in other.refuse([(1, "free", MAY)]).message
