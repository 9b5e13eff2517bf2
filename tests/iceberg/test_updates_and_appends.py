"""Merges of few and of many rows: the same rows and records, by a statement for what there is, or by one for all."""

from datetime import timedelta

import pytest
from support.scd2_model import Scd2
from support.spark_on_iceberg import WrittenTable

from rivet_dagster.catalogs.iceberg.writes import native
from rivet_dagster.model.write_plan import Append, History, Upsert
from rivet_dagster.testing.plan_cases.runs import started_at
from rivet_dagster.testing.tables import sort

COLUMNS = "Id BIGINT, part STRING, net BIGINT"
PLAN = Upsert(keys=("id", "part"))
FIRST = [(1, "a", 1), (2, "a", 2), (None, "a", 3), (3, None, 4)]

BATCHES = {
    "changed": ([(1, "a", 9), (None, "a", 9), (3, None, 9)], (0, 3), ["overwrite"]),
    "new": ([(1, "b", 1), (None, None, 1), (9, "a", 1)], (3, 0), ["append"]),
    "both": ([(2, "a", 8), (2, "b", 8), (3, None, 4)], (1, 1), ["overwrite", "append"]),
    "one of each": ([(2, "a", 8), (2, "b", 8)], (1, 1), ["overwrite", "append"]),
    "equal": ([(1, "a", 1), (2, "a", 2)], (0, 0), None),
    "repeated": ([(7, "a", 7), (7, "a", 7), (8, "a", 8)], (2, 0), None),
    "none": ([], (0, 0), None),
}
"""Rows, how many of them are inserted and updated, and what the new snapshots are, where Iceberg has no choice."""


WRITES = ("updates and appends", "a large batch", "a small table")


@pytest.fixture
def table(iceberg_session, tmp_path):
    return WrittenTable(iceberg_session, tmp_path)


def operations(table):
    """Return what the snapshots of the table are, in order."""
    return [snapshot.summary.operation.value for snapshot in table.table().snapshots()]


@pytest.mark.parametrize(
    ("most", "few", "apart"), [(native.MOST_BATCH_ROWS, 0, True), (0, 0, False), (9, 9, False)], ids=WRITES
)
@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("batch", BATCHES)
def test_merges(table, monkeypatch, batch, most, few, apart):
    monkeypatch.setattr(native, "MOST_BATCH_ROWS", most)
    monkeypatch.setattr(native, "FEW_ROWS", few)
    rows, record, added = BATCHES[batch]
    table.write(Append(), FIRST, COLUMNS)
    before = len(operations(table))
    assert table.write(PLAN, rows, "ID INT, PART STRING, NET BIGINT" if batch == "both" else COLUMNS) == record
    expected = {row[:2]: row for row in FIRST} | {row[:2]: row for row in rows}
    assert table.rows() == sort(list(expected.values()))
    if added is not None:
        *made, _published = operations(table)[before:]
        assert made == (added if apart else added[:1])


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("few", [0, 99], ids=[WRITES[0], WRITES[2]])
@pytest.mark.parametrize("batch", ["in time", "new", "late", "equal", "none"])
def test_histories(table, monkeypatch, batch, few):
    monkeypatch.setattr(native, "FEW_ROWS", few)
    columns, model = "id BIGINT, price BIGINT, at TIMESTAMP", Scd2(("id", "price", "at"), ("id",), effective_at="at")
    plan = History(keys=("id",), effective_at="at")
    noon = started_at(0)
    first = [(key, 0, noon) for key in (None, 1, 2, 3)]
    batches = {
        "in time": [(None, 1, noon + timedelta(1)), (1, 0, noon + timedelta(1)), (2, 5, noon + timedelta(1))],
        "new": [(1, 5, noon + timedelta(1)), (8, 5, noon - timedelta(1)), (9, 5, noon)],
        "late": [(1, 5, noon + timedelta(1)), (2, 5, noon - timedelta(1))],
        "equal": [(1, 0, noon), (2, 0, noon)],
        "none": [],
    }
    history = []
    for number, rows in enumerate((first, batches[batch])):
        before, history = (
            history,
            model.run(history, [dict(zip(model.columns, row, strict=True)) for row in rows], started_at(number + 1)),
        )
        written = len(operations(table)) if number else 0
        assert table.write(plan, rows, columns) == model.difference(before, history)
        assert table.rows() == sort([tuple(row.values()) for row in history])
    if batch in ("equal", "none"):  # the version of the first run, and that of the second with the same rows
        assert len(operations(table)) == written + 1
