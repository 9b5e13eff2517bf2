"""Tables that a project publishes in a database: what readers see, and what the database keeps."""

from __future__ import annotations

from typing import Any

import pytest
from support.databases import execute, profiles, rows
from support.folders import MANIFEST, Files, ProjectFolder
from support.postgres import Database

from rivet_dagster.errors import RivetError

ROWS = "SELECT id, id * 2 AS n FROM range({})"


@pytest.fixture(scope="module")
def server(postgres) -> Database:
    return postgres.database()


@pytest.fixture
def database(postgres) -> Database:
    return postgres.database()


def publishing(database: Database, query: str, /, catalog: dict[str, Any] | None = None, **fields: Any) -> Files:
    """Return a project that publishes the rows of a query as the table `orders` of the database."""
    sink = {"type": "sink", "catalog": "shop", "table": "orders", "upstream": ["made"], **fields}
    return {
        "profiles.yaml": profiles(database, **(catalog or {})),
        "joints/made.sql": query,
        "sinks/orders.yaml": sink,
    }


def leftovers(database: Database) -> list[str]:
    """Return the tables of staged rows."""
    return [name for (name,) in rows(database, r"SELECT relname FROM pg_class WHERE relname ~ '^rivet_[0-9a-f]{12}'")]


def test_a_replaced_table_keeps_what_belongs_to_it(project, database):
    """Views, grants, constraints, indexes, triggers and identity columns stay; readers see no empty table."""
    execute(
        database,
        "CREATE TABLE orders (number int GENERATED ALWAYS AS IDENTITY, id bigint PRIMARY KEY, n bigint CHECK (n >= 0))",
        "CREATE INDEX by_n ON orders (n)",
        "CREATE VIEW seen AS SELECT id, n FROM orders",
        "CREATE ROLE reader_of_orders",
        "GRANT SELECT ON orders TO reader_of_orders",
        "INSERT INTO orders (id, n) VALUES (100, 1)",
    )
    before = rows(database, "SELECT oid FROM pg_class WHERE relname = 'orders'")
    folder = project(publishing(database, ROWS.format(10), adopt=True))
    result = folder.run("orders")
    assert (result.rows.inserted, result.rows.deleted, result.rows.total) == (10, 1, 10)
    assert rows(database, "SELECT count(*), sum(n), min(number) FROM orders") == [(10, 90, 2)]
    assert rows(database, "SELECT oid FROM pg_class WHERE relname = 'orders'") == before
    assert rows(database, "SELECT has_table_privilege('reader_of_orders', 'orders', 'SELECT')") == [(True,)]
    assert rows(database, "SELECT count(*) FROM seen") == [(10,)]
    assert leftovers(database) == []


def test_a_table_that_takes_the_place_of_the_old_one(project, database):
    """With its indexes, its rights and its owner; it is logged."""
    execute(
        database,
        "CREATE TABLE orders (id bigint PRIMARY KEY, n bigint DEFAULT 5)",
        "CREATE ROLE reader_of_swapped",
        "GRANT SELECT ON orders TO reader_of_swapped",
        "INSERT INTO orders VALUES (100, 1)",
    )
    before = rows(database, "SELECT oid FROM pg_class WHERE relname = 'orders'")
    folder = project(publishing(database, ROWS.format(10), adopt=True, options={"replace_by": "swap"}))
    result = folder.run("orders")
    assert (result.rows.inserted, result.rows.deleted, result.rows.total) == (10, 1, 10)
    assert rows(database, "SELECT * FROM orders ORDER BY id LIMIT 2") == [(0, 0), (1, 2)]
    ((oid, persistence),) = rows(database, "SELECT oid, relpersistence FROM pg_class WHERE relname = 'orders'")
    assert ((oid,) != before[0], persistence) == (True, "p")
    assert rows(database, "SELECT has_table_privilege('reader_of_swapped', 'orders', 'SELECT')") == [(True,)]
    assert rows(database, "SELECT count(*) FROM pg_indexes WHERE tablename = 'orders'") == [(1,)]
    assert leftovers(database) == []
    execute(database, "CREATE VIEW seen AS SELECT id FROM orders")
    with pytest.raises(RivetError, match="other objects depend on it") as caught:
        folder.run("orders")
    assert caught.value.code == "RVT-404"
    assert rows(database, "SELECT count(*) FROM orders") == [(10,)]


def test_a_gate_that_fails_publishes_nothing(project, database):
    """The database counts what it judges as Spark does; Spark judges the rest by the staged rows."""
    query = "SELECT id, CASE WHEN id = 3 THEN NULL ELSE id END AS n, 'x' AS state FROM range(10)"
    checks = [
        {"type": "not_null", "columns": ["n"]},
        {"type": "unique", "columns": ["state"]},
        {"type": "accepted_values", "column": "state", "values": ["x"]},
        {"type": "expression", "sql": "id < 5"},
    ]
    folder = project(publishing(database, query, quality={"assertions": checks}))
    result = folder.run("orders")
    assert [(check.check.kind, check.violations) for check in result.checks] == [
        ("not_null", 1),
        ("unique", 9),
        ("accepted_values", 0),
        ("expression", 5),
    ]
    assert [dict(row) for row in result.checks[0].samples] == [{"id": 3, "n": None, "state": "x"}]
    assert rows(database, "SELECT to_regclass('orders')") == [(None,)]
    assert leftovers(database) == []


def test_an_audit_judges_the_table_as_it_would_be(project, database):
    """The rows that stay, and those that come."""
    strategy = {"mode": "merge", "key_columns": ["id"]}
    audits = {"audits": [{"type": "row_count", "max": 12}, {"type": "expression", "sql": "n < 100"}]}
    query = ROWS.format(10) + "{% if is_incremental() %} WHERE id > 7 UNION ALL SELECT 70, {{ var('n') }} {% endif %}"
    folder_files = publishing(database, query, write_strategy=strategy, quality=audits)
    folder = project(folder_files)
    folder.write({"rivet.yaml": {**MANIFEST, "vars": {"n": "99"}}})
    assert folder.run("orders").rows.inserted == 10
    again = ProjectFolder(folder.root, {**folder_files, "rivet.yaml": {**MANIFEST, "vars": {"n": "100"}}})
    result = again.run("orders")
    assert [(check.check.kind, check.violations) for check in result.checks] == [("row_count", 0), ("expression", 1)]
    assert rows(database, "SELECT count(*) FROM orders") == [(10,)]


def test_a_table_of_somebody_else_is_left_alone(project, database):
    execute(database, "CREATE TABLE orders (id bigint, n bigint)", "CREATE VIEW seen AS SELECT 1 AS id")
    with pytest.raises(RivetError, match="rivet-dagster adopt") as caught:
        project(publishing(database, ROWS.format(10))).run("orders")
    assert caught.value.code == "RVT-404"
    with pytest.raises(RivetError, match="is a view or a foreign table"):
        project(publishing(database, ROWS.format(10), table="seen")).run("orders")
