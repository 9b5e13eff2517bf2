"""Reading and publishing through PgBouncer, whose sessions are given to others by the transaction, or the client."""

from __future__ import annotations

import pytest
from support.databases import execute, profiles, rows, source
from support.folders import Files
from support.postgres import Database, pooler_of

from rivet_dagster.errors import RivetError


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
