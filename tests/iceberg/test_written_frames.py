"""Frames that are written to tables of Iceberg."""

from pyarrow.parquet import ParquetFile
from support.iceberg import declared
from support.iceberg_runs import APPEND, TABLE, UPSERT, lake
from support.tables import refused

from rivet_dagster.model.relations import CatalogTable


def test_a_frame_is_written_when_its_views_are_gone(iceberg_session, tmp_path):
    session = iceberg_session(lake=declared("hadoop", tmp_path / "hadoop"))
    session.execute("CREATE TABLE lake.shop.numbers (id INT) USING iceberg")
    with session.views():
        session.register("numbers", session.query("SELECT 1 AS id"))
        frame = session.query("SELECT id + 1 AS id FROM numbers")
    target = CatalogTable(("lake", "shop", "numbers"))
    session.write(frame, target)
    session.write(frame, target, split_by=None, mode="overwrite")
    assert session.rows("SELECT id FROM lake.shop.numbers") == [{"id": 2}]


def test_settings_that_send_rows_elsewhere_are_refused(iceberg_session, tmp_path):
    options = declared("hadoop", tmp_path / "hadoop")
    catalog, session = lake(options, tmp_path), iceberg_session(lake=options)
    frame = session.query("SELECT 1 AS id, 2 AS net")
    audited = {"properties": {"write.wap.enabled": "true"}}
    for number, setting in enumerate([None, "spark.wap.branch", "spark.wap.id", None]):
        if setting is not None:
            session.spark.conf.set(setting, "audit")
        for plan in (APPEND, UPSERT):
            with catalog.begin(TABLE, session, audited) as transaction:
                if setting is None:
                    transaction.write(plan, frame)
                    transaction.commit(f"run {number} {plan}")
                else:
                    error = refused(transaction.write, plan, frame)
                    assert (error.code, f"`{setting}`" in str(error)) == ("RVT-502", True)
        if setting is not None:
            assert refused(session.execute, f"DELETE FROM lake.shop.{TABLE}").code == "RVT-502"
            session.spark.conf.unset(setting)
    assert session.rows(f"SELECT count(*) AS n FROM lake.shop.{TABLE}") == [{"n": 2}]


def test_new_tables_have_the_compression_of_iceberg_and_each_write_has_the_plan_of_its_query(iceberg_session, tmp_path):
    options = declared("hadoop", tmp_path / "hadoop")
    catalog, session = lake(options, tmp_path), iceberg_session(lake=options)
    plans = []
    for first in (0, 2):
        frame = session.query(f"SELECT id, id * 10 AS net FROM range({first}, {first + 3})")
        with catalog.begin(TABLE, session) as transaction:
            transaction.write(UPSERT, frame)
            plans.append(transaction.query_plan.text)
            transaction.commit(f"run {first}")
    assert ["Range (0, 3" in plans[0], "Range (2, 5" in plans[1]] == [True, True], plans
    session.execute("CREATE TABLE lake.shop.by_hand (id INT) USING iceberg")
    properties = [
        {row["key"]: row["value"] for row in session.rows(f"SHOW TBLPROPERTIES lake.shop.{table}")}
        for table in (TABLE, "by_hand")
    ]
    assert properties[0]["write.parquet.compression-codec"] == properties[1]["write.parquet.compression-codec"]
    files = session.rows(f"SELECT file_path FROM lake.shop.{TABLE}.files")
    written = [ParquetFile(row["file_path"].removeprefix("file:")).metadata for row in files]
    assert {known.row_group(0).column(0).compression for known in written} == {"ZSTD"}
