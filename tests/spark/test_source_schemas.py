"""Opening a Parquet source starts no job if its footer has the schema, which equals the one inferred by Spark."""

import datetime
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import tables

from rivet_dagster.errors import RivetError

PLAIN = {
    "tiny": pa.int8(), "small": pa.int16(), "n": pa.int32(), "id": pa.int64(), "u8": pa.uint8(), "u16": pa.uint16(),
    "u32": pa.uint32(), "u64": pa.uint64(), "f": pa.float32(), "x": pa.float64(), "ok": pa.bool_(), "name": pa.string(),
    "unit `price`": pa.large_string(), "kind": pa.dictionary(pa.int8(), pa.string()), "day": pa.date32(),
    "price": pa.decimal128(10, 2), "big": pa.decimal128(38, 10), "Größe": pa.int32(), "a.b": pa.int64(),
}  # fmt: skip
UNCERTAIN = {
    "raw": pa.binary(), "at": pa.timestamp("us", "UTC"), "local": pa.timestamp("us"), "list": pa.list_(pa.int32()),
    "struct": pa.struct([("a", pa.int32())]),
}  # fmt: skip


def opened(session, root: Path, table: str, **options: object):
    relation = tables.catalog(root, path=".").relation(table, options)
    return relation, session.load(relation)


def jobs(session, action) -> int:
    """Return the number of Spark jobs that an action starts, in any thread."""
    tracker = session.spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup(None))
    action()
    return len(set(tracker.getJobIdsForGroup(None)) - before)  # Spark forgets old jobs meanwhile


@pytest.fixture
def session(engine):
    with engine.session() as session:
        yield session


def test_the_schema_equals_the_one_inferred_by_spark(session, tmp_path):
    pq.write_table(pa.schema(PLAIN).empty_table(), tmp_path / "plain.parquet")
    relation, frame = opened(session, tmp_path, "plain.parquet")
    assert relation.schema is not None
    assert frame.schema == session.spark.read.parquet(f"file://{tmp_path}/plain.parquet").schema


@pytest.mark.parametrize("name", UNCERTAIN)
def test_types_that_depend_on_settings_are_left_to_spark(session, tmp_path, name):
    pq.write_table(pa.schema({"id": pa.int64(), name: UNCERTAIN[name]}).empty_table(), tmp_path / "t.parquet")
    relation, frame = opened(session, tmp_path, "t.parquet")
    assert relation.schema is None
    assert frame.columns == ["id", name]


def test_files_written_by_spark_have_sparks_own_schema(session, tmp_path):
    query = (
        "SELECT 1 AS id, CAST('a' AS BINARY) AS raw, TIMESTAMP_NTZ '2020-01-01' AS local, now() AS at,"
        " INTERVAL '1' DAY AS span, array(struct(2Y AS n, map('k', 1D) AS m)) AS xs"
    )
    session.spark.sql(query).write.parquet(f"file://{tmp_path}/t")
    relation, frame = opened(session, tmp_path, "t")
    assert json.loads(relation.schema)["type"] == "struct"
    assert frame.schema == session.spark.read.parquet(f"file://{tmp_path}/t").schema
    assert frame.first().id == 1


def test_rows_and_filters_are_the_same(session, tmp_path):
    rows = {
        "id": [1, 2, None],
        "name": ["a", None, "c"],
        "day": [datetime.date(1969, 1, 1), None, datetime.date(2024, 2, 29)],
        "price": [Decimal("1.50"), None, Decimal("-2.25")],
    }
    schema = pa.schema({"id": pa.int64(), "name": pa.string(), "day": pa.date32(), "price": pa.decimal128(10, 2)})
    for part, rows_of_part in enumerate(pa.table(rows, schema).to_batches(max_chunksize=1)):
        (tmp_path / "parts").mkdir(exist_ok=True)
        pq.write_table(pa.Table.from_batches([rows_of_part]), tmp_path / f"parts/{part}.parquet")
    relation, frame = opened(session, tmp_path, "parts")
    plain = session.spark.read.parquet(f"file://{tmp_path}/parts")
    assert relation.schema is not None
    for condition in ("TRUE", "id > 1", "name IS NULL", "day > DATE '2000-01-01'", "price < 0"):
        assert sorted(map(str, frame.where(condition).collect())) == sorted(map(str, plain.where(condition).collect()))


def test_opening_a_source_starts_no_job(session, tmp_path):
    pq.write_table(pa.table({"id": [1]}), tmp_path / "t.parquet")
    assert jobs(session, lambda: session.spark.read.parquet(f"file://{tmp_path}/t.parquet")) == 1
    assert jobs(session, lambda: opened(session, tmp_path, "t.parquet")) == 0


def test_possible_partition_folders_are_left_to_spark(session, tmp_path):
    for day in (1, 2):
        (tmp_path / f"days/day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"id": [day]}), tmp_path / f"days/day={day}/a.parquet")
    relation, frame = opened(session, tmp_path, "days")
    assert relation.schema is None
    assert frame.columns == ["id", "day"]


def test_files_with_other_columns_are_read_with_the_schema_of_the_first_file(session, tmp_path):
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "t/b.parquet")
    pq.write_table(pa.table({"id": [2], "more": ["x"]}), tmp_path / "t/a.parquet")
    relation, frame = opened(session, tmp_path, "t")
    assert relation.schema is not None
    assert frame.columns == session.spark.read.parquet(f"file://{tmp_path}/t").columns == ["id", "more"]
    assert opened(session, tmp_path, "t", mergeSchema=True)[0].schema is None


def test_the_author_s_schema_wins(session, tmp_path):
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "t.parquet")
    assert opened(session, tmp_path, "t.parquet", schema="name STRING")[1].columns == ["name"]


def test_a_damaged_file_is_reported_by_spark(session, tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(RivetError) as failed:
        opened(session, tmp_path, "t.parquet")[1].collect()
    assert failed.value.code == "RVT-503"


def test_columns_whose_names_differ_only_in_case_are_rejected(session, tmp_path):
    pq.write_table(pa.schema({"id": pa.int64(), "ID": pa.int64()}).empty_table(), tmp_path / "t.parquet")
    with pytest.raises(RivetError) as failed:
        opened(session, tmp_path, "t.parquet")
    assert failed.value.code == "RVT-503"
