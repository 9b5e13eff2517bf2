"""Projects that publish tables in a database."""

from __future__ import annotations

import pytest
from support.databases import execute, profiles, rows
from support.postgres import Database


@pytest.fixture
def database(postgres) -> Database:
    return postgres.database()


def publishing(database: Database, query: str, **fields) -> dict:
    sink = {"type": "sink", "catalog": "shop", "table": "orders", "upstream": ["made"], **fields}
    return {
        "profiles.yaml": profiles(database),
        "joints/made.sql": query,
        "joints/orders.yaml": sink,
    }


def test_a_run_publishes(project, database):
    folder = project(publishing(database, "SELECT id, id * 2 AS n FROM range(10)", quality={"assertions": [{"type": "not_null", "columns": ["id"]}, {"type": "unique", "columns": ["id"]}, {"type": "expression", "sql": "n >= 0"}]}))
    result = folder.run("orders")
    print(result)
    assert rows(database, "SELECT count(*), sum(n) FROM orders") == [(10, 90)]
    print(rows(database, "SELECT * FROM rivet_versions"), rows(database, "SELECT relname FROM pg_class WHERE relname LIKE 'rivet%'"))
    assert 0
