"""Histories in tables that are partitioned by `is_current`: files of closed versions are not read for rows in time."""

from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlparse

import pytest
from support.scd2_model import Scd2
from support.spark_on_iceberg import WrittenTable

from rivet_dagster.model.write_plan import History
from rivet_dagster.testing.plan_cases.runs import started_at
from rivet_dagster.testing.tables import sort

PLAN = History(keys=("id",), effective_at="at")
COLUMNS = "id BIGINT, price BIGINT, at DATE"
MODEL = Scd2(("id", "price", "at"), ("id",), effective_at="at")
FIRST = date(2026, 1, 1)


class HistoryTable:
    """A table with a history, and the history that the model has of it."""

    def __init__(self, table):
        self.written = table
        self.model = []

    def write(self, *rows):
        record, history = self.written.write(PLAN, rows, COLUMNS), self.model
        started = started_at(self.written.runs)
        self.model = MODEL.run(history, [dict(zip(MODEL.columns, row, strict=True)) for row in rows], started)
        assert record == MODEL.difference(history, self.model)

    def check(self):
        assert self.written.rows() == sort([tuple(row.values()) for row in self.model])

    def closed(self):
        """Return the files of closed versions."""
        scan = self.written.table().scan("is_current = false")
        return [Path(urlparse(task.file.file_path).path) for task in scan.plan_files()]


@pytest.fixture
def history(iceberg_session, tmp_path):
    history = HistoryTable(WrittenTable(iceberg_session, tmp_path))
    history.write(*[(key, 0, FIRST) for key in (None, 1, 2, 3)])
    with history.written.table().update_spec() as spec:
        spec.add_identity("is_current")
    return history


@pytest.mark.nightly
def test_files_of_closed_versions_are_read_for_late_rows_alone(history):
    history.write((1, 1, FIRST + timedelta(1)), (None, 1, FIRST + timedelta(1)))
    history.check()
    (closed,) = history.closed()
    away = closed.rename(closed.with_suffix(".away"))
    history.write((2, 2, FIRST + timedelta(2)), (1, 2, FIRST + timedelta(2)), (None, 1, FIRST + timedelta(3)))
    away.rename(closed)
    history.check()
    assert closed in history.closed()
    # A late row, a new key, and one in time.
    history.write((1, 7, FIRST), (9, 9, FIRST), (3, 3, FIRST + timedelta(3)))
    history.write((1, 8, FIRST - timedelta(5)), (1, 9, FIRST + timedelta(1)))
    history.check()
