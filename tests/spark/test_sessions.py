"""Costs of a run besides its rows: sessions, queries, and footers that this process reads."""

from collections.abc import Iterator
from datetime import date
from unittest.mock import patch

import pytest
from support.batches import query
from support.folders import sink, source

from rivet_dagster.catalogs.filesystem.files import footers
from rivet_dagster.definitions.partitions import window
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.execution.results import Rows
from rivet_dagster.model.partitions import parse_partitions

DAILY = {"type": "daily", "column": "day", "start": "2024-01-01"}
CHECKS = [
    {"type": "not_null", "columns": ["id"]},
    {"type": "expression", "name": "positive", "sql": "n > 0"},
]
AUDITS = [{"type": "unique", "columns": ["id"]}, {"type": "row_count", "min": 1}]


@pytest.fixture
def sessions() -> Iterator[list[int]]:
    """Record each session that is opened."""
    opened: list[int] = []
    session = PySparkEngine.session

    def counted(engine):
        opened.append(1)
        return session(engine)

    with patch.object(PySparkEngine, "session", counted):
        yield opened


@pytest.fixture
def read_footers() -> Iterator[list[str]]:
    """Record the files whose footers are read."""
    read: list[str] = []
    read_footer = footers.read_footer

    def counted(path):
        read.append(path.name)
        return read_footer(path)

    with patch.object(footers, "read_footer", counted):
        yield read


def test_a_gated_partitioned_merge(project, sessions, sql_executions):
    folder = project({})
    strategy = {"mode": "merge", "key_columns": ["id"]}
    out = sink("out", "batch", write_strategy=strategy, partitions=DAILY)
    out["quality"] = {"assertions": CHECKS, "audits": AUDITS}

    def write(rows):
        text = query(rows, "id INT, day DATE, n INT")
        folder.write({"joints/batch.sql": f"-- rivet:partitions: {DAILY}\n{text}", "sinks/out.yaml": out})
        return folder.run("out", window=window(parse_partitions(DAILY), ("2024-01-01", "2024-01-02")))

    first, second = date(2024, 1, 1), date(2024, 1, 2)
    write([(1, first, 1), (2, second, 2)])
    sessions.clear()
    sql_executions.since()
    result = write([(2, second, 3), (3, first, 4)])
    assert result.rows == Rows(1, 1, 0, 3)
    assert result.partition_rows == {"2024-01-01": 2, "2024-01-02": 1}
    assert len(result.checks) == len(CHECKS) + len(AUDITS)
    assert len(sessions) == 1
    assert sql_executions.since() <= 7


def test_an_append_reads_the_footers_of_its_new_files_alone(project, read_footers):
    folder = project({"sinks/out.yaml": sink("out", "batch", write_strategy="append")})

    def append(number):
        read_footers.clear()
        folder.write({"joints/batch.sql": f"SELECT {number} AS id"})
        folder.run("out")

    for number in range(4):
        append(number)
        assert len(read_footers) == 1
    for beside in (folder.root / "lake/.rivet/out").glob("*.files.json"):
        beside.unlink()  # as with a version of an earlier release
    append(4)
    assert len(read_footers) == len(set(read_footers)) == 5
    append(5)
    assert len(read_footers) == 1
    assert [row["id"] for row in folder.rows("out")] == list(range(6))


def test_a_handle_outside_of_a_run_opens_one_session_and_gives_the_same_rows_each_time(project, sessions):
    data = {"data/numbers.csv": "id\n1\n", "sources/numbers.yaml": source("numbers", "id INT")}
    folder = project(
        {**data, "joints/doubled.sql": "SELECT id * 2 AS id FROM numbers", "sinks/out.yaml": sink("out", "doubled")}
    )
    ref = reference(folder.runtime, "doubled")
    assert (ref.row_count, ref.schema.names) == (1, ["id"])
    folder.write({"data/more.csv": "id\n2\n"})
    assert ref.to_arrow()["id"].to_pylist() == [2]
    assert ref.to_spark().count() == 1
    assert len(sessions) == 1
