"""Errors of rows on Iceberg: of sources that are Iceberg tables, and those that stay from earlier versions."""

from __future__ import annotations

import json

import pyarrow as pa
from support.folders import sink, source
from support.iceberg import need_iceberg
from support.iceberg_folders import NAMESPACE, OPTIONS, IcebergFolder

from rivet_dagster.catalogs.iceberg.settings.connection import connected
from rivet_dagster.execution.writing import joint


def test_good_rows_and_errors_of_a_source_are_of_one_snapshot(tmp_path, monkeypatch, application):
    need_iceberg()
    plain = connected("plain", OPTIONS, tmp_path)
    columns = ["id", {"v": "CAST(text AS INT)"}, {"file": "_file"}]
    folder = IcebergFolder(tmp_path, {
        "sources/raw_rows.yaml": {"type": "source", "catalog": "lake", "table": "raw_rows", "columns": columns},
        "sinks/out.yaml": sink("out", "raw_rows", on_error="quarantine"),
    })  # fmt: skip
    plain.create_namespace(NAMESPACE)
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "text": ["10", "x"]})
    table = plain.create_table((NAMESPACE, "raw_rows"), rows.schema)
    table.append(rows)
    write_errors = joint.write_errors

    def after_an_append(*arguments):
        table.append(pa.table({"id": pa.array([3, 4], pa.int32()), "text": ["30", "y"]}))
        return write_errors(*arguments)

    monkeypatch.setattr(joint, "write_errors", after_an_append)
    result = folder.run("out")
    (row,) = folder.plain("out").scan().to_arrow().to_pylist()
    (error,) = folder.plain("out__errors").scan().to_arrow().to_pylist()
    assert (row["id"], row["v"], row["file"].endswith(".parquet")) == (1, 10, True)
    assert [error[key] for key in ("joint", "code", "expression", "file")] == [
        "raw_rows", "CAST_INVALID_INPUT", "CAST(text AS INT)", "sources/raw_rows.yaml",
    ]  # fmt: skip
    assert (json.loads(error["row"])["id"], result.errors.count) == (2, 1)


def test_appended_errors_share_the_files_of_the_earlier_ones(tmp_path, application):
    need_iceberg()
    casts = {"columns": [{"id": "CAST(id AS INT)"}], "options": {"landing": True}}
    folder = IcebergFolder(tmp_path, {
        "sources/zone.yaml": source("zone", "id STRING", **casts),
        "sinks/out.yaml": sink("out", "zone", write_strategy="append", on_error="quarantine"),
    })  # fmt: skip

    def run(name: str, text: str) -> tuple[set[str], list[str], int, int]:
        folder.write({f"data/zone/{name}.csv": text})
        result = folder.run("out")
        table = folder.plain("out__errors")
        files = set(table.inspect.files()["file_path"].to_pylist())
        found = sorted(table.scan().to_arrow()["row"].to_pylist())
        return files, found, result.errors.count, result.errors.total

    first, *told = run("a", "id\n1\nx\ny\n")
    assert told == [['{"id":"x"}', '{"id":"y"}'], 2, 2]
    second, *told = run("b", "id\nz\n")
    assert told == [['{"id":"x"}', '{"id":"y"}', '{"id":"z"}'], 1, 3]
    third, *told = run("c", "id\n3\n")
    assert (first < second == third, told[1:]) == (True, [0, 3])
