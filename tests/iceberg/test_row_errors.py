"""Errors of rows on Iceberg: of sources that are Iceberg tables, and those that stay from earlier versions."""

from __future__ import annotations

import json
from datetime import timedelta

import pyarrow as pa
import pytest
from support.error_retention import START, RunClock, retaining, write_as_before
from support.folders import sink, source
from support.iceberg import declared, need_iceberg
from support.iceberg_folders import NAMESPACE, OPTIONS, IcebergFolder
from support.iceberg_runs import APPEND, ERRORS, TABLE, Work, lake, run, written
from support.random_expressions import COLUMNS, ROWS, query
from support.separated import compared_queries, with_tables
from support.torture import examples

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.execution.reading.sources import errors_reference
from rivet_dagster.execution.writing import joint


def test_good_rows_and_errors_of_a_source_are_of_one_snapshot(tmp_path, monkeypatch, application):
    need_iceberg()
    plain = connect_catalog("plain", OPTIONS, tmp_path)
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


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_old_errors_are_removed_and_younger_ones_shared(tmp_path, application, monkeypatch):
    """Those of an earlier release, which lack the time, stay, and are written again once, with it."""
    need_iceberg()
    folder, clock = IcebergFolder(tmp_path, retaining("append", "2d")), RunClock(monkeypatch)

    def run(name: str, day: int) -> tuple[set[str], dict[str, object]]:
        clock.now = START + timedelta(days=day)
        folder.write({f"data/zone/{name}.csv": f"id\n1\n{name}\n"})
        folder.run("out")
        return seen()

    def seen() -> tuple[set[str], dict[str, object]]:
        table = folder.plain("out__errors")
        rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["row"])
        files = table.inspect.files()["file_path"].to_pylist()
        return set(files), {json.loads(row["row"])["id"]: row.get("found_at") for row in rows}

    with monkeypatch.context() as earlier:
        write_as_before(earlier)
        old, found = run("old", 0)
    assert found == {"old": None}
    assert "found_at" not in folder.plain("out__errors").schema().column_names
    assert errors_reference(folder.runtime, "out").to_arrow()["found_at"].to_pylist() == [None]
    catalog = folder.runtime.target_catalog("lake")
    first = catalog.current("out").version
    rewritten, found = run("a", 0)
    assert (old & rewritten, found) == (set(), {"a": START, "old": None})
    with catalog.restage("out", first) as transaction:
        transaction.commit("rollback")
    assert seen() == (old, {"old": None})
    rewritten, found = run("a", 0)
    assert (old & rewritten, found) == (set(), {"a": START, "old": None})
    shared, found = run("b", 2)
    assert (rewritten < shared, found["b"]) == (True, START + timedelta(days=2))
    fewer, found = run("c", 3)
    assert (fewer & shared, [*found]) == (set(), ["b", "c", "old"])
    assert run("d", 4)[0] > fewer
    assert folder.state("out__errors")[0].keys() == {"main"}


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("end", ["commit", "abort", "withhold", "dropped", "stage", "merge"])
def test_an_error_table_of_an_earlier_release_gets_its_columns_with_a_version(tmp_path, end):
    """Which is staged in a table of its own, and not seen before: neither its errors nor its columns."""
    catalog = lake(declared("hadoop", tmp_path / "lake"), tmp_path)
    run(catalog, OLD, tmp_path)
    with catalog.access.open(ERRORS).load().update_schema() as change:
        change.delete_column("found_at")

    def seen() -> tuple[list[str], bool]:
        table = catalog.access.open(ERRORS).load()
        assert catalog.current(TABLE) is not None
        snapshot = catalog.errors_of(catalog.current(TABLE)).snapshot
        messages = table.scan(snapshot_id=snapshot).to_arrow()["message"].to_pylist()
        assert catalog.has_errors(catalog.current(TABLE)) is True
        return messages, "found_at" in table.schema().column_names

    assert seen() == (["old"], False)
    if end == "merge":
        catalog.use_environment("pr-7", "default")
        run(catalog.in_environment("pr-7"), NEW, tmp_path)
        assert seen() == (["old"], False)
        catalog.merge("pr-7")
    else:
        transaction = written(catalog, NEW, tmp_path)
        match end:
            case "withhold" | "dropped":
                transaction.withhold("new/orders")
            case "stage":
                transaction.stage("new/orders")
        catalog.sweep()
        assert seen() == (["old"], False)
        match end:
            case "commit":
                transaction.commit("new/orders")
            case "abort":
                transaction.abort()
            case "withhold":
                catalog.take_up(TABLE, transaction.version).commit("by hand")
            case "dropped":
                catalog.take_up(TABLE, transaction.version).abort()
            case "stage":
                catalog.take_up_staged(TABLE, transaction.version, {}).commit("new/orders")
    assert seen() == ((["old"], False) if end in ("abort", "dropped") else (["new"], True))
    for name in (TABLE, ERRORS):
        assert catalog.access.open(name).load().metadata.refs.keys() == {"main"}
    assert catalog.access.catalog.list_tables(NAMESPACE) == [(NAMESPACE, name) for name in (TABLE, ERRORS)]
    run(catalog, NEW.having(errors=["later"], identity="later/orders"), tmp_path)
    assert seen() == (["later"], True)


OLD = Work([1], errors=["old"], identity="old/orders")
NEW = Work([2], plan=APPEND, errors=["new"], identity="new/orders")


@pytest.mark.nightly
def test_rows_of_iceberg_tables_are_separated_as_those_of_files(tmp_path, iceberg_session):
    """Random queries, as in tests/spark/test_separation.py."""
    session = iceberg_session(lake=declared("hadoop", tmp_path / "lake"))
    rows = f"SELECT * FROM VALUES {', '.join(ROWS)} AS t({COLUMNS})"
    session.spark.sql(f"CREATE TABLE lake.shop.t USING iceberg AS {rows}")
    with with_tables(session, session.spark.table("lake.shop.t")) as tables:
        number = examples(2, 60)
        assert compared_queries(tables, map(query, range(200, 200 + number))) >= number / 2
