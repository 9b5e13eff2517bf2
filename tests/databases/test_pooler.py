"""Reading and publishing through PgBouncer, whose sessions are given to others by the transaction, or the client."""

from __future__ import annotations

import pytest
from support.databases import execute, profiles, rows, source
from support.folders import Files
from support.postgres import Database, pooler_of

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import CatalogSpec


@pytest.fixture
def database(postgres) -> Database:
    found = postgres.database()
    execute(
        found,
        "CREATE TABLE plain (id bigint PRIMARY KEY, n bigint)",
        "INSERT INTO plain SELECT n, n * 2 FROM generate_series(1, 20000) n",
        "ANALYZE plain",
        "CREATE TABLE kinds AS SELECT 'a'::text AS kind",
    )
    return found


def merging(database: Database) -> Files:
    """Return a project that reads two tables at one snapshot, and merges into a table, with an audit and row errors."""
    sink = {
        "type": "sink",
        "catalog": "shop",
        "table": "orders",
        "upstream": ["made"],
        "on_error": "quarantine",
        "write_strategy": {"mode": "merge", "key_columns": ["id"]},
        "quality": {
            "assertions": [{"type": "unique", "columns": ["id"]}, {"type": "expression", "sql": "n > 0"}],
            "audits": [{"type": "row_count", "min": 10}],
        },
    }
    shared = {"partition_by": "id", "partitions": 4}
    made = "SELECT id, CAST(IF(id = 7, 'x', n) AS BIGINT) AS n, kind FROM plain CROSS JOIN kinds"
    return {
        "profiles.yaml": profiles(database, connections=6),
        "sources/plain.yaml": source("plain", options=shared),
        "sources/kinds.yaml": source("kinds"),
        "joints/made.sql": made,
        "sinks/orders.yaml": sink,
    }


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("mode", ["transaction", "session"])
def test_tables_are_read_and_published_through_a_pooler(project, database, mode):
    with pooler_of(database, pool_mode=mode, default_pool_size="12") as pooled:
        folder = project(merging(pooled))
        assert folder.run("orders").rows.inserted == 19_999
        execute(database, "UPDATE plain SET n = n + 1 WHERE id <= 100")
        result = folder.run("orders")
    assert (result.rows.inserted, result.rows.updated, result.rows.total) == (0, 99, 19_999)
    assert rows(database, "SELECT count(*), sum(o.n - p.n) FROM orders o JOIN plain p USING (id)") == [(19_999, 0)]
    assert rows(database, "SELECT count(*) FROM orders__errors") == [(1,)]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("settings", "code", "told", "remedy"),
    [
        ({"pool_mode": "statement"}, "RVT-528", "`pool_mode = statement` of PgBouncer", "pool_mode = transaction"),
        ({"idle_transaction_timeout": "1"}, "RVT-528", "`idle_transaction_timeout` of PgBouncer", "raised"),
        ({"default_pool_size": "1", "query_wait_timeout": "2"}, "RVT-510", "`query_wait_timeout`", "pool_size"),
    ],
)
def test_what_a_pooler_ends_names_its_setting(project, database, settings, code, told, remedy):
    """Nothing is published, and the run ends."""
    with pooler_of(database, **settings) as pooled, pytest.raises(RivetError, match=told) as caught:
        project(merging(pooled)).run("orders")
    assert caught.value.code == code
    assert remedy in (caught.value.diagnostics[0].remediation or "")
    assert rows(database, "SELECT to_regclass('orders')") == [(None,)]


def test_values_are_binary_unless_a_pooler_confuses_prepared_statements(database, tmp_path):
    def url(database: Database, parameters: str = "") -> str:
        login = {"user": database.user, "password": database.password}
        spec = CatalogSpec("shop", "jdbc", {"url": database.jdbc + parameters, **login})
        snapshot = JdbcCatalog(spec, tmp_path).snapshot(1)
        try:
            return snapshot.relation("plain", {"partition_by": "id", "partitions": 2}).url.removeprefix(database.jdbc)
        finally:
            snapshot.close()

    others = "ApplicationName=rivet_dagster%20reader&tcpKeepAlive=true"
    assert url(database) == f"?{others}&prepareThreshold=-1"
    own = "?prepareThreshold=5&ApplicationName=mine"
    assert url(database, own) == f"{own}&tcpKeepAlive=true"
    with pooler_of(database, pool_mode="transaction") as pooled:
        assert url(pooled) == f"?{others}"


def test_readers_of_parts_are_told_by_name(project, database):
    execute(database, "CREATE VIEW readers AS SELECT n AS id, current_setting('application_name') AS name FROM plain")
    shared = source("readers", options={"partition_by": "id", "partitions": 2})
    made = "-- rivet:catalog: lake\nSELECT DISTINCT name FROM readers"
    folder = project({"profiles.yaml": profiles(database), "sources/readers.yaml": shared, "joints/made.sql": made})
    folder.run("made")
    assert folder.rows("made") == [{"name": "rivet_dagster reader"}]
