"""Keys of a batch in files: whether they are distinct, compared with a plain count, and what is not looked into."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rivet_dagster.catalogs.filesystem.files.footers import read_statistics
from rivet_dagster.catalogs.rewriting import incoming
from rivet_dagster.catalogs.rewriting.incoming import are_distinct
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import StoredRows

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
ROWS = [
    {"Id": 1, "text": "a", "price": Decimal("1.50"), "at": NOON, "same": 7, "ratio": 0.0},
    {"Id": 2, "text": "A", "price": None, "at": None, "same": 7, "ratio": -0.0},
    {"Id": 3, "text": None, "price": None, "at": NOON, "same": 7, "ratio": 1.0},
    {"Id": None, "text": "", "price": Decimal("2.50"), "at": NOON, "same": 7, "ratio": None},
]
KINDS = [pa.int64(), pa.string(), pa.decimal128(9, 2), pa.timestamp("us", "UTC"), pa.int32(), pa.float64()]
TYPES = pa.schema(list(zip(ROWS[0], KINDS, strict=True)))


@pytest.fixture
def batch(tmp_path):
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, half in zip(paths, (ROWS[:2], ROWS[2:]), strict=True):
        pq.write_table(pa.Table.from_pylist(half, TYPES), path)
    return StoredRows(Files("parquet", tuple(map(str, paths))), read_statistics(paths))


@pytest.mark.parametrize(
    "keys", [["id"], ["text"], ["price"], ["at"], ["same"], ["PRICE", "at"], ["price", "text"], ["id", "ID"]]
)
def test_keys_are_distinct_if_a_plain_count_says_so(batch, keys):
    lower = [{name.lower(): value for name, value in row.items()} for row in ROWS]
    counted = Counter(tuple(row[key.lower()] for key in keys) for row in lower)
    assert are_distinct(batch, keys) == (max(counted.values()) == 1)


def test_what_is_not_looked_into(batch, monkeypatch, tmp_path):
    assert are_distinct(batch, ["id"])
    assert not any(are_distinct(batch, keys) for keys in (["ratio"], ["id", "ratio"], ["missing"]))
    collated = replace(batch.statistics, columns=(("text", "string collate UTF8_LCASE"),))
    assert are_distinct(batch, ["text"])
    assert not are_distinct(replace(batch, statistics=collated), ["text"])
    elsewhere = Files("parquet", ("s3://bucket/a.parquet",))
    assert not are_distinct(replace(batch, relation=elsewhere), ["id"])
    assert not are_distinct(replace(batch, relation=Files("parquet", (str(tmp_path / "gone.parquet"),))), ["id"])
    monkeypatch.setattr(incoming, "MOST_BATCH_ROWS", 3)
    assert not are_distinct(batch, ["id"])
