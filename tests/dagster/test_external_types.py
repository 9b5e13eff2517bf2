"""Types of stored columns: a round trip gives the same values, for Spark and for other readers."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs as classes.

import datetime
import decimal

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame
from support.plain_assets import IO_MANAGER, noting, only, returning, run

UTC = datetime.UTC
TYPES = {
    "tiny": pa.array([-128, None], pa.int8()),
    "small": pa.array([1, None], pa.int16()),
    "whole": pa.array([2**31 - 1, None], pa.int32()),
    "large": pa.array([2**63 - 1, None], pa.int64()),
    "single": pa.array([0.5, None], pa.float32()),
    "double": pa.array([float("inf"), None], pa.float64()),
    "flag": pa.array([True, None]),
    "exact": pa.array([decimal.Decimal("12345678901234567890.12"), None], pa.decimal128(38, 2)),
    "text": pa.array(["ü\n", None]),
    "bytes": pa.array([b"\x00\xff", None]),
    "day": pa.array([datetime.date(1500, 1, 1), None]),
    "instant": pa.array([datetime.datetime(1500, 1, 1, 0, 0, 0, 123456, UTC), None], pa.timestamp("us", "UTC")),
    "clock": pa.array([datetime.datetime(2024, 3, 31, 2, 30, 0, 5), None], pa.timestamp("us")),
    "items": pa.array([[1, None], None], pa.list_(pa.field("element", pa.int64()))),
    "pair": pa.array(
        [{"a": 1, "b": ["x"]}, None],
        pa.struct({"a": pa.int64(), "b": pa.list_(pa.field("element", pa.string()))}),
    ),
    "by_name": pa.array([[("k", datetime.date(2024, 1, 1))], None], pa.map_(pa.string(), pa.date32())),
}


def test_every_type_survives_a_round_trip_and_spark_reads_the_same_values(project, instance):
    went = pa.table(TYPES)
    shop, seen = project({}), []
    frames = [noting(kind, seen) for kind in (pa.Table, pl.DataFrame, pd.DataFrame)]
    run(shop.root, instance, returning(went), selection=only(["shop", "raw"]))
    for reader in frames:
        run(shop.root, instance, returning(went), reader, selection=only("reader"))
    table, polars, pandas = seen
    assert table.to_pydict() == went.to_pydict()
    assert table.schema.types == went.schema.types
    assert polars.equals(pl.from_arrow(went))
    pd.testing.assert_frame_equal(pandas, went.to_pandas())

    @dg.asset(ins={"rows": dg.AssetIn(["shop", "raw"])}, io_manager_key=IO_MANAGER)
    def by_spark(rows: DataFrame):
        assert dict(rows.dtypes) == {
            "tiny": "tinyint", "small": "smallint", "whole": "int", "large": "bigint", "single": "float",
            "double": "double", "flag": "boolean", "exact": "decimal(38,2)", "text": "string", "bytes": "binary",
            "day": "date", "instant": "timestamp", "clock": "timestamp_ntz", "items": "array<bigint>",
            "pair": "struct<a:bigint,b:array<string>>", "by_name": "map<string,date>",
        }  # fmt: skip
        return rows

    run(shop.root, instance, returning(went), by_spark, selection=only("by_spark"))
    written = []
    reader = noting(pa.Table, written, ["by_spark"])
    run(shop.root, instance, returning(went), by_spark, reader, selection=only("reader"))
    assert written[0].to_pydict() == went.to_pydict()


def test_types_unknown_to_spark_are_converted(project, instance):
    at = datetime.datetime(2024, 1, 1, 12)
    went = pa.table({
        "fine": pa.array([at], pa.timestamp("ns")),
        "code": pa.array(["x"]).dictionary_encode(),
        "big": pa.array([2**64 - 1], pa.uint64()),
        "byte": pa.array([255], pa.uint8()),
        "view": pa.array(["y"], pa.string_view()),
    })  # fmt: skip
    shop, seen = project({}), []
    assert run(shop.root, instance, returning(went), noting(pa.Table, seen)).success
    assert seen[0].to_pylist() == [{"fine": at, "code": "x", "big": 2**64 - 1, "byte": 255, "view": "y"}]
    assert [str(kind) for kind in seen[0].schema.types] == [
        "timestamp[us]", "string", "decimal128(20, 0)", "int16", "string",
    ]  # fmt: skip


def test_types_that_only_spark_can_store_survive_a_round_trip(project, instance):
    went = pa.table({"span": [datetime.timedelta(days=-1, microseconds=5), None]})
    shop, seen = project({}), []
    run(shop.root, instance, returning(went), noting(pa.Table, seen))
    assert seen[0].to_pydict() == went.to_pydict()
    assert seen[0].schema.types == [pa.duration("us")]
    run(shop.root, instance, returning(went), noting(DataFrame, seen), selection=only("reader"))
    assert seen[1].dtypes == [("span", "interval day to second")]


def test_pandas_nullable_integers_survive_a_round_trip(project, instance):
    shop, seen = project({}), []
    frame = pd.DataFrame({"n": pd.array([1, None], "Int64"), "at": pd.to_datetime(["2024-01-01", None], utc=True)})
    run(shop.root, instance, returning(frame), noting(pd.DataFrame, seen))
    assert seen[0]["n"].tolist() == [1, pd.NA]
    assert str(seen[0]["at"].dtype).endswith(", UTC]")
