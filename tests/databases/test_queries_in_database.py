"""The engine ``postgres``: joints whose rows never leave the database in which they are published."""

from __future__ import annotations

from typing import Any

import pytest
from support.databases import execute, rows, source
from support.folders import Files, ProjectFolder
from support.postgres import Database, postgres_server

ORDERS = (
    "CREATE TABLE orders (id bigint, customer int, amount numeric(10,2), day date, key uuid, more jsonb, s numeric)",
    "INSERT INTO orders SELECT n, n % 7, n * 1.5, DATE '2024-01-01' + n % 10, gen_random_uuid(), '{\"a\": 1}', n "
    "FROM generate_series(1, 1000) AS n",
)


@pytest.fixture(scope="module")
def server():
    with postgres_server({"shared_preload_libraries": "pg_stat_statements", "compute_query_id": "on"}) as server:
        yield server


@pytest.fixture
def database(server) -> Database:
    database = server.database()
    execute(database, "CREATE EXTENSION pg_stat_statements", *ORDERS)
    return database


def profile(database: Database, /, engine: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Return profiles with one engine, in the database, and no other catalog."""
    shop = {"type": "jdbc", "url": database.jdbc, "user": database.user, "password": database.password, **options}
    declared = {"name": "pg", "type": "postgres", "catalogs": ["shop"], "dialect": "postgres", **(engine or {})}
    return {"default": {"catalogs": {"shop": shop}, "engines": [declared], "workspace": "shop"}}


def chain(database: Database, /, engine: dict[str, Any] | None = None, **fields: Any) -> Files:
    """Return a project of three joints and a sink, which are one group."""
    sink = {"type": "sink", "catalog": "shop", "table": "by_customer", "upstream": ["summed"], **fields}
    return {
        "profiles.yaml": profile(database, engine),
        "sources/orders.yaml": source("orders"),
        "joints/late.sql": "SELECT * FROM orders WHERE day >= '2024-01-03'::date",
        "joints/priced.sql": "SELECT customer, amount * 2 AS price, more->>'a' AS a FROM late",
        "joints/summed.sql": "SELECT customer, sum(price)::numeric(20,2) AS price, count(*) AS n, min(a) AS a\n"
        "FROM priced GROUP BY customer",
        "sinks/by_customer.yaml": sink,
    }


@pytest.fixture
def folder(tmp_path):
    return lambda files: ProjectFolder(tmp_path / "project", files)


BY_HAND = (
    "SELECT customer, sum(amount * 2)::numeric(20,2), count(*), min(more->>'a') FROM orders WHERE day >= '2024-01-03' "
    "GROUP BY customer ORDER BY customer"
)


def test_a_chain_of_joints_is_one_statement(folder, database):
    project = folder(chain(database))
    (group,) = project.assembly.fused_groups
    assert group.joints == ("orders", "late", "priced", "summed", "by_customer")
    result = project.run("by_customer")
    assert (result.rows.inserted, result.rows.total) == (7, 7)
    published = rows(database, "SELECT customer, price, n, a FROM by_customer ORDER BY customer")
    assert published == rows(database, BY_HAND)
    statements = [text for (text,) in rows(database, "SELECT query FROM pg_stat_statements WHERE calls > 0")]
    (fused,) = [text for text in statements if "priced" in text and "INSERT INTO" in text]
    assert all(f"{name} AS (" in fused for name in ("late", "priced", "summed"))
    assert not [text for text in statements if text.startswith("COPY")]
