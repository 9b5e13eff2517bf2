"""Metadata that Spark has written with Iceberg's Java library, and what it makes of ours."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from support.iceberg import PACKAGES, session_with
from support.maven import jars

from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog
from rivet_dagster.catalogs.iceberg.metadata.layout import layout_updates, order_of, parse_layout, spec_of
from rivet_dagster.catalogs.iceberg.metadata.statistics import added_statistics_of, statistics_of
from rivet_dagster.catalogs.iceberg.metadata.types import iceberg_schema, same_columns, sql_columns
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.model.storage import ColumnStatistics, Statistics


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def spark(application: PySparkEngine, warehouse: Path) -> Iterator[Any]:
    jars(*PACKAGES)
    with session_with({"lake": {"catalog": "hadoop", "warehouse": str(warehouse)}}, warehouse) as session:
        yield session.spark


@pytest.fixture(scope="module")
def catalog(warehouse: Path) -> HadoopCatalog:
    return HadoopCatalog("lake", warehouse=f"file:{warehouse}")


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def ids(catalog: HadoopCatalog, name: Any = "shop.orders") -> list[int]:
    return sorted(catalog.load_table(name).scan().to_arrow()["id"].to_pylist())


def test_spark_and_this_catalog_commit_in_turn(spark: Any, warehouse: Path, catalog: HadoopCatalog) -> None:
    spark.sql("CREATE TABLE lake.shop.orders (id BIGINT) USING iceberg")
    spark.sql("INSERT INTO lake.shop.orders VALUES (1), (2)")
    assert ids(catalog) == [1, 2]
    metadata = warehouse / "shop/orders/metadata"
    assert (metadata / ".version-hint.text.crc").exists()
    catalog.load_table("shop.orders").append(rows(3))
    assert not (metadata / ".version-hint.text.crc").exists()
    spark.sql("INSERT INTO lake.shop.orders VALUES (4)")
    assert ids(catalog) == [1, 2, 3, 4]
    catalog.create_table(("shop", "nested", "ours"), rows().schema).append(rows(5))
    spark.sql("INSERT INTO lake.shop.nested.ours VALUES (6)")
    spark.sql("DELETE FROM lake.shop.nested.ours WHERE id = 5")
    assert ids(catalog, "shop.nested.ours") == [6]
    assert [row.tableName for row in spark.sql("SHOW TABLES IN lake.shop").collect()] == ["orders"]
    assert catalog.list_tables("shop") == [("shop", "orders")]
    assert catalog.list_namespaces("shop") == [("shop", "nested")]
    files = spark.sql("SELECT file FROM lake.shop.nested.ours.metadata_log_entries").collect()
    assert [Path(row.file).name for row in files] == [f"v{number}.metadata.json" for number in (1, 2, 3, 4)]


def test_spark_reads_the_types_that_it_gave(spark: Any, catalog: HadoopCatalog) -> None:
    frame = spark.sql(
        """SELECT 1Y a, 2S b, 3 c, 4L d, 1.5F e, 2.5D f, 1.25BD g, 'x' h, X'01' i, true j, DATE'2024-01-01' k,
        TIMESTAMP'2024-01-01 00:00:00' l, TIMESTAMP_NTZ'2024-01-01 00:00:00' m,
        array(named_struct('City', 'x', 'at', map('k', 1S))) n, CAST('y' AS VARCHAR(3)) o"""
    )
    schema = iceberg_schema(frame.schema.json())
    catalog.create_table("shop.types", schema)
    assert same_columns(schema, frame.dtypes)
    assert sql_columns(schema) == tuple(spark.table("lake.shop.types").dtypes)
    frame.writeTo("lake.shop.types").append()
    assert [list(row) for row in spark.table("lake.shop.types").collect()] == [list(row) for row in frame.collect()]
    # The same frame again changes nothing.
    table = catalog.load_table("shop.types")
    assert iceberg_schema(frame.schema.json(), table.schema(), table.metadata.last_column_id + 1) == table.schema()


def current(table: Table) -> Statistics:
    snapshot = table.refresh().current_snapshot()
    assert snapshot is not None
    return statistics_of(table, snapshot.snapshot_id, table.schema(), written_after=0)


def test_statistics_of_what_spark_wrote(spark: Any, catalog: HadoopCatalog) -> None:
    spark.sql(
        """CREATE TABLE lake.shop.facts USING iceberg AS SELECT id, id / 7 AS ratio, CAST('nan' AS FLOAT) AS nan,
        named_struct('City', 'c' || id, 'n', IF(id = 1, NULL, id)) AS place, DATE'12024-01-01' AS late,
        repeat('x', 20) AS long FROM range(4)"""
    )
    values = current(catalog.load_table("shop.facts")).values
    assert values == {
        "id": ColumnStatistics(0, 0, 3),
        "ratio": ColumnStatistics(0, 0.0, 3 / 7),
        "nan": ColumnStatistics(0),
        "place.city": ColumnStatistics(0, "c0", "c3"),
        "place.n": ColumnStatistics(1, 0, 3),
        "late": ColumnStatistics(0),
        "long": ColumnStatistics(0),
    }


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("version", [2, 3])
def test_rows_that_delete_files_remove_are_not_counted(
    spark: Any, catalog: HadoopCatalog, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"shop.deleted_{version}"
    properties = f"'format-version'='{version}', 'write.delete.mode'='merge-on-read'"
    spark.sql(f"CREATE TABLE lake.{name} (id BIGINT, n BIGINT) USING iceberg TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO lake.{name} SELECT /*+ COALESCE(1) */ id, NULLIF(id, 4) FROM range(8)")
    table = catalog.load_table(name)
    before = current(table)
    for deleted in ("id = 2", "id = 3", "id > 6"):
        spark.sql(f"DELETE FROM lake.{name} WHERE {deleted}")
    with monkeypatch.context() as patch:
        if version == 2:  # each delete file names the rows of one data file
            patch.delattr(Table, "scan")
        after = current(table)
    assert (before.rows, after.rows, before.bytes) == (8, 5, after.bytes)
    assert after.values == {"id": ColumnStatistics(0), "n": ColumnStatistics()}
    last = table.current_snapshot()
    assert last is not None
    assert last.summary is not None
    assert last.summary["total-position-deletes"] == "3"
    assert added_statistics_of(table, last.snapshot_id, table.schema()).rows == 0
    # Now the delete files may be about a data file that is gone.
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    assert current(table).rows == 5


def test_the_layout_is_that_of_sparks_ddl(spark: Any, catalog: HadoopCatalog) -> None:
    parts = ["day", "days(at)", "bucket(4, id)", "truncate(2, name)", "place.city"]
    order = ["id DESC", "hours(at) ASC NULLS LAST", "bucket(8, `name`)"]
    columns = "id BIGINT, day DATE, at TIMESTAMP, name STRING, place STRUCT<city: STRING>"
    spark.sql(f"CREATE TABLE lake.shop.laid_out ({columns}) USING iceberg PARTITIONED BY ({', '.join(parts)})")
    spark.sql(f"ALTER TABLE lake.shop.laid_out WRITE ORDERED BY {', '.join(order)}")
    theirs = catalog.load_table("shop.laid_out").metadata
    layout = parse_layout({"partitioned_by": parts, "sort_order": order})
    assert spec_of(layout, theirs.schema(), None, None) == theirs.spec()
    assert order_of(layout, theirs.schema(), None) == theirs.sort_order()
    assert layout_updates(layout, theirs) == ()
    # What we change, Spark writes by.
    table = catalog.load_table("shop.laid_out")
    changed = parse_layout({"partitioned_by": ["months(at)", "bucket(2, id)"], "sort_order": ["name"]})
    catalog.commit_table(table, (), layout_updates(changed, table.metadata))
    spark.sql("INSERT INTO lake.shop.laid_out (id, at) VALUES (1, TIMESTAMP'2024-03-05 00:00:00')")
    (file,) = spark.sql("SELECT partition, spec_id, sort_order_id FROM lake.shop.laid_out.files").collect()
    assert (file.spec_id, file.sort_order_id) == (1, 2)
    assert file.partition.at_month == (2024 - 1970) * 12 + 2
    assert file.partition.id_bucket_2 in (0, 1)
    assert spark.sql("SELECT day FROM lake.shop.laid_out").collect()[0].day is None
