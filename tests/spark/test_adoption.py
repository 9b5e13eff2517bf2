"""Tables that plain Spark has made, taken over by the runs of a project."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from support.folders import ProjectFolder, source

from rivet_dagster.errors import RivetError

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
