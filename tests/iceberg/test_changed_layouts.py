"""Writes to tables whose files were written under several partition specs."""

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform
from support.iceberg import declared
from support.iceberg_runs import lake

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.iceberg.names import table_name
from rivet_dagster.catalogs.iceberg.opened import OpenedTable
from rivet_dagster.catalogs.iceberg.writes.native import overwritable_by
from rivet_dagster.catalogs.iceberg.writes.staged_table import locate_version
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.partitions import Partitions, Window
from rivet_dagster.model.write_plan import Append, DeleteInsert, ReplaceAll, ReplacePartitions, WritePlan


def test_partitions_are_overwritten_only_where_all_live_files_have_the_spec_of_the_table(tmp_path: Path) -> None:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("shop")
    opened = OpenedTable(catalog, table_name("lake", "shop.orders", None))
    rows = pa.table({"day": pa.array([1, 2], pa.int32()), "net": pa.array([1, 2], pa.int32())})

    def by() -> tuple[str, ...]:
        place = locate_version(opened)
        assert place.existing is not None
        return overwritable_by(place, place.existing.metadata.current_snapshot_id)

    table = catalog.create_table("shop.orders", rows.schema)
    assert by() == ()
    table.append(rows)
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    assert by() == ()  # files without partitions
    table.append(rows)
    assert by() == ()
    table.delete("net > 0")
    table.append(rows)
    assert by() == ("day",)  # the manifests of the older spec have nothing but deleted files
    with table.update_spec() as update:
        update.remove_field("day")
    with table.update_spec() as update:
        update.add_field("day", IdentityTransform(), "day")
    assert by() == ("day",)
    catalog.close()


@pytest.fixture
def write(iceberg_session: Callable[..., EngineSession], tmp_path: Path) -> Callable[..., list[tuple[int, int]]]:
    """Return a function that publishes rows ``(day, net)`` of a run, and returns all rows as two readers see them."""
    options = declared("hadoop", tmp_path / "hadoop")
    catalog, session = lake(options, tmp_path), iceberg_session(lake=options)
    numbers = count()

    def write(
        table: str, plan: WritePlan, rows: str, by: Sequence[str] = (), window: Window | None = None
    ) -> list[tuple[int, int]]:
        frame = session.query(f"SELECT * FROM VALUES {rows} AS rows(day, net)")
        with catalog.begin(table, session, {"partitioned_by": list(by)}) as transaction:
            transaction.write(plan, frame, WriteContext(window=window))
            transaction.commit(f"run{next(numbers)}/orders")
        read = sorted((row["day"], row["net"]) for row in session.rows(f"SELECT * FROM lake.shop.{table}"))
        found = catalog.access.open(table).load().scan().to_arrow().to_pylist()
        assert sorted((row["day"], row["net"]) for row in found) == read
        return read

    return write


@pytest.mark.nightly
def test_rows_of_an_older_layout_are_replaced_as_well(write):
    """By each statement: in the run that changes the layout, in the next, and where some files have the new one."""
    strategies = {"delete_insert": DeleteInsert(columns=("day",)), "snapshot": ReplacePartitions(column="day")}
    for table, plan in strategies.items():
        write(table, plan, "(1, 1), (1, 2), (2, 3)")
        for net in (4, 5):
            assert write(table, plan, f"(1, {net}), (1, {net})", ["day"]) == [(1, net), (1, net), (2, 3)], (table, net)
        write(table, Append(), "(1, 6)")
        write(table, Append(), "(1, 7)", ["day"])
        assert write(table, plan, "(1, 8)", ["day"]) == [(1, 8), (2, 3)], table

    only_one = Window(Partitions("static", "day", values=("1", "2")), ("1",))
    assert write("snapshot", ReplaceAll(), "(1, 9)", ["day"], only_one) == [(1, 9), (2, 3)]
    assert write("snapshot", ReplaceAll(keeps_table=True), "(3, 1)", ["day"]) == [(3, 1)]
