"""The columns that the filesystem catalog returns without an engine equal those of Spark."""

import datetime
import decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from support import tables

from rivet_dagster.catalogs.filesystem import FilesystemCatalog
from rivet_dagster.engines.pyspark import PySparkEngine

NESTED = pa.struct([("Id", pa.int32()), ("tags", pa.list_(pa.string())), ("by", pa.map_(pa.string(), pa.float64()))])
COLUMNS = {
    "tiny": pa.int8(), "small": pa.int16(), "n": pa.int32(), "id": pa.int64(), "f": pa.float32(), "x": pa.float64(),
    "ok": pa.bool_(), "name": pa.string(), "long_name": pa.large_string(), "raw": pa.binary(), "four": pa.binary(4),
    "day": pa.date32(), "price": pa.decimal128(10, 2), "big": pa.decimal128(38, 10), "Nested": NESTED,
    "kind": pa.dictionary(pa.int8(), pa.string()), "rows": pa.list_(NESTED),
}  # fmt: skip
PARQUET_ALONE = {
    "u8": pa.uint8(), "u16": pa.uint16(), "u32": pa.uint32(), "u64": pa.uint64(), "at": pa.timestamp("us", "UTC"),
    "at_ms": pa.timestamp("ms", "Europe/Berlin"), "local": pa.timestamp("us"), "local_s": pa.timestamp("s"),
}  # fmt: skip
HEADERS = {
    "plain": ("id,name\n1,a\n", {}),
    "tab": ("id\tFull Name\n1\ta\n", {"sep": "\t"}),
    "delimiter": ("id;name\n1;a\n", {"delimiter": ";"}),
    "quoted": ('"a,b",c,"it\'s"\n1,2,3\n', {}),
    "repeated": ("id,ID,,x\n1,2,3,4\n", {}),
    "null": ("id,NA\n1,2\n", {"nullValue": "NA"}),
    "spaces": (" id , x\n1,2\n", {}),
    "mark of UTF-8": ("\ufeffid,é\n1,2\n", {}),
    "empty lines before": ("\n  \nid,x\n1,2\n", {}),
    "carriage returns": ("id,x\r\n1,2\r\n", {}),
    "inferred": ("id,x\n1,2\n", {"inferSchema": True}),
}


def introspected(root: Path, table: str, **options: object) -> list[tuple[str, str | None]] | None:
    found = catalog(root).columns(table, options)
    return None if found is None else [(field.name, field.type) for field in found]


def spark_columns(engine: PySparkEngine, root: Path, table: str, **options: object) -> list[tuple[str, str]]:
    session = engine.session()
    try:
        return session.load(catalog(root).relation(table, options)).dtypes
    finally:
        session.close()


def catalog(root: Path) -> FilesystemCatalog:
    return tables.catalog(root, path=".")


def test_parquet_of_another_writer(engine, tmp_path):
    schema = pa.schema({**COLUMNS, **PARQUET_ALONE})
    pq.write_table(schema.empty_table(), tmp_path / "t.parquet")
    assert introspected(tmp_path, "t.parquet") == spark_columns(engine, tmp_path, "t.parquet")


def test_orc(engine, tmp_path):
    kinds = {name: kind for name, kind in COLUMNS.items() if name not in ("four", "kind")}
    orc.write_table(pa.schema(kinds).empty_table(), tmp_path / "t.orc")
    expected = [
        (name, None if " int" in f" {kind}".replace(":", " ").replace("<", " ") or kind == "bigint" else kind)
        for name, kind in spark_columns(engine, tmp_path, "t.orc")
    ]
    assert introspected(tmp_path, "t.orc") == expected


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_files_written_by_spark(engine, tmp_path, format):
    session = engine.session()
    query = (
        "SELECT 1 AS id, 'a' AS Name, DATE '2020-01-01' AS day, 1.5BD AS price, 2Y AS tiny, CAST('a' AS BINARY) AS raw,"
        " array(struct(2Y AS n, map('k', 1D) AS m)) AS xs, TIMESTAMP_NTZ '2020-01-01' AS local, now() AS at"
    )
    session.query(query).write.format(format).save(f"file://{tmp_path}/t.{format}")
    session.close()
    found = dict(introspected(tmp_path, f"t.{format}") or [])
    expected = dict(spark_columns(engine, tmp_path, f"t.{format}"))
    if format == "orc":  # in which types of Spark are stored as other types
        expected |= {"local": None, "at": None, "id": None}
    assert found == expected


def test_types_that_spark_rejects_or_only_spark_knows(tmp_path):
    schema = pa.schema({"id": pa.int32(), "nanos": pa.timestamp("ns"), "time": pa.time64("us"), "gone": pa.null()})
    pq.write_table(schema.empty_table(), tmp_path / "t.parquet")
    assert introspected(tmp_path, "t.parquet") == [("id", "int"), ("nanos", None), ("time", None), ("gone", None)]


@pytest.mark.parametrize("header", ['id,"say ""hi"""', 'id,"a\\"b"', ""])
def test_a_header_with_escaped_quotes_gives_no_columns(tmp_path, header):
    (tmp_path / "t.csv").write_text(f"{header}\n")
    assert introspected(tmp_path, "t.csv") is None


@pytest.mark.parametrize("options", [{"header": False}, {"quote": "'"}, {"comment": "#"}, {"encoding": "utf-16"}])
def test_options_that_change_the_header_leave_columns_to_spark(tmp_path, options):
    (tmp_path / "t.csv").write_text("id,name\n")
    assert introspected(tmp_path, "t.csv", **options) is None


def test_possible_partition_folders_are_left_to_spark(tmp_path):
    (tmp_path / "t/day=1").mkdir(parents=True)
    (tmp_path / "t/day=1/a.csv").write_text("id,name\n")
    assert introspected(tmp_path, "t") is None


@pytest.mark.parametrize("case", HEADERS)
def test_csv(engine, tmp_path, case):
    text, options = HEADERS[case]
    (tmp_path / "t.csv").write_bytes(text.encode())
    found, expected = introspected(tmp_path, "t.csv", **options), spark_columns(engine, tmp_path, "t.csv", **options)
    assert found is not None
    assert [name for name, _ in found] == [name for name, _ in expected]
    assert [kind for _, kind in found] == [None if options.get("inferSchema") else kind for _, kind in expected]


def test_compressed_csv(engine, tmp_path):
    import bz2
    import gzip

    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id,x\n1,2\n"))
    (tmp_path / "b.csv.bz2").write_bytes(bz2.compress(b"id,y\n1,2\n"))
    for table in ("a.csv.gz", "b.csv.bz2"):
        assert introspected(tmp_path, table) == spark_columns(engine, tmp_path, table)


def test_the_first_of_several_files_counts(engine, tmp_path):
    folder = tmp_path / "t"
    folder.mkdir()
    pq.write_table(pa.table({"id": pa.array([], pa.int64()), "b": pa.array([], pa.string())}), folder / "1.parquet")
    pq.write_table(pa.table({"id": pa.array([], pa.int64()), "a": pa.array([], pa.string())}), folder / "0.parquet")
    assert introspected(tmp_path, "t") == spark_columns(engine, tmp_path, "t") == [("id", "bigint"), ("a", "string")]


def test_rows_have_no_influence_on_columns(engine, tmp_path):
    rows = {"day": [datetime.date(2020, 1, 1)], "price": [decimal.Decimal("1.50")], "xs": [[1, None]]}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    assert introspected(tmp_path, "t.parquet") == spark_columns(engine, tmp_path, "t.parquet")
