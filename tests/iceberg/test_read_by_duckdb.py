"""Tables of Iceberg that Spark, or another writer, wrote, read by the engine ``duckdb``."""

from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest
from support.iceberg import declared
from support.iceberg_runs import NAMESPACE, lake

from rivet_dagster.engines.duckdb import DuckDBEngine
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec
from rivet_dagster.model.relations import ArrowRows, CatalogTable, Files
from rivet_dagster.model.storage import Projection

ROWS = """
SELECT id, CAST(id % 3 AS INT) AS part, concat('text ', id) AS name, CAST(id / 4 AS DECIMAL(12,3)) AS net,
    TIMESTAMP'2024-07-01 12:30:00.123456 UTC' AS at, TIMESTAMP_NTZ'2024-07-01 12:30:00' AS local,
    DATE'2024-02-29' AS day, array(id, NULL) AS ids, map('k', id) AS counts,
    named_struct('a', id, 'b', array('x')) AS inner, CAST('bytes' AS BINARY) AS raw, id % 2 = 0 AS even
FROM range(100)
"""


@pytest.fixture
def both(iceberg_session, tmp_path):
    """Return the session of Spark, one of DuckDB, and the catalog."""
    options = declared("hadoop", tmp_path / "lake")
    spark, catalog = iceberg_session(lake=options), lake(options, tmp_path)
    engine = DuckDBEngine(EngineSpec("duck", "duckdb"), needs=[catalog.session_needs("duckdb")])
    with engine.session() as duck:
        yield spark, duck, catalog


def in_order(session, relation):
    table = session.to_arrow(session.load(relation, Projection(filter="id > 3")))
    return table.sort_by("id").to_pylist()


def test_each_state_of_a_table_has_the_same_rows_as_on_spark(both):
    spark, duck, catalog = both
    name = f"lake.{NAMESPACE}.t"
    table = CatalogTable(("lake", NAMESPACE, "t"))
    run = spark.spark.sql
    run(f"CREATE TABLE {name} USING iceberg PARTITIONED BY (part) AS {ROWS}")
    read = catalog.session_needs("duckdb").readers["lake"]
    assert type(read(table)) is Files
    assert duck.columns(duck.load(table)) == spark.columns(spark.load(table))
    first = in_order(spark, table)
    assert in_order(duck, table) == first
    snapshot = catalog.access.catalog.load_table((NAMESPACE, "t")).current_snapshot().snapshot_id
    run(f"ALTER TABLE {name} SET TBLPROPERTIES ('write.delete.mode'='merge-on-read')")
    run(f"DELETE FROM {name} WHERE id % 5 = 0")
    assert type(read(table)) is ArrowRows
    assert in_order(duck, table) == in_order(spark, table) != first
    run(f"ALTER TABLE {name} RENAME COLUMN net TO gross")
    run(f"ALTER TABLE {name} ADD COLUMN vat DECIMAL(10,2)")
    run(f"ALTER TABLE {name} ALTER COLUMN part TYPE BIGINT")
    run(f"INSERT INTO {name} SELECT *, 1.25 AS vat FROM ({ROWS.replace('range(100)', 'range(200, 210)')})")
    assert in_order(duck, table) == in_order(spark, table)
    assert duck.columns(duck.load(table)) == spark.columns(spark.load(table))
    old = CatalogTable(table.identifier, snapshot=snapshot)
    assert in_order(duck, old) == in_order(spark, old) == first
    run(f"ALTER TABLE {name} CREATE BRANCH early AS OF VERSION {snapshot}")
    assert in_order(duck, CatalogTable(table.identifier, branch="early")) == first
    with pytest.raises(RivetError, match="RVT-519"):
        duck.load(CatalogTable(table.identifier, snapshot=snapshot, after=snapshot))


@pytest.mark.parametrize("scheme", ["file://", ""])
def test_files_of_another_writer_are_read_in_place(tmp_path, scheme):
    catalog = lake(declared("sqlite", tmp_path / "lake"), tmp_path)
    read, name = catalog.session_needs("duckdb").readers["lake"], ("lake", NAMESPACE, "t")
    catalog.access.catalog.create_namespace(NAMESPACE)
    columns = pa.schema({"id": pa.int64()})
    table = catalog.access.catalog.create_table(name[1:], columns, f"{scheme}{tmp_path}/lake/t")
    assert read(CatalogTable(name)) == Files("parquet", (), {"schema": "id bigint"})
    snapshots = []
    for id_ in (1, 2):
        table.append(pa.table({"id": [id_]}))
        snapshots.append(table.current_snapshot())
    first = snapshots[0]
    table.manage_snapshots().create_branch(first.snapshot_id, "audited").commit()
    moment = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC).isoformat()
    states = {"snapshot": first.snapshot_id, "branch": "audited", "timestamp": moment}
    for relation in (CatalogTable(name), *(CatalogTable(name, **{key: value}) for key, value in states.items())):
        files = read(relation)
        assert type(files) is Files
        found = duckdb.read_parquet(list(files.paths)).order("id").fetchall()
        assert found == ([(1,), (2,)] if relation == CatalogTable(name) else [(1,)])
