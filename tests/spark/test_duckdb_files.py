"""Files between Spark and the engine ``duckdb``: what one writes the other reads with the same columns and rows."""

import datetime as dt
import json
import random
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.engines.duckdb import DuckDBEngine, writing
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, Files

STRUCT = pa.struct([("a", pa.int64()), ("B c", pa.list_(pa.string()))])
NOON = dt.datetime(2024, 7, 1, 12, 30, 0, 123456)
COLUMNS = {
    "n8": (pa.int8(), [-128, 127, None]),
    "n16": (pa.int16(), [-32768, 32767, None]),
    "n32": (pa.int32(), [-(2**31), 2**31 - 1, None]),
    "n64": (pa.int64(), [-(2**63), 2**63 - 1, None]),
    "f": (pa.float32(), [float("nan"), float("-inf"), -0.0]),
    "d": (pa.float64(), [1.7976931348623157e308, 5e-324, None]),
    "dec": (pa.decimal128(38, 10), [Decimal("-9999999999999999999999999999.9999999999"), Decimal("0E-10"), None]),
    "small": (pa.decimal128(4, 2), [Decimal("12.50"), Decimal("-0.01"), None]),
    'Name with, `quotes` "and" ü': (pa.string(), ["it's", "", "\x00ü\n"]),
    "raw": (pa.binary(), [b"\x00\xff", b"", None]),
    "yes": (pa.bool_(), [True, False, None]),
    "day": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 10)]),
    "at": (pa.timestamp("us", "UTC"), [NOON.replace(tzinfo=dt.UTC), dt.datetime(1000, 1, 1, tzinfo=dt.UTC), None]),
    "local": (pa.timestamp("us"), [NOON, dt.datetime(1, 1, 1), None]),
    "list": (pa.list_(pa.int32()), [[1, None], [], None]),
    "map": (pa.map_(pa.string(), pa.decimal128(9, 3)), [[("k", Decimal("1.500"))], [], None]),
    "inner": (STRUCT, [{"a": 1, "B c": ["x", None]}, {"a": None, "B c": None}, None]),
    "deep": (pa.list_(STRUCT), [[{"a": 2, "B c": []}], None, []]),
}
TABLE = pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})


@pytest.fixture
def duck(tmp_path):
    engine = DuckDBEngine(EngineSpec("duck", "duckdb", options={"config": {"TimeZone": "UTC"}}))
    engine.root = tmp_path
    with engine.session() as session:
        yield session


@pytest.fixture
def spark(quick_session):
    quick_session.spark.conf.set("spark.sql.session.timeZone", "UTC")
    return quick_session


def folder(tmp_path: Path, name: str) -> Files:
    (tmp_path / name).mkdir()
    return Files("parquet", (str(tmp_path / name),))


def rows(session, relation) -> list[str]:
    return sorted(repr(row) for row in session.to_arrow(session.load(relation)).to_pylist())


def test_all_types_go_both_ways(duck, spark, tmp_path):
    expected = sorted(repr(row) for row in TABLE.to_pylist())
    by_duck, by_spark = folder(tmp_path, "by_duck"), folder(tmp_path, "by_spark")
    given = ArrowRows(TABLE.schema, TABLE.to_reader)
    duck.write(duck.load(given), by_duck)
    spark.write(spark.load(given), by_spark)
    read = {name: session.load(by) for name, session, by in (("duck", duck, by_spark), ("spark", spark, by_duck))}
    assert duck.columns(read["duck"]) == spark.columns(read["spark"]) == spark.columns(spark.load(given))
    assert json.loads(duck.schema(read["duck"])) == json.loads(spark.schema(read["spark"]))
    assert rows(duck, by_spark) == rows(spark, by_duck) == rows(duck, by_duck) == expected
    without = spark.spark.read.option("mergeSchema", "true").parquet(by_duck.paths[0], by_spark.paths[0])
    assert without.count() == 6
    assert not list(Path(by_duck.paths[0]).glob("*crc"))


def test_the_value_of_a_function_has_the_same_columns_and_rows(duck, spark):
    assert duck.columns(duck.from_value(TABLE)) == spark.columns(spark.from_value(TABLE))
    found = [sorted(repr(row) for row in s.to_arrow(s.from_value(TABLE)).to_pylist()) for s in (duck, spark)]
    assert found[0] == found[1]


def test_folders_of_values_are_read_alike(duck, spark, tmp_path):
    target = folder(tmp_path, "parts")
    frame = duck.query("SELECT CAST(id AS BIGINT) AS id, CAST(id % 3 AS INT) AS part FROM (SELECT 1 AS id UNION ALL "
                       "SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4)")  # fmt: skip
    duck.write(frame, target, split_by="part")
    assert spark.columns(spark.load(target)) == duck.columns(duck.load(target)) == (("id", "bigint"), ("part", "int"))
    assert rows(spark, target) == rows(duck, target)
    (Path(target.paths[0]) / "part=0").rename(Path(target.paths[0]) / "part=00")
    with pytest.raises(RivetError, match=r"RVT-519 the type of the column part"):
        duck.load(target)


@pytest.mark.nightly
def test_large_results_are_several_files(duck, spark, tmp_path, monkeypatch):
    monkeypatch.setattr(writing, "FILE_BYTES", 2**20)
    target = folder(tmp_path, "large")
    numbers = pa.table({"id": pa.array(range(400_000), pa.int64()), "t": [f"text {n * 7919}" for n in range(400_000)]})
    duck.write(duck.from_value(numbers), target)
    assert len(list(Path(target.paths[0]).iterdir())) > 2
    assert spark.rows(f"SELECT count(DISTINCT id) AS n, sum(id) AS s FROM parquet.`{target.paths[0]}`") == [
        {"n": 400_000, "s": sum(range(400_000))}
    ]
    empty = folder(tmp_path, "empty")
    duck.write(duck.query("SELECT CAST(1 AS SMALLINT) AS id WHERE FALSE"), empty)
    assert spark.columns(spark.load(empty)) == (("id", "smallint"),)


DDL = "i INT, d DOUBLE, n DECIMAL(6,2), s STRING, b BOOLEAN, day DATE, at TIMESTAMP, l TIMESTAMP_NTZ"
HEADER = "i,d,n,s,b,day,at,l\n"
PLAIN = "7,1.5,12.5,x,true,2024-02-29,2024-02-29T10:00:00Z,2024-02-29 10:00:00.5\n"
CONTENTS = {
    "plain": HEADER + PLAIN,
    "no end": (HEADER + PLAIN).rstrip("\n"),
    "nulls": HEADER + ",,,,,,,\nNA,NA,NA,NA,NA,NA,NA,NA\n",
    "quotes": HEADER + '"8","2.5","1.00","a, b","false","2024-01-01","2024-01-01 00:00:00+02:00","2024-01-01"\n',
    "empty quotes": HEADER + '1,,,"",,,,\n',
    "quoted null": HEADER + '1,,,"NA",,,,\n',
    "windows": HEADER.replace("\n", "\r\n") + PLAIN.replace("\n", "\r\n"),
    "blank line": HEADER + "\n" + PLAIN,
    "signs": HEADER + "+7,-.5,-0.10, x ,TRUE,,,\n",
    "exponent": HEADER + "007,1e-3,1,x,False,,,\n",
    "backslash without quotes": HEADER + "1,,,\\N,,,,\n",
    "fraction as int": HEADER + "1.9,,,x,,,,\n",
    "blank int": HEADER + " 7,,,x,,,,\n",
    "word": HEADER + "seven,,,x,,,,\n",
    "too great": HEADER + "99999999999,,,x,,,,\n",
    "rounded": HEADER + "1,,1.005,x,,,,\n",
    "java number": HEADER + "1,1d,,x,,,,\n",
    "nan": HEADER + "1,NaN,,x,,,,\n",
    "yes": HEADER + "1,,,x,yes,,,\n",
    "no date": HEADER + "1,,,x,,2023-02-29,,\n",
    "year": HEADER + "1,,,x,,2023,,\n",
    "short line": HEADER + "1,2\n",
    "long line": HEADER + PLAIN.rstrip("\n") + ",more\n",
    "escaped": HEADER + '1,,,"a \\" b",,,,\n',
    "doubled": HEADER + '1,,,"a "" b",,,,\n',
    "line in quotes": HEADER + '1,,,"a\nb",,,,\n',
    "quote inside": HEADER + '1,,,a "b" c,,,,\n',
    "after quotes": HEADER + '1,,,"b" c,,,,\n',
    "open quotes": HEADER + '1,,,"b,,,,\n',
    "lone return": HEADER + "1,,,a\rb,,,,\n",
    "byte order mark": "\ufeff" + HEADER + PLAIN,
    "other header": HEADER.replace("i,d", "d,i") + PLAIN,
    "comment": HEADER + "#1,,,x,,,,\n",
}
SAME = {
    "plain", "no end", "nulls", "quotes", "quoted null", "windows", "blank line", "signs", "exponent",
    "backslash without quotes",
}  # fmt: skip
"""What must be read: all else may be refused, but never be read otherwise."""


def test_csv_is_read_as_spark_reads_it_or_refused(duck, spark, tmp_path):
    refused = set()
    for name, content in CONTENTS.items():
        path = tmp_path / f"{name}.csv"
        path.write_bytes(content.encode())
        options = {"header": "true", "enforceSchema": "false", "nullValue": "NA", "schema": DDL}
        relation = Files("csv", (str(path),), options)
        try:
            found = rows(duck, relation)
        except RivetError as error:
            refused.add((name, error.code))
            continue
        assert found == rows(spark, relation), name
        assert duck.columns(duck.load(relation)) == spark.columns(spark.load(relation)), name
    assert {code for _, code in refused} <= {"RVT-519", "RVT-503"}
    assert not {name for name, _ in refused} & SAME


def test_random_csv_is_read_as_spark_reads_it_or_refused(duck, spark, tmp_path):
    chosen = random.Random(38)
    pieces = ["a", "b c", "", "7", "1.5", '"', '"x"', ",", "\n", " ", "\\", "NA", "true", "2024-01-01", "-", "ü", "''"]
    for number in range(60):
        lines = ["s,t,u\n", *("".join(chosen.choices(pieces, k=6)) + ",x,\n" for _ in range(3))]
        path = tmp_path / f"{number}.csv"
        path.write_text("".join(lines))
        options = {"header": "true", "nullValue": "NA", "schema": "s STRING, t STRING, u STRING"}
        relation = Files("csv", (str(path),), options)
        try:
            found = rows(duck, relation)
        except RivetError:
            continue
        assert found == rows(spark, relation), path.read_text()


def test_files_of_other_writers_are_read_as_spark_reads_them_or_refused(duck, spark, tmp_path):
    plain = pa.table({"u8": pa.array([1], pa.uint8()), "u64": pa.array([2**63], pa.uint64()), "s": ["x"]})
    pq.write_table(plain, tmp_path / "unsigned.parquet")
    relation = Files("parquet", (str(tmp_path / "unsigned.parquet"),))
    assert duck.columns(duck.load(relation)) == spark.columns(spark.load(relation))
    assert rows(duck, relation) == rows(spark, relation)
    old = pa.table({"at": pa.array([NOON], pa.timestamp("us"))})
    pq.write_table(old, tmp_path / "int96.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(old.cast(pa.schema([("at", pa.timestamp("ns"))])), tmp_path / "nanoseconds.parquet")
    for name in ("int96", "nanoseconds"):
        with pytest.raises(RivetError, match="RVT-519"):
            duck.load(Files("parquet", (str(tmp_path / f"{name}.parquet"),)))
    wider = Files("parquet", (str(tmp_path / "unsigned.parquet"),), {"schema": "s STRING, lacking INT"})
    assert rows(duck, wider) == rows(spark, wider)
    with pytest.raises(RivetError, match="RVT-519 the column s is string in a file, and int is wanted"):
        duck.load(Files("parquet", wider.paths, {"schema": "s INT"}))
