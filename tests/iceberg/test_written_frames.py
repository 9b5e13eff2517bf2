"""Frames that are written to tables of Iceberg."""

from support.iceberg import declared

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
