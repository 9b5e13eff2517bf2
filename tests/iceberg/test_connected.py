"""A table that Spark writes, read by PyIceberg, through catalogs of each kind that runs on this machine."""

import pyarrow as pa
import pytest

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import CatalogTable


@pytest.mark.nightly(but=2)
def test_what_spark_writes_pyiceberg_reads(each_kind, iceberg_session, tmp_path):
    session = iceberg_session(lake=each_kind)
    spark = session.spark
    spark.sql("CREATE NAMESPACE lake.marts")
    spark.sql("CREATE TABLE lake.marts.orders (id INT, day DATE) USING iceberg")
    spark.sql("INSERT INTO lake.marts.orders VALUES (1, DATE'2024-01-31'), (2, NULL)")
    spark.sql("ALTER TABLE lake.marts.orders CREATE BRANCH staged")
    catalog = connect_catalog("lake", each_kind, tmp_path)
    table = catalog.load_table("marts.orders")
    assert sorted(row["id"] for row in table.scan().to_arrow().to_pylist()) == [1, 2]
    assert set(table.refs()) == {"main", "staged"}
    # And the other way round: what PyIceberg commits, Spark sees at once.
    table.append(table.scan(row_filter="id = 1").to_arrow())
    assert session.rows("SELECT count(*) AS n FROM lake.marts.orders") == [{"n": 3}]


def test_rows_are_written_as_their_names_were_when_the_frame_was_made(iceberg_options, iceberg_session):
    session = iceberg_session(lake=iceberg_options("hadoop"))
    session.execute("CREATE TABLE lake.marts.orders (id INT) USING iceberg")
    with session.views():
        session.register("batch", session.query("SELECT 1 AS id"))
        frame = session.query("SELECT * FROM batch WHERE id = :id", {"id": 1})
    session.register("batch", session.query("SELECT 2 AS id"))
    session.write(frame, CatalogTable(("lake", "marts", "orders")))
    assert session.rows("SELECT id FROM lake.marts.orders") == [{"id": 1}]


def test_a_table_on_s3_is_opened_by_pyiceberg(iceberg_options, s3, tmp_path):
    options = iceberg_options("sqlite") | {"warehouse": f"s3://{s3.bucket()}/lake", **s3.iceberg_options}
    catalog = connect_catalog("lake", options, tmp_path)
    catalog.create_namespace("marts")
    rows = pa.table({"id": [1, 2]})
    catalog.create_table("marts.orders", rows.schema).append(rows)
    again = connect_catalog("lake", options, tmp_path).load_table("marts.orders")
    assert again.scan().to_arrow().to_pylist() == rows.to_pylist()


def test_a_wrong_password_of_the_database_is_told_without_it(iceberg_options, tmp_path):
    options = iceberg_options("postgres") | {"jdbc.password": "hunter22"}
    with pytest.raises(RivetError, match=r"RVT-403 the Iceberg catalog 'lake' .*password") as caught:
        connect_catalog("lake", options, tmp_path)
    assert "hunter22" not in str(caught.value)
