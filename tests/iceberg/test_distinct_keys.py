"""Keys of a stored batch: whether they are distinct, compared with a plain count, and what the engine is asked then."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support.iceberg import declared
from support.iceberg_runs import NAMESPACE, TABLE, UPSERT, lake

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.catalogs.iceberg.writes.batch_keys import are_distinct
from rivet_dagster.catalogs.rewriting.incoming import MOST_BATCH_ROWS
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable
from rivet_dagster.model.storage import Statistics, StoredRows

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
ROWS = [
    {"Id": 1, "text": "a", "price": Decimal("1.50"), "at": NOON, "same": 7, "ratio": 0.0, "x.y": 1},
    {"Id": 2, "text": "A", "price": None, "at": None, "same": 7, "ratio": -0.0, "x.y": 2},
    {"Id": 3, "text": None, "price": None, "at": NOON, "same": 7, "ratio": 1.0, "x.y": 3},
    {"Id": None, "text": "", "price": Decimal("2.50"), "at": NOON, "same": 7, "ratio": None, "x.y": 4},
]
TYPES = pa.schema(
    [
        ("Id", pa.int64()),
        ("text", pa.string()),
        ("price", pa.decimal128(9, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("same", pa.int32()),
        ("ratio", pa.float64()),
        ("x.y", pa.int32()),
    ]
)


@pytest.mark.parametrize(
    "keys", [["id"], ["text"], ["price"], ["at"], ["same"], ["PRICE", "at"], ["price", "text"], ["id", "ID"]]
)
def test_keys_are_distinct_if_a_plain_count_says_so(tmp_path, keys):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace(NAMESPACE)
    table = catalog.create_table((NAMESPACE, TABLE), TYPES)
    for half in (ROWS[:2], ROWS[2:]):  # in two files
        table.append(pa.Table.from_pylist(half, TYPES))
    snapshot = table.current_snapshot().snapshot_id
    batch = StoredRows(CatalogTable(("lake", NAMESPACE, TABLE), snapshot=snapshot), Statistics(len(ROWS), 700))
    lower = [{name.lower(): value for name, value in row.items()} for row in ROWS]
    counted = Counter(tuple(row[key.lower()] for key in keys) for row in lower)
    assert are_distinct(table, batch, keys) == (max(counted.values()) == 1)
    # What an engine takes for equal, or names, in ways of its own, and what there is too much of, is its own affair.
    for others in (["ratio"], ["id", "ratio"], ["x.y"], ["missing"]):
        assert not are_distinct(table, batch, others)
    assert not are_distinct(table, replace(batch, statistics=Statistics(MOST_BATCH_ROWS + 1, 700)), ["id"])
    catalog.close()


@pytest.mark.nightly
def test_a_merge_of_distinct_keys_asks_spark_for_no_rows(iceberg_session, tmp_path, monkeypatch):
    options = declared("hadoop", tmp_path / "lake")
    catalog, session = lake(options, tmp_path), iceberg_session(lake=options)
    asked = []
    rows = session.rows
    monkeypatch.setattr(session, "rows", lambda sql, *more: asked.append(sql) or rows(sql, *more))

    def merge(query: str) -> tuple[list[tuple[int, int]], tuple[int, int]]:
        asked.clear()
        with catalog.begin(TABLE, session) as transaction:
            transaction.write(UPSERT, session.query(query))
            record = transaction.commit("run").record
        found = connect_catalog("plain", options, tmp_path).load_table((NAMESPACE, TABLE)).scan().to_arrow().to_pylist()
        return sorted((row["id"], row["net"]) for row in found), (record.inserted, record.updated)

    merge("SELECT id, 1L AS net FROM range(3)")
    assert merge("SELECT id, 2L AS net FROM range(2, 4)") == ([(0, 1), (1, 1), (2, 2), (3, 2)], (1, 1))
    assert asked == []
    # Rows that are equal in every column are one; others of one key are an error.
    assert merge("SELECT id DIV 2 AS id, 3L AS net FROM range(2)") == ([(0, 3), (1, 1), (2, 2), (3, 2)], (0, 1))
    assert asked != []
    with pytest.raises(RivetError, match="RVT-515"):
        merge("SELECT id DIV 2 AS id, id AS net FROM range(10, 14)")
