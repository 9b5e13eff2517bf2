"""Runs of scd2 beyond the rows: when they begin, files, audits, and what a user is told."""

from datetime import UTC, date, datetime

import pytest
from support.batches import Table

HISTORY = {"mode": "scd2", "key_columns": ["id"], "effective_at": "at"}
COLUMNS = "id INT, plan STRING, at DATE"
MAY, JUNE = date(2024, 5, 1), date(2024, 6, 1)


@pytest.fixture
def table(project):
    return lambda strategy=HISTORY, columns=COLUMNS, **fields: Table(project({}), strategy, columns, **fields)


def test_the_same_batch_again_changes_no_file(table):
    out = table()
    batch = [(1, "free", MAY), (1, "paid", JUNE), (None, "free", MAY)]
    assert out.write(batch) == (3, 0, 0, 3)
    before = out.files
    assert out.write(batch) == (0, 0, 0, 3)
    assert out.files == before


@pytest.mark.nightly
def test_keys_that_are_missing_are_closed_when_the_run_began(table):
    out = table({"mode": "scd2", "key_columns": ["id"], "close_missing": True}, "id INT, plan STRING")
    begun = datetime.now(UTC)
    out.write([(1, "free"), (2, "free")])
    assert out.write([(1, "free")]) == (0, 1, 0, 2)
    (_, _, _, *open_), (_, _, since, until, is_current) = out.rows
    assert open_ == [None, True]
    assert begun < since < until
    assert is_current is False
    assert out.write([(1, "free"), (2, "free")]) == (1, 0, 0, 3)


def test_an_audit_judges_the_whole_history(table):
    one = {
        "type": "custom",
        "name": "one",
        "sql": "SELECT id FROM {{ this }} WHERE is_current GROUP BY id HAVING count(*) > 1",
    }
    out = table(quality={"audits": [one]})
    out.write([(1, "free", MAY)])
    result = out.run([(1, "paid", JUNE)])
    assert [(check.check.name, check.violations) for check in result.checks] == [("one", 0)]


@pytest.mark.nightly(but=1)
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
