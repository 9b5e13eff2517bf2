"""Limits of time of the user's sessions: those that wait for Spark have none, and errors name the others."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from support.databases import execute, profiles, rows, source
from support.folders import Files
from support.postgres import Database

from rivet_dagster.errors import RivetError

FEW = "SELECT id, id AS n FROM range(3)"


@pytest.fixture
def database(postgres) -> Database:
    found = postgres.database()
    execute(
        found,
        "CREATE TABLE plain (id bigint PRIMARY KEY, n bigint)",
        "INSERT INTO plain SELECT n, n FROM generate_series(1, 3000) n",
        "CREATE VIEW slow AS SELECT id, n FROM (SELECT id, n, pg_sleep(0.01) FROM plain) AS waited",
        "CREATE TABLE orders (id bigint, n bigint)",
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(1); RETURN new; END'",
    )
    return found


def limited(database: Database, **settings: str) -> None:
    """Limit the sessions of the user, but for those that the tests have open."""
    for name, value in settings.items():
        execute(database, f"ALTER ROLE {database.user} IN DATABASE {database.name} SET {name} = '{value}'")


def publishing(database: Database, query: str, /, **options: Any) -> Files:
    sink = {"type": "sink", "catalog": "shop", "table": "orders", "upstream": ["made"], "adopt": True}
    declared = profiles(database)
    declared["default"]["engines"][0]["config"]["spark.sql.execution.arrow.maxRecordsPerBatch"] = 500
    return {
        "profiles.yaml": declared,
        "sources/plain.yaml": source("plain", options=options),
        "sources/slow.yaml": source("slow"),
        "joints/made.sql": query,
        "sinks/orders.yaml": sink,
    }


def refused(folder: Any) -> tuple[str | None, str, str]:
    with pytest.raises(RivetError) as caught:
        folder.run("orders")
    return caught.value.code, str(caught.value), caught.value.diagnostics[0].remediation or ""


@pytest.mark.nightly
def test_a_publication_that_takes_too_long_names_the_setting(project, database):
    execute(database, "CREATE TRIGGER waits BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION wait()")
    limited(database, statement_timeout="2s")
    code, text, remedy = refused(project(publishing(database, FEW)))
    assert (code, "`statement_timeout` of the database, or of its user, has ended it" in text) == ("RVT-528", True)
    assert "ALTER ROLE" in remedy
    assert rows(database, "SELECT count(*) FROM orders") == [(0,)]
    limited(database, statement_timeout="20s")
    assert project(publishing(database, FEW)).run("orders").rows.total == 3


@pytest.mark.nightly
def test_a_read_that_takes_too_long_names_the_setting(project, database):
    limited(database, statement_timeout="2s")
    code, text, remedy = refused(project(publishing(database, "SELECT id, n FROM slow")))
    assert (code, "`statement_timeout`" in text, "ALTER ROLE" in remedy) == ("RVT-528", True, True)


@pytest.mark.nightly
def test_a_lock_that_takes_too_long_names_the_setting(project, database):
    """Of a read; that of a publication is the catalog's own."""
    limited(database, lock_timeout="1s")
    with psycopg.connect(database.dsn) as holder:
        holder.execute("LOCK TABLE plain")
        code, text, _ = refused(project(publishing(database, "SELECT id, n FROM plain")))
    assert (code, "`lock_timeout`" in text) == ("RVT-528", True)


@pytest.mark.nightly
def test_sessions_that_wait_for_spark_have_no_limit(project, database):
    """The snapshot, transactions that read a few rows at a time, and the COPY of rows that Spark computes."""
    limits = {"statement_timeout": "2s", "idle_in_transaction_session_timeout": "1s", "transaction_timeout": "2s"}
    known = {name for (name,) in rows(database, "SELECT name FROM pg_settings")}  # the last one since PostgreSQL 17
    limited(database, **{name: value for name, value in limits.items() if name in known})
    waiting = "java_method('java.lang.Thread', 'sleep', CAST(IF(id % 1000 = 0, 1500, 0) AS BIGINT))"
    query = f"SELECT id, n + coalesce(length({waiting}), 0) * 0 AS n FROM plain"
    assert project(publishing(database, query, fetch_size=500)).run("orders").rows.total == 3_000
