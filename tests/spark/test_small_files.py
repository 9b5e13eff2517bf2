"""A write that leaves many small files is written once more, in few, before anything is judged or published."""

import duckdb
import pytest
from support.folders import sink

MANY, FEW = 40, 16
"""Partitions of a query, so files of its write; as many as FEW are left alone."""

BATCH = """
SELECT id, id / 3 AS third, CAST(id AS DECIMAL(20, 4)) AS amount, CAST(NULL AS STRING) AS nothing,
    TIMESTAMP_NTZ '2024-01-01 00:00:00' AS local_time, named_struct('a', array(id)) AS nested, map('k', id) AS pairs
FROM range(0, 1000, 1, {})
"""


def files_of(project, table: str) -> list[str]:
    return sorted(path.name for path in (project.root / "lake" / table).glob("*.parquet"))


def rows_of(project, table: str) -> list[tuple]:
    folder = project.root / "lake" / table
    query = f"SELECT id, third, amount, nothing, local_time, nested.a[1], pairs['k'] FROM '{folder}/*.parquet'"
    return sorted(duckdb.sql(query).fetchall(), key=str)


@pytest.mark.nightly
def test_many_small_files_become_one_and_few_stay(project):
    made = project(
        {
            "joints/many.sql": BATCH.format(MANY),
            "joints/few.sql": BATCH.format(FEW),
            "sinks/one.yaml": sink("one", "many", write_strategy="append"),
            "sinks/several.yaml": sink("several", "few"),
        }
    )
    result = made.run("one")
    assert len(files_of(made, "one")) == 1
    assert (result.rows.inserted, result.rows.total) == (1000, 1000)
    (plan,) = result.plans.values()
    assert "Range (0, 1000" in plan.text, "the plan of the joint's own query"
    made.run("several")
    assert len(files_of(made, "several")) == FEW
    assert rows_of(made, "one") == rows_of(made, "several")

    first = files_of(made, "one")
    assert made.run("one").rows.total == 2000
    assert set(first) < set(files_of(made, "one"))
    assert len(files_of(made, "one")) == 2
    assert rows_of(made, "one") == sorted(2 * rows_of(made, "several"), key=str)
