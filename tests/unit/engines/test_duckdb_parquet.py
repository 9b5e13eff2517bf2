"""Parquet files in DuckDB: the types that it finds in them by itself, and footers that change."""

import datetime as dt
import json
import os
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.engines.duckdb.relations import parquet
from rivet_dagster.engines.duckdb.relations.parquet import parquet_query
from rivet_dagster.engines.duckdb.relations.paths import DataFile
from rivet_dagster.engines.duckdb.types import duckdb_type
from rivet_dagster.engines.duckdb.writing import SPARK_SCHEMA
from rivet_dagster.errors import RivetError
from rivet_dagster.model.schema import SparkType

PLAIN = {
    "a_boolean": pa.array([True, None]),
    "an_int": pa.array([1, None], pa.int32()),
    "a_bigint": pa.array([2**40, None], pa.int64()),
    "a_float": pa.array([1.5, None], pa.float32()),
    "a_double": pa.array([1.5, None], pa.float64()),
    "a_string": pa.array(["ä", None]),
    "a_large_string": pa.array(["ä", None], pa.large_string()),
    "a_date": pa.array([dt.date(2024, 2, 29), None]),
    "a_short_decimal": pa.array([Decimal("1.25"), None], pa.decimal128(7, 2)),
    "a_decimal": pa.array([Decimal("1.25"), None], pa.decimal128(15, 2)),
    "a_long_decimal": pa.array([Decimal("1.25"), None], pa.decimal128(38, 10)),
}
OTHERS = {
    "a_tinyint": pa.array([1, None], pa.int8()),
    "a_binary": pa.array([b"x", None]),
    "a_time": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us")),
    "an_instant": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us", "UTC")),
    "an_array": pa.array([[1], None]),
    "a_struct": pa.array([{"a": 1}, None]),
}


def query_of(*files: Path) -> tuple[str, list[tuple[str, SparkType]]]:
    query, columns = parquet_query([DataFile(str(file)) for file in files], None, (), frozenset())
    return query, list(columns)


@pytest.mark.parametrize("name", [*PLAIN, *OTHERS])
def test_each_column_has_the_type_that_it_is_said_to_have(tmp_path: Path, name: str):
    pq.write_table(pa.table({name: {**PLAIN, **OTHERS}[name]}), tmp_path / "t.parquet", store_decimal_as_integer=True)
    query, [(_, kind)] = query_of(tmp_path / "t.parquet")
    assert ("CAST" not in query) == (name in PLAIN)
    with duckdb.connect() as connection:
        found = connection.sql(query)
        (meant,) = connection.sql(f"SELECT CAST(NULL AS {duckdb_type(kind)}) AS x").types
        assert found.columns == [name]
        assert str(found.types[0]) == str(meant)


def test_files_with_columns_in_another_order_or_of_other_names_are_cast(tmp_path: Path):
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"b": ["y"], "a": [2]}), tmp_path / "2.parquet")
    assert "CAST" not in query_of(tmp_path / "1.parquet")[0]
    query, _ = query_of(tmp_path / "1.parquet", tmp_path / "2.parquet")
    assert duckdb.sql(query).fetchall() == [(1, "x"), (2, "y")]
    declared = [("A", SparkType("bigint")), ("c", SparkType("string"))]
    query, _ = parquet_query([DataFile(str(tmp_path / "1.parquet"))], declared, (), frozenset())
    assert duckdb.sql(query).columns == ["A", "c"]


def test_a_file_that_was_written_again_has_its_new_columns(tmp_path: Path):
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1]}), file)
    assert [name for name, _ in query_of(file)[1]] == ["a"]
    before = file.stat()
    pq.write_table(pa.table({"b": [1]}), tmp_path / "other.parquet")
    os.replace(tmp_path / "other.parquet", file)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [name for name, _ in query_of(file)[1]] == ["b"]


def test_the_footer_of_each_of_many_files_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """More than are remembered."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "0.parquet")
    for number in range(1, 1100):
        os.link(tmp_path / "0.parquet", tmp_path / f"{number}.parquet")
    read, read_metadata = [], pq.read_metadata
    monkeypatch.setattr(pq, "read_metadata", lambda path: read.append(path) or read_metadata(path))
    query_of(*tmp_path.iterdir())
    assert len(read) == 1100


def with_spark_schema(table: pa.Table, kind: str) -> pa.Table:
    fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name in table.column_names]
    return table.replace_schema_metadata({SPARK_SCHEMA: json.dumps({"type": "struct", "fields": fields})})


@pytest.mark.parametrize("of_spark", [True, False])
def test_many_files_of_one_schema_have_their_columns_found_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_spark: bool
):
    parquet._columns_of.cache_clear()
    found = []
    monkeypatch.setattr(parquet, "_plain_type", lambda column: found.append(column.path) or "int")
    table = pa.table({"one": pa.array([1], pa.int32()), "two": pa.array([1], pa.int32())})
    for n in range(12):
        pq.write_table(with_spark_schema(table, "integer") if of_spark else table, tmp_path / f"{n}.parquet")
    query_of(*(tmp_path / f"{n}.parquet" for n in range(12)))
    assert found == ["one", "two"]


def test_files_of_the_same_columns_for_spark_and_other_types_are_told_apart(tmp_path: Path):
    files = {}
    for name, column in {
        "int": pa.array([1], pa.int32()),
        "short": pa.array([2], pa.int16()),
        "int again": pa.array([3], pa.int32()),
        "within": pa.array([{"x": 4}], pa.struct([("x", pa.int32())])),
    }.items():
        files[name] = tmp_path / f"{name}.parquet"
        pq.write_table(with_spark_schema(pa.table({"x": column}), "integer"), files[name])
    cast = {name for name, file in files.items() if "CAST" in query_of(file)[0]}
    assert cast == {"short", "within"}
    with duckdb.connect() as connection:
        found = connection.sql(query_of(files["int"], files["short"])[0])
        assert [str(kind) for kind in found.types] == ["INTEGER"]
        assert sorted(found.fetchall()) == [(1,), (2,)]


def test_timestamps_of_the_old_type_are_refused_by_the_name_of_the_file(tmp_path: Path):
    table = pa.table({"t": pa.array([dt.datetime(2024, 1, 1)], pa.timestamp("us"))})
    for name in ("one", "two"):
        pq.write_table(table, tmp_path / f"{name}.parquet", use_deprecated_int96_timestamps=True)
        with pytest.raises(RivetError, match=rf"RVT-519 .*{name}\.parquet: timestamps of the old type INT96"):
            query_of(tmp_path / f"{name}.parquet")
