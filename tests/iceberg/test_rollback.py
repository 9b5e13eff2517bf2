"""Rollbacks to versions with other columns, partitions or sort order, without a JVM."""

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.types import LongType
from support.iceberg import declared
from support.iceberg_duckdb import session
from support.iceberg_runs import ERRORS, NAMESPACE, TABLE, Work, access_of, lake, run

from rivet_dagster.catalogs.capabilities.transaction import WriteContext
from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.catalogs.iceberg.writes.publishing import restoring_updates
from rivet_dagster.errors import RivetError
from rivet_dagster.model.row_errors import ERROR_COLUMNS
from rivet_dagster.model.write_plan import Append, ReplaceAll, Upsert, WritePlan

REPLACE = ReplaceAll()
OLD = {"partitioned_by": ["note"], "sort_order": ["price DESC"], "properties": {"a": "1"}}
NEW = {"partitioned_by": ["more"], "sort_order": ["id"], "properties": {"a": "1"}}


class Versions:
    """A table, the runs that write it, and what its readers see."""

    def __init__(self, root: Path, options: dict[str, Any]) -> None:
        self.root, self.options, self.runs = root, options, iter(range(100))
        self.catalog = lake(options, root)

    def write(self, rows: dict[str, list[Any]], plan: WritePlan = REPLACE, options: Any = None) -> str:
        engine = session(self.root, lake=self.options)
        identity = f"run{next(self.runs)}/orders"
        with self.catalog.begin(TABLE, engine, options or {}) as transaction:
            transaction.write(plan, engine.from_value(pa.table(rows)), WriteContext(identity=identity))
            return transaction.commit(identity).version

    def rollback(self, version: str) -> None:
        with self.catalog.restage(TABLE, version) as transaction:
            published = transaction.commit(f"rollback to {version}")
        assert published == self.catalog.current(TABLE)

    def table(self) -> Any:
        return connect_catalog("lake", self.options, self.root).load_table((NAMESPACE, TABLE))

    def layout(self) -> tuple[Any, ...]:
        metadata = self.table().metadata
        return metadata.schema(), metadata.spec(), metadata.sort_order(), metadata.properties.get("a")

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows by two readers, which must agree."""
        scan = self.table().scan()
        rows = scan.to_arrow()
        files = [task.file.file_path.removeprefix("file://") for task in scan.plan_files()]
        columns = ", ".join(f'"{name}"' for name in rows.column_names)
        others = duckdb.sql(
            f"SELECT {columns} FROM read_parquet({files}, union_by_name=True, hive_partitioning=False)"
        ).fetchall()
        found = [tuple(row.values()) for row in rows.to_pylist()]
        assert sorted(found, key=str) == sorted(others, key=str)
        return sorted(found, key=str)


@pytest.fixture(params=["hadoop", "rest", "nessie"])
def versions(request: pytest.FixtureRequest, tmp_path: Path) -> Versions:
    servers = {"rest": "iceberg_rest", "nessie": "nessie"}
    kind = request.param
    needed = {kind: request.getfixturevalue(servers[kind])} if kind in servers else {}
    return Versions(tmp_path, declared(kind, tmp_path / "lake", **needed))


@pytest.mark.nightly(but=1)
def test_a_rollback_brings_back_the_columns_and_the_layout_of_the_version(versions):
    first = versions.write({"id": [1, 2], "price": ["10", "20"], "note": ["a", "b"]}, options=OLD)
    before = versions.layout(), versions.rows()
    second = versions.write({"id": [3], "price": [3.5], "more": [1]}, options=NEW)
    other = versions.layout(), versions.rows()
    assert other[1] == [(3, 3.5, 1)]

    versions.rollback(first)
    assert (versions.layout(), versions.rows()) == before
    versions.rollback(second)
    assert (versions.layout(), versions.rows()) == other
    versions.rollback(first)
    # The next runs: by the layout and the columns that the joint has, and by the strategy.
    versions.write({"id": [4], "price": ["40"], "note": ["d"]}, Append(), OLD)
    assert (versions.layout(), versions.rows()) == (before[0], sorted([*before[1], (4, "40", "d")], key=str))
    with pytest.raises(RivetError) as caught:
        versions.write({"id": [4], "price": ["40"], "more": [4]}, Append(), OLD)
    assert caught.value.code == "RVT-514"
    versions.write({"id": [5], "price": ["50"], "note": ["e"], "x": [5]}, Append(schema_change="add"), OLD)
    assert versions.rows()[-1] == (5, "50", "e", 5)
    versions.write({"id": [3], "price": [3.5], "more": [1]}, options=NEW)
    assert versions.rows() == [(3, 3.5, 1)]
    with pytest.raises(RivetError) as caught:
        versions.write({"id": [1]})
    assert "RVT-514 the table is partitioned by 'more', which it would not have" in str(caught.value)
    assert "Declare `partitioned_by`" in str(caught.value)
    versions.write({"id": [1]}, options={"partitioned_by": []})
    assert (versions.rows(), versions.layout()[3]) == ([(1,)], None)
    versions.rollback(second)
    assert (versions.layout()[:3], versions.rows()) == (other[0][:3], other[1])


def test_partitions_that_are_not_declared_are_of_the_column_of_the_same_name(tmp_path):
    versions = Versions(tmp_path, declared("sqlite", tmp_path / "lake"))
    layout = {"partitioned_by": ["day", "id"], "sort_order": ["day DESC NULLS FIRST"]}
    first = versions.write({"id": [1, 2], "day": ["1", "2"]}, options=layout)
    before = versions.layout()
    versions.write({"id": [1, 2], "day": [1, 2]})
    schema, spec, order, _ = versions.layout()
    assert [schema.find_field(field.source_id).name for field in (*spec.fields, *order.fields)] == ["day", "id", "day"]
    assert [str(field.transform) for field in spec.fields] == ["identity"] * 2
    (field,), (old,) = order.fields, before[2].fields
    assert (field.direction, field.null_order) == (old.direction, old.null_order)
    versions.rollback(first)
    assert versions.layout() == before
    assert versions.rows() == [(1, "1"), (2, "2")]
    with pytest.raises(RivetError) as caught:
        versions.write({"id": [1, 2]}, options={"partitioned_by": ["id"]})
    assert "RVT-514 the table is sorted by 'day', which it would not have" in str(caught.value)
    versions.write({"id": [1, 2]}, options={"partitioned_by": ["id"], "sort_order": []})
    assert versions.rows() == [(1,), (2,)]


def test_of_versions_of_other_writers_the_metadata_tells_the_layout(tmp_path):
    versions = Versions(tmp_path, declared("sqlite", tmp_path / "lake"))
    plain = connect_catalog("lake", versions.options, tmp_path)
    plain.create_namespace(NAMESPACE)
    rows = pa.table({"id": [1, 2], "day": ["a", "b"]})
    table = plain.create_table((NAMESPACE, TABLE), rows.schema)
    with table.update_spec() as spec:
        spec.add_field("day", "identity", "day")
    table.append(rows)
    before = versions.layout()
    with table.transaction() as transaction:
        with transaction.update_spec() as spec:
            spec.remove_field("day")
        with transaction.update_schema() as change:
            change.delete_column("day")
            change.add_column("more", LongType())
    table.append(pa.table({"id": [3], "more": [3]}))
    versions.catalog.adopt(TABLE)
    first = versions.catalog.versions(TABLE)[1].name
    versions.rollback(first)
    assert (versions.layout(), versions.rows()) == (before, [(1, "a"), (2, "b")])

    metadata = table.refresh().metadata
    snapshot = table.snapshot_by_id(int(first)).model_copy(update={"schema_id": None})
    table.metadata = metadata.model_copy(update={"snapshots": [snapshot]})
    with pytest.raises(RivetError) as caught:
        restoring_updates(table, snapshot)
    assert f"RVT-401 the metadata of 'shop.orders' no longer tells the columns of {first}" in str(caught.value)


def test_in_an_environment_the_base_stays_what_it_is(tmp_path):
    versions = Versions(tmp_path, declared("hadoop", tmp_path / "lake"))
    versions.write({"id": [1], "price": ["10"]}, options={"partitioned_by": ["price"]})
    base = versions.layout(), versions.rows()
    versions.catalog.use_environment("pr-7", "default")
    base_catalog, versions.catalog = versions.catalog, versions.catalog.in_environment("pr-7")
    first = versions.write({"id": [1], "price": ["20"]}, options={"partitioned_by": ["price"]})
    versions.write({"id": [1], "more": [1]}, options={"partitioned_by": ["more"]})
    versions.rollback(first)
    assert [(field.name, field.type) for field in versions.catalog.columns(TABLE, {})] == [
        ("id", "bigint"),
        ("price", "string"),
    ]
    assert (versions.layout(), versions.rows()) == base
    base_catalog.merge("pr-7")
    assert versions.layout()[:2] == base[0][:2]
    assert versions.rows() == [(1, "20")]


def test_errors_come_back_with_the_rows(tmp_path):
    """Of a version with errors, with the columns that the error table had; of one without there are none."""
    catalog = lake(declared("hadoop", tmp_path / "lake"), tmp_path)
    first = run(catalog, Work([1], errors=["bad"], identity="1/orders"), tmp_path)
    second = run(catalog, Work([1], adds=True, errors=["worse"], identity="2/orders"), tmp_path)
    errors = access_of(catalog).open(ERRORS)
    with errors.load().update_schema() as change:
        change.add_column("by_hand", LongType())
    third = run(catalog, Work([1], identity="3/orders"), tmp_path)
    for version, messages, columns in (
        (first, ["bad"], [*ERROR_COLUMNS]),
        (second, ["worse"], [*ERROR_COLUMNS]),
        (third, None, [*ERROR_COLUMNS]),
    ):
        if version.version != catalog.current(TABLE).version:
            with catalog.restage(TABLE, version.version) as transaction:
                transaction.commit("rollback")
        relation = catalog.errors_of(catalog.current(TABLE))
        if messages is None:
            assert relation is None
            continue
        assert [field.name for field in errors.load().schema().fields] == columns
        rows = errors.load().scan(snapshot_id=relation.snapshot).to_arrow()
        assert rows["message"].to_pylist() == messages


@pytest.mark.nightly
def test_spark_reads_and_writes_what_has_come_back(iceberg_session, tmp_path):
    """Also where the partitions were of a column that has gone since, of which older files still are."""
    options = declared("hadoop", tmp_path / "lake")
    catalog, engine = lake(options, tmp_path), iceberg_session(lake=options)

    def write(sql: str, plan: WritePlan = REPLACE, **layout: list[str]) -> str:
        with catalog.begin(TABLE, engine, layout) as transaction:
            transaction.write(plan, engine.query(sql))
            return transaction.commit(f"{sql}/orders").version

    def rows() -> list[dict[str, Any]]:
        found = engine.rows(f"SELECT * FROM lake.{NAMESPACE}.{TABLE} ORDER BY id")
        scanned = access_of(catalog).open(TABLE).load().scan().to_arrow().sort_by("id").to_pylist()
        assert scanned == found
        return found

    first = write("SELECT 1L AS id, '10' AS price, 'a' AS note", partitioned_by=["note"], sort_order=["price"])
    write("SELECT 2L AS id, 2.5D AS price", partitioned_by=["bucket(2, id)"], sort_order=[])
    assert rows() == [{"id": 2, "price": 2.5}]
    write("SELECT 3L AS id, 3.5D AS price", Append(), partitioned_by=["bucket(2, id)"])
    write("SELECT 3L AS id, 4.5D AS price", Upsert(keys=("id",)), partitioned_by=["bucket(2, id)"])
    assert rows() == [{"id": 2, "price": 2.5}, {"id": 3, "price": 4.5}]

    with catalog.restage(TABLE, first) as transaction:
        transaction.commit("rollback")
    back = {"id": 1, "price": "10", "note": "a"}
    assert rows() == [back]
    write("SELECT 4L AS id, '40' AS price, 'b' AS note", Append(), partitioned_by=["note"])
    write("SELECT 4L AS id, '41' AS price, 'b' AS note", Upsert(keys=("id",)), partitioned_by=["note"])
    assert rows() == [back, {"id": 4, "price": "41", "note": "b"}]
    write("SELECT 5L AS id, 5.5D AS price", partitioned_by=["bucket(2, id)"], sort_order=[])
    assert rows() == [{"id": 5, "price": 5.5}]
