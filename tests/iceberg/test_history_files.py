"""Histories in tables that are partitioned by `is_current`: files of closed versions are not read for rows in time."""

from datetime import date, timedelta
from pathlib import Path
from urllib.parse import urlparse

import pytest
from support.iceberg import declared
from support.iceberg_runs import NAMESPACE, lake
from support.joint_by_joint import QUICK
from support.scd2_model import Scd2

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.model.write_plan import History
from rivet_dagster.testing.plan_cases.runs import started_at
from rivet_dagster.testing.tables import TABLE, rows_of, sort, write

PLAN = History(keys=("id",), effective_at="at")
COLUMNS = "id BIGINT, price BIGINT, at DATE"
MODEL = Scd2(("id", "price", "at"), ("id",), effective_at="at")
FIRST = date(2026, 1, 1)


class HistoryTable:
    """A table with a history, partitioned by `is_current` after its first run."""

    def __init__(self, iceberg_session, tmp_path):
        options = declared("hadoop", tmp_path / "lake")
        self.catalog, self.session = lake(options, tmp_path), iceberg_session(lake=options)
        for name, value in QUICK.items():
            self.session.spark.conf.set(name, value)
        self.plain = connect_catalog("plain", options, tmp_path)
        self.model = []
        self.runs = 0

    def table(self):
        return self.plain.load_table((NAMESPACE, TABLE))

    def write(self, *rows):
        started = started_at(self.runs)
        record = write(self.catalog, self.session, PLAN, rows, str(self.runs), started, COLUMNS).record
        history = self.model
        self.model = MODEL.run(history, [dict(zip(MODEL.columns, row, strict=True)) for row in rows], started)
        self.runs += 1
        assert (record.inserted, record.updated) == MODEL.difference(history, self.model)

    def check(self):
        assert rows_of(self.catalog, self.session) == sort([tuple(row.values()) for row in self.model])

    def closed(self):
        """Return the files of closed versions."""
        return [
            Path(urlparse(task.file.file_path).path) for task in self.table().scan("is_current = false").plan_files()
        ]


@pytest.fixture
def history(iceberg_session, tmp_path):
    table = HistoryTable(iceberg_session, tmp_path)
    table.write(*[(key, 0, FIRST) for key in (None, 1, 2, 3)])
    with table.table().update_spec() as spec:
        spec.add_identity("is_current")
    return table


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
