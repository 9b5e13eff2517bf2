"""Statistics from manifests, compared with the rows themselves as pyarrow reads them."""

import math
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table
from pyiceberg.types import DecimalType, LongType, StringType

from rivet_dagster.catalogs.iceberg.metadata import statistics
from rivet_dagster.catalogs.iceberg.metadata.statistics import added_statistics_of, statistics_of
from rivet_dagster.model.storage import ColumnStatistics, Statistics

PLACE = pa.struct([("City", pa.string()), ("at", pa.timestamp("us"))])
SCHEMA = pa.schema(
    [
        ("Id", pa.int64()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("price", pa.decimal128(9, 2)),
        ("flag", pa.bool_()),
        ("name", pa.string()),
        ("none", pa.int32()),
        ("ratio", pa.float64()),
        ("hash", pa.binary()),
        ("place", PLACE),
        ("list", pa.list_(pa.int32())),
        ("a.b", pa.int32()),
    ]
)


def rows(*numbers: int) -> pa.Table:
    def row(number: int) -> dict[str, Any]:
        return {
            "Id": number,
            "day": date(2024, 1, number),
            "at": datetime(2024, 1, number, 12, tzinfo=UTC),
            "local": datetime(1969, 1, number, 12, 0, 0, 7),
            "price": Decimal(number) / 4 if number % 2 else None,
            "flag": number > 2,
            "name": f"n{number:02}",
            "none": None,
            "ratio": math.nan if number == 3 else number / 7,
            "hash": bytes([number]),
            "place": {"City": f"c{number}", "at": datetime(2000, 1, number)} if number != 2 else None,
            "list": [number, None],
            "a.b": number,
        }

    return pa.Table.from_pylist([row(number) for number in numbers], SCHEMA)


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    yield catalog
    catalog.close()


def current(table: Table, written_after: int | None = 0) -> Statistics:
    """Return the statistics of the current snapshot, by default as a run of ours sees what it has just written."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return statistics_of(table, snapshot.snapshot_id, table.schema(), written_after)


def added(table: Table) -> Statistics:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return added_statistics_of(table, snapshot.snapshot_id, table.schema(), 0)


def scanned(rows: pa.Table, path: str) -> ColumnStatistics:
    """Return the statistics of a column as its values give them."""
    values = pc.struct_field(rows["place"].combine_chunks(), path.split(".")[1]) if "." in path else rows[path]
    bounds = pc.min_max(values).as_py()
    return ColumnStatistics(values.null_count, bounds["min"], bounds["max"])


def test_they_are_those_of_the_rows(catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA)
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5))
    for found, expected in [(current(table), rows(1, 2, 3, 4, 5)), (added(table), rows(4, 5))]:
        assert found.rows == len(expected)
        exact = "Id day at local price flag name none".split()
        for path in exact:
            assert found.values[path.lower()] == scanned(expected, path), path
        # PyIceberg writes no bounds of the fields of structs.
        assert found.values["place.city"].nulls == scanned(expected, "place.City").nulls
        # PyIceberg does not count NaN, and bounds of binary columns may be truncated.
        assert found.values["ratio"] == found.values["hash"] == ColumnStatistics(0)
        assert sorted(found.values) == sorted(
            [*(path.lower() for path in exact), "ratio", "hash", "place.city", "place.at"]
        )
        assert found.values["local"].min.tzinfo is None
    files = table.inspect.files()["file_size_in_bytes"].to_pylist()
    assert (current(table).bytes, current(table).columns[:2]) == (sum(files), (("Id", "bigint"), ("day", "date")))


def test_of_an_older_snapshot_and_of_deleted_files(catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA)
    table.append(rows(1, 2))
    older = table.current_snapshot()
    assert older is not None
    table.append(rows(7))
    table.overwrite(rows(3, 4))
    assert current(table).values["id"] == added(table).values["id"] == ColumnStatistics(0, 3, 4)
    assert statistics_of(table, older.snapshot_id, table.schema()).values["id"] == ColumnStatistics(0, 1, 2)


def test_of_a_table_without_rows(catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.orders", SCHEMA)
    table.append(rows())
    table.append(rows(1))
    table.delete()
    assert (current(table).rows, current(table).bytes) == (0, 0)
    assert current(table).values["name"] == ColumnStatistics(0)
    assert current(table).tells_max("name")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a" * 15, "ä" * 15], ("a" * 15, "ä" * 15)),
        (["a" * 20], None),
        (["a", "b" * 16], None),
        (["a" * 40, "b"], None),
        (["", "x"], ("", "x")),
    ],
)
def test_texts_that_may_be_truncated_are_not_told(
    catalog: SqlCatalog, names: list[str], expected: tuple[str, str] | None
) -> None:
    table = catalog.create_table("shop.orders", pa.schema([("name", pa.string())]))
    table.append(pa.table({"name": names}))
    assert current(table).values["name"] == ColumnStatistics(0, *(expected or ()))


def test_texts_are_not_told_where_the_table_truncates_them_more(catalog: SqlCatalog) -> None:
    properties = {"write.metadata.metrics.column.name": "truncate(4)"}
    table = catalog.create_table("shop.orders", SCHEMA, properties=properties)
    table.append(rows(1, 2))
    assert current(table).values["name"] == ColumnStatistics(0)
    assert current(table).values["id"] == ColumnStatistics(0, 1, 2)


DAYS = {"day": ["2026-01-30", "2026-01-31"]}


def test_texts_of_files_that_others_have_written_are_not_told(catalog: SqlCatalog) -> None:
    """A file does not say how long the texts in its bounds may be, and the property may have been another one."""
    properties = {"write.metadata.metrics.default": "truncate(4)"}
    table = catalog.create_table("shop.orders", pa.schema([("day", pa.string())]), properties=properties)
    table.append(pa.table(DAYS))
    with table.transaction() as transaction:
        transaction.remove_properties("write.metadata.metrics.default")
    assert current(table, written_after=None).values["day"] == ColumnStatistics(0)
    table.overwrite(pa.table({"day": ["2026-01-31"] * 2}))
    assert current(table, written_after=None).values["day"] == ColumnStatistics(0, "2026-01-31", "2026-01-31")
    replaced = pa.table({"day": pa.array([b"\xef\xbf\xbd"] * 2).cast(pa.string())})
    table.overwrite(replaced)  # what Iceberg has in the bounds of bytes that are no text
    assert current(table, written_after=None).values["day"] == ColumnStatistics(0)


def test_texts_are_told_where_a_publication_says_so_of_their_files(catalog: SqlCatalog) -> None:
    table = catalog.create_table("shop.orders", pa.schema([("day", pa.string())]))
    told, unknown = ColumnStatistics(0, *DAYS["day"]), ColumnStatistics(0)

    def append(bounds: str | None) -> ColumnStatistics:
        table.append(pa.table(DAYS), snapshot_properties={} if bounds is None else {"rivet.text-bounds": bounds})
        return current(table, written_after=None).values["day"]

    assert append("[[1,null]]") == told
    assert append(None) == unknown  # another writer's
    assert append("[[1,1],[3,null]]") == unknown
    assert append("[[1,2],[3,null]]") == told
    first = table.snapshots()[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(first).commit()
    assert current(table, written_after=None).values["day"] == told


def test_columns_without_metrics_are_unknown(catalog: SqlCatalog) -> None:
    properties = {
        "write.metadata.metrics.column.Id": "none",
        "write.metadata.metrics.column.day": "counts",
        "write.metadata.metrics.default": "full",
    }
    table = catalog.create_table("shop.orders", SCHEMA, properties=properties)
    table.append(rows(1, 2))
    values = current(table).values
    assert values["id"] == ColumnStatistics()
    assert values["day"] == ColumnStatistics(0)
    assert values["name"] == ColumnStatistics(0, "n01", "n02")


def test_a_column_is_null_in_files_that_are_older(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = catalog.create_table("shop.orders", pa.schema([("n", pa.int32()), ("price", pa.decimal128(4, 2))]))
    price = [Decimal("1.25"), Decimal("-3.00")]
    table.append(pa.table({"n": pa.array([-7, 2], pa.int32()), "price": pa.array(price, pa.decimal128(4, 2))}))
    with table.update_schema() as change:
        change.add_column("added", StringType())
        change.add_column("never", LongType())
        change.update_column("n", LongType())
        change.update_column("price", DecimalType(12, 2))
    assert current(table).values["added"] == ColumnStatistics(2)
    table.append(pa.table({"n": pa.array([2**40]), "added": ["x"]}))
    values = current(table).values
    assert values["added"] == ColumnStatistics(2, "x", "x")
    assert values["never"] == ColumnStatistics(3)
    assert values["n"] == ColumnStatistics(0, -7, 2**40)
    assert values["price"] == ColumnStatistics(1, Decimal("-3.00"), Decimal("1.25"))
    oldest = table.snapshots()[0].snapshot_id
    table.maintenance.expire_snapshots().by_id(oldest).commit()
    assert current(table).values["added"] == ColumnStatistics(2, "x", "x")  # still true
    monkeypatch.setattr(statistics, "_KNOWN", {})
    # Without that snapshot nothing tells whether its file has the column.
    assert current(table).values["added"] == ColumnStatistics()


def test_a_manifest_is_read_once(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    fetch = ManifestFile.fetch_manifest_entry

    def recorded(manifest: ManifestFile, *args: Any, **options: Any) -> Any:
        read.append(manifest.manifest_path)
        return fetch(manifest, *args, **options)

    monkeypatch.setattr(ManifestFile, "fetch_manifest_entry", recorded)
    table = catalog.create_table("shop.orders", SCHEMA)
    for number in range(1, 9):
        table.append(rows(number))
        read.clear()
        whole = current(table)
        assert len(read) == 1  # the one of the new snapshot
        assert (whole.rows, whole.values["id"]) == (number, ColumnStatistics(0, 1, number))
    with table.update_schema() as change:
        change.add_column("added", StringType())
    read.clear()
    assert current(table).values["added"] == ColumnStatistics(8)  # no column of the manifests as they are known
    assert len(read) == 8


def test_no_more_manifests_are_known_than_that(catalog: SqlCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[Any, Statistics] = {}
    monkeypatch.setattr(statistics, "_KNOWN", known)
    monkeypatch.setattr(statistics, "_MOST", 3)
    table = catalog.create_table("shop.orders", SCHEMA)
    for number in range(1, 6):
        table.append(rows(number))
        assert current(table).rows == number
        assert len(known) == min(number, 3)
