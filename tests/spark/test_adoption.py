"""Tables that plain Spark has made, taken over by the runs of a project."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from support.folders import ProjectFolder, source

from rivet_dagster.definitions.partitions import window
from rivet_dagster.errors import RivetError
from rivet_dagster.model.partitions import parse_partitions

FILES = {
    "sources/raw.yaml": source("raw.csv", "id BIGINT, n INT"),
    "data/raw.csv": "id,n\n1,10\n7,70\n",
}
MERGE = "-- rivet:catalog: lake\n-- rivet:write_strategy: {mode: merge, key_columns: [id]}\nSELECT id, n FROM raw"


def test_a_run_takes_over_a_folder_that_spark_has_written(quick_session, tmp_path):
    """Not without `adopt`, and not one of other columns; the batch is merged into its rows."""
    folder = ProjectFolder(tmp_path, {**FILES, "joints/orders.sql": MERGE})
    table = tmp_path / "lake/orders"
    written = quick_session.spark.sql("SELECT id, CAST(id * 2 AS INT) AS n FROM range(3)")
    written.write.parquet(str(table))
    with pytest.raises(RivetError, match="rivet-dagster adopt JOINT") as caught:
        folder.run("orders")
    assert caught.value.code == "RVT-404"
    adopting = f"-- rivet:adopt: true\n{MERGE}"
    with pytest.raises(RivetError, match="n is int and not string"):
        ProjectFolder(tmp_path, {**FILES, "joints/orders.sql": adopting.replace(", n", ", string(n) AS n")}).run(
            "orders"
        )
    assert not table.is_symlink()
    result = folder.write({"joints/orders.sql": adopting}).run("orders")
    assert (result.rows.inserted, result.rows.updated, result.rows.total) == (1, 1, 4)
    rows = pq.read_table(table).sort_by("id").to_pydict()
    assert rows == {"id": [0, 1, 2, 7], "n": [0, 10, 4, 70]}
    assert folder.run("orders").rows.total == 4  # it is not taken over again


VALUES = """id, CAST(id AS INT) AS n, TIMESTAMP'2024-01-01 12:00:00.123456' + make_interval(0, 0, 0, id) AS at,
TIMESTAMP_NTZ'1850-06-30 01:02:03' AS local, CAST(id AS DECIMAL(20, 3)) / 7 AS share,
CAST(id AS DECIMAL(5, 2)) AS price, array(id, NULL) AS many, map('a', id) AS named,
struct(id AS x, DATE'1500-02-03' AS d) AS inner, X'00FF' AS raw, CAST(NULL AS STRING) AS nothing,
DATE'2024-01-01' + CAST(id AS INT) AS day"""
DAILY = """-- rivet:catalog: lake
-- rivet:partitions: {type: daily, column: day, start: 2024-01-01}
-- rivet:adopt: true
"""


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("stored_as", ["INT96", "TIMESTAMP_MICROS"])
def test_a_run_takes_over_the_partitions_that_spark_has_written(quick_session, tmp_path, stored_as):
    """Spark finds the same rows, with the same types; the run replaces the rows of its partition."""
    query = f"SELECT {VALUES} FROM range(2)"
    joint = DAILY + query.replace("range(2)", "raw WHERE id = 7")
    folder = ProjectFolder(tmp_path, {**FILES, "joints/orders.sql": joint})
    table, spark = tmp_path / "lake/orders", quick_session.spark
    spark.conf.set("spark.sql.parquet.outputTimestampType", stored_as)
    spark.sql(query).repartition(1).write.partitionBy("day").parquet(str(table))
    before = spark.read.parquet(str(table)).orderBy("id")
    rows, schema = before.collect(), before.schema
    partitions = parse_partitions({"type": "daily", "column": "day", "start": "2024-01-01"})
    folder.run("orders", window=window(partitions, ["2024-01-08"]))
    assert table.is_symlink()
    after = spark.read.parquet(str(table)).orderBy("id")
    assert after.schema == schema
    first, second, new = after.collect()
    assert ([first, second], new.id) == (rows, 7)
