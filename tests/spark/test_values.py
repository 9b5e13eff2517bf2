"""Values that a Python joint may return, as frames."""

import datetime as dt
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.errors import RivetError

TABLE = pa.table({"id": [1, 2], "name": ["a", None]})


def rows(session, value) -> list[dict]:
    return session.to_arrow(session.from_value(value)).to_pylist()


@pytest.mark.parametrize(
    "value",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        TABLE.to_pandas(),
        TABLE.to_pandas().set_index(pd.Index([7, 8])),
        TABLE.to_pandas(types_mapper=pd.ArrowDtype),
        pl.from_arrow(TABLE),
        pl.from_arrow(TABLE).lazy(),
        TABLE.slice(0, 2).replace_schema_metadata({"k": "v"}),
    ],
    ids=lambda value: f"{type(value).__module__}.{type(value).__name__}",
)
def test_each_kind_of_value_gives_the_same_rows(session, value):
    assert rows(session, value) == TABLE.to_pylist()


def test_values_of_other_types_are_unknown(session):
    for value in (None, 1, "x", {"a": [1]}, [1], TABLE.schema, pd.Series([1]), pl.Series([1]), object()):
        assert session.from_value(value) is None


def test_empty_values_keep_their_columns(session):
    assert session.columns(session.from_value(TABLE.slice(0, 0))) == (("id", "bigint"), ("name", "string"))
    assert rows(session, pl.from_arrow(TABLE).clear()) == []
    assert rows(session, pd.DataFrame({"id": pd.Series([], dtype="int64")})) == []


def test_missing_values_of_pandas_are_null(session):
    value = pd.DataFrame(
        {
            "text": ["a", None, np.nan],
            "real": [1.5, np.nan, 2.5],
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "at": pd.to_datetime(["2024-01-01T12:00:00Z", None, "2024-01-02T00:00:00Z"]),
            "kind": pd.Categorical(["x", None, "y"]),
        }
    )
    found = rows(session, value)
    assert found[1] == dict.fromkeys(value.columns)
    noon = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
    assert found[0] == {"text": "a", "real": 1.5, "whole": 1, "flag": True, "at": noon, "kind": "x"}


def test_types_unknown_to_spark_become_the_next_wider_type(session, warehouse):
    value = pa.table(
        {
            "u8": pa.array([255], pa.uint8()),
            "u64": pa.array([2**64 - 1], pa.uint64()),
            "half": pa.array([np.float16(0.5)], pa.float16()),
            "view": pa.array(["v"], pa.string_view()),
            "day": pa.array([dt.date(2024, 2, 29)], pa.date64()),
            "ns": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")),
            "codes": pa.ListArray.from_arrays([0, 2], pa.array(["x", None]).dictionary_encode()),
            "deep": pa.array([[{"v": "s"}]], pa.list_(pa.struct([("v", pa.string_view())]))),
            "map": pa.array([[("k", 7)]], pa.map_(pa.string(), pa.uint32())),
        }
    )
    staged = warehouse.begin("t")
    session.write(session.from_value(value), staged.target)
    (found,) = pq.read_table(staged.target.paths[0]).to_pylist()
    instant = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC).replace(microsecond=123456)
    assert found == {
        "u8": 255,
        "u64": Decimal(2**64 - 1),
        "half": 0.5,
        "view": "v",
        "day": dt.date(2024, 2, 29),
        "ns": instant,
        "codes": ["x", None],
        "deep": [{"v": "s"}],
        "map": [("k", 7)],
    }


def test_naive_times_are_in_the_session_time_zone(session):
    (found,) = rows(session, pd.DataFrame({"at": [pd.Timestamp("2024-07-01 12:00")]}))
    assert found["at"] == dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)


def test_values_that_cannot_be_a_table_are_an_error_with_the_reason(session, warehouse):
    with pytest.raises(RivetError, match=r"RVT-505 a pandas\.core\.frame\.DataFrame could not be converted"):
        session.from_value(pd.DataFrame({"mixed": [1, "a", object()]}))
    with pytest.raises(RivetError, match="RVT-316"):
        session.from_value(pa.table([[1], [2]], names=["a", "A"]))
    nothing = session.from_value(pd.DataFrame({"empty": [None, None]}))
    with pytest.raises(RivetError, match="empty: a column that is nothing but NULL has no type"):
        session.write(nothing, warehouse.begin("t").target)


def test_frames_of_other_sessions_are_adopted_with_their_own_views(engine, session, warehouse):
    other = engine.session()
    other.register("numbers", other.query("SELECT id FROM range(3)"))
    foreign = other.query("SELECT id * 10 AS v FROM numbers")
    frame = session.from_value(foreign)
    other.close()
    session.register("mine", frame)
    staged = warehouse.begin("t")
    session.write(session.query("SELECT sum(a.v) AS v FROM mine AS a JOIN mine AS b USING (v)"), staged.target)
    assert pq.read_table(staged.target.paths[0]).to_pylist() == [{"v": 30}]
    assert session.from_value(session.spark.range(1)).sparkSession is session.spark


def test_neither_spark_nor_a_frame_library_is_imported_before_it_is_used():
    code = (
        "import sys\n"
        "from rivet_dagster.catalogs.registry import catalog_traits\n"
        "from rivet_dagster.engines.registry import engine_class, engine_traits\n"
        "from rivet_dagster.model.profile import EngineSpec\n"
        "catalog_traits(), engine_traits(), engine_class('pyspark')(EngineSpec('s', 'pyspark')).session_config()\n"
        "print(sorted({'pyspark', 'py4j', 'pyarrow', 'pandas', 'polars', 'dagster', 'sqlglot'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
