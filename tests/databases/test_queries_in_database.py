"""The engine ``postgres``: joints whose rows never leave the database in which they are published."""

from __future__ import annotations

import copy
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from support.databases import execute, rows, source
from support.databases import profiles as of_spark
from support.folders import Files, ProjectFolder
from support.postgres import Database, postgres_server

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.engines.postgres import PostgresEngine
from rivet_dagster.engines.postgres.session import PostgresSession
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.analysis import analyze_plan
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.execution.showing import shown_rows
from rivet_dagster.model.finding import FAIL
from rivet_dagster.model.partitions import Window, parse_partitions
from rivet_dagster.model.profile import CatalogSpec, EngineSpec

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


def connection_of(database: Database) -> dict[str, str]:
    return {"url": database.jdbc, "user": database.user, "password": database.password}


def profile(database: Database, /, engine: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    """Return profiles with one engine, in the database, and no other catalog."""
    shop = {"type": "jdbc", **connection_of(database), **options}
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


def test_a_gate_that_fails_publishes_nothing(folder, database):
    """The database counts in one pass; what was published before stays."""
    checks = [
        {"type": "not_null", "columns": ["customer"]},
        {"type": "expression", "sql": "n > 0 AND price >= 1"},
        {"type": "row_count", "min": 1},
        {"type": "unique", "columns": ["customer"]},
        {"type": "accepted_values", "column": "a", "values": ["1"]},
    ]
    project = folder(chain(database, quality={"assertions": checks}))
    assert not project.run("by_customer").gate_failed
    execute(database, "UPDATE orders SET more = '{\"a\": 2}' WHERE customer = 3", "UPDATE orders SET amount = 0")
    execute(database, "SELECT pg_stat_statements_reset()")
    result = project.run("by_customer")
    assert result.gate_failed
    found = {each.check.kind: each.violations for each in result.checks}
    assert found == {"not_null": 0, "expression": 7, "row_count": 0, "unique": 0, "accepted_values": 1}
    (shown,) = [each.samples for each in result.checks if each.check.kind == "accepted_values"]
    assert [row["customer"] for row in shown] == [3]
    assert rows(database, "SELECT sum(n), min(price) > 0 FROM by_customer") == [(800, True)]
    assert staged(database) == []
    counted = "SELECT calls FROM pg_stat_statements WHERE query ~ '^SELECT COUNT\\(CASE' AND query ~ 'DISTINCT'"
    assert rows(database, counted) == [(1,)]


def staged(database: Database) -> list[str]:
    """Return the tables of staged rows."""
    return [name for (name,) in rows(database, r"SELECT relname FROM pg_class WHERE relname ~ '^rivet_[0-9a-f]{12}'")]


def test_inputs_are_read_at_one_snapshot_that_is_recorded(folder, database, monkeypatch):
    """What is committed after it is not read, though the statement begins later."""
    project = folder(chain(database))
    write = PostgresSession.write

    def late(self, frame, *arguments, **options):
        execute(database, "DELETE FROM orders")
        write(self, frame, *arguments, **options)

    monkeypatch.setattr(PostgresSession, "write", late)
    result = project.run("by_customer")
    assert rows(database, "SELECT sum(n) FROM by_customer") == [(800,)]
    published = project.runtime.target_catalog("shop").current("by_customer")
    assert result.published.version == published.version
    (position,) = published.inputs.values()
    assert (position.table, position.snapshot.count(":")) == ("public.orders", 2)


def test_joints_that_are_stored_are_read_in_place(folder, database):
    """In the catalog that is the workspace, by readers of the same database."""
    files = chain(database)
    late = "SELECT customer, amount, more->>'a' AS a FROM orders WHERE day >= '2024-01-03'::date"
    files["joints/late.sql"] = f"-- rivet:eager: true\n{late}"
    files["joints/priced.sql"] = "SELECT customer, amount * 2 AS price, a FROM late"
    project = folder(files)
    assert [(edge.engines, edge.method) for edge in project.assembly.engine_boundaries] == [
        (("pg", "pg"), "native_reference"),
    ]
    project.run_all()
    published = rows(database, "SELECT customer, price, n, a FROM by_customer ORDER BY customer")
    assert published == rows(database, BY_HAND)


def test_a_window_of_partitions(folder, database):
    partitions = {"type": "daily", "column": "day", "start": "2024-01-01"}
    files = chain(database)
    days = "SELECT day, count(*) AS n FROM orders WHERE day < $partition_end::date GROUP BY day"
    sink = {"type": "sink", "catalog": "shop", "table": "days", "upstream": ["days"], "partitions": partitions}
    project = folder({
        "profiles.yaml": files["profiles.yaml"],
        "sources/orders.yaml": source("orders", partitions=partitions),
        "joints/days.sql": f"-- rivet:partitions: {json.dumps(partitions)}\n{days}",
        "sinks/by_day.yaml": sink,
    })  # fmt: skip
    declared = parse_partitions(partitions)
    bounds = (datetime(2024, 1, 3, tzinfo=UTC), datetime(2024, 1, 4, tzinfo=UTC), datetime(2024, 1, 5, tzinfo=UTC))
    for _ in range(2):
        result = project.run("by_day", window=Window(declared, ("2024-01-03", "2024-01-04"), bounds))
        assert (result.rows.total, result.partition_rows) == (2, {"2024-01-03": 1, "2024-01-04": 1})
    assert rows(database, "SELECT day::text, n FROM days ORDER BY 1") == [("2024-01-03", 100), ("2024-01-04", 100)]


@pytest.mark.parametrize(
    ("query", "code", "words", "line"),
    [
        ("SELECT id,\n  nowhere FROM orders", "RVT-503", 'column "nowhere" does not exist', 2),
        ("SELECT id FROM orders\nWHERE FROM", "RVT-315", "", 2),
        ("SELECT s AS total FROM orders", "RVT-422", "the column 'total' is of the type numeric, which", None),
        ("SELECT id, id FROM orders", "RVT-316", "several columns are called id", None),
        ("SELECT 1 / (id - id) AS n FROM orders", "RVT-503", "division by zero", None),
        ("WITH d AS (DELETE FROM orders RETURNING id) SELECT id FROM d", "RVT-503", "top level", None),
    ],
)
def test_mistakes_in_a_query_are_at_their_line(folder, database, query, code, words, line):
    files = {**chain(database), "joints/late.sql": query}
    sink = {"type": "sink", "catalog": "shop", "table": "late", "upstream": ["late"]}
    files = {name: content for name, content in files.items() if "priced" not in name and "summed" not in name}
    project = folder({**files, "sinks/by_customer.yaml": sink})
    with pytest.raises(RivetError) as caught:
        project.run("by_customer")
    error = caught.value.diagnostics[0]
    assert (error.code, words in error.message) == (code, True), error
    if line is not None:
        assert (error.file, error.line) == ("joints/late.sql", line)
    assert rows(database, "SELECT count(*) FROM orders") == [(1000,)]
    assert staged(database) == []


@pytest.mark.parametrize(
    ("option", "code", "words"),
    [
        ({"password": "wrong"}, "RVT-403", "access is refused"),
        ({"url": "jdbc:postgresql://127.0.0.1:{port}/nowhere"}, "RVT-403", 'database "nowhere" does not exist'),
        ({"url": "jdbc:postgresql://127.0.0.1:1/shop"}, "RVT-403", "cannot be reached"),
    ],
)
def test_a_database_that_does_not_answer_is_named(tmp_path, database, option, code, words):
    given = {key: str(value).replace("{port}", str(database.port)) for key, value in option.items()}
    catalog = JdbcCatalog(CatalogSpec("shop", "jdbc", connection_of(database) | given), tmp_path)
    engine = PostgresEngine(EngineSpec("pg", "postgres", ("shop",)), needs=[catalog.session_needs("postgres")])
    (finding,) = engine.examine()
    assert finding.status == FAIL
    assert (code in str(finding), words in str(finding)) == (True, True), finding


def test_a_setting_that_the_database_refuses(folder, database):
    project = folder(chain(database, {"config": {"work_mem": "much"}}))
    with pytest.raises(RivetError, match=r"RVT-502.*work_mem"):
        project.run("by_customer")
    project.write({"profiles.yaml": profile(database, {"config": {"work_mem": "64MB"}})})
    assert project.run("by_customer").rows.total == 7


SLOW = "SELECT count(*) AS n FROM orders, generate_series(1, 1000000) AS a"


def is_running(database: Database) -> bool:
    active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^INSERT INTO .*rivet_'"
    return rows(database, active) == [(1,)]


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> float:
    """Return the seconds after which a condition became true."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds
        time.sleep(0.05)
    return time.monotonic() - started


def slow(database: Database) -> Files:
    files = chain(database)
    sink = {"type": "sink", "catalog": "shop", "table": "slow", "upstream": ["slow"]}
    kept = ("profiles.yaml", "sources/orders.yaml")
    return {**{name: files[name] for name in kept}, "joints/slow.sql": SLOW, "sinks/counted.yaml": sink}


def test_an_interrupt_cancels_the_statement(folder, database):
    class Interrupted(Exception):
        pass

    def check_interrupt() -> None:
        if is_running(database):
            raise Interrupted

    project = folder(slow(database))
    runtime = Runtime(project.assembly, project.root, check_interrupt=check_interrupt)
    with pytest.raises(Interrupted):
        run_group(runtime, "counted", runtime.assembly.group("counted").joints, "run/counted")
    wait_until(lambda: not is_running(database), 10)
    assert staged(database) == []


@pytest.mark.nightly
def test_a_run_that_is_killed_publishes_nothing(folder, database, monkeypatch):
    """The server soon stops what nobody waits for, and the next run removes what was staged."""
    project = folder(slow(database))
    script = "import sys; from rivet_dagster.cli.main import main; sys.exit(main(['run', 'counted']))"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=project.root, stdout=subprocess.PIPE, stderr=-2)
    wait_until(lambda: is_running(database) or process.poll() is not None)
    assert process.poll() is None, process.communicate()[0]
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    wait_until(lambda: not is_running(database), 30)
    assert rows(database, "SELECT to_regclass('slow')::text") == [(None,)]
    assert len(staged(database)) == 1
    execute(database, "UPDATE rivet_heartbeats SET sent = sent - interval '10 minutes'")
    project.write({"joints/slow.sql": "SELECT count(*) AS n FROM orders"})
    project.run("counted")
    assert rows(database, "SELECT n FROM slow") == [(1000,)]
    assert staged(database) == []


@pytest.mark.nightly
def test_spark_gives_the_same_aggregate(project, database):
    """A plain one, by sums and counts, of the same tables."""
    query = "SELECT customer, CAST(sum(amount) AS decimal(20,2)) AS price, count(*) AS n, max(day) AS day\n"
    query += "FROM orders WHERE day >= DATE '2024-01-03' GROUP BY customer"
    sinks = {
        f"sinks/{name}.yaml": {"type": "sink", "catalog": "shop", "table": name, "upstream": [f"made_{name}"]}
        for name in ("here", "there")
    }
    profiles = copy.deepcopy(of_spark(database))
    profiles["default"]["engines"].append({"name": "pg", "type": "postgres", "catalogs": ["shop"]})
    profiles["default"]["default_engine"] = "spark"
    made = project({
        "profiles.yaml": profiles,
        "sources/orders.yaml": source("orders", columns=["customer", "amount", "day"]),
        "joints/made_here.sql": f"-- rivet:engine: pg\n-- rivet:dialect: postgres\n{query}",
        "joints/made_there.sql": query,
        "sinks/here.yaml": {**sinks["sinks/here.yaml"], "engine": "pg"},
        "sinks/there.yaml": sinks["sinks/there.yaml"],
    })  # fmt: skip
    made.run_all()
    read = "SELECT customer, price, n, day FROM {} ORDER BY customer"
    assert rows(database, read.format("here")) == rows(database, read.format("there"))
    columns = "SELECT array_agg(attname || format_type(atttypid, atttypmod)) FROM pg_attribute WHERE attnum > 0 AND "
    types = [rows(database, f"{columns}attrelid = '{name}'::regclass") for name in ("here", "there")]
    assert types[0] == types[1]


def test_another_engine_gets_the_rows_as_arrow(folder, database, tmp_path):
    """Values of all types that tables have, in batches."""
    files = chain(database)
    profiles = files["profiles.yaml"]
    profiles["default"]["catalogs"]["lake"] = {"type": "filesystem", "path": "lake"}
    profiles["default"]["engines"].append({"name": "duck", "type": "duckdb", "catalogs": ["lake"]})
    profiles["default"] |= {"default_engine": "pg"}
    values = "id, amount, day, day + interval '1 hour' AS at, day::timestamptz AS moment, ARRAY[id, 2] AS ids"
    more = "key, more, id::text::bytea AS b, id > 5 AS large"
    project = folder({
        "profiles.yaml": profiles,
        "sources/orders.yaml": source("orders"),
        "joints/made.sql": f"-- rivet:catalog: shop\nSELECT {values}, {more} FROM orders",
        "joints/copied.sql": "-- rivet:engine: duck\n-- rivet:catalog: lake\nSELECT * FROM made",
    })  # fmt: skip
    edges = {edge.joint: edge.method for edge in project.assembly.engine_boundaries}
    assert edges == {"made": "arrow_passthrough"}
    project.run_all()
    found = project.table("copied").sort_by("id").to_pylist()
    names = "id, amount, day, at, moment, ids, key::text, more::text, b, large"
    expected = rows(database, f"SELECT {names} FROM made ORDER BY id")
    assert [tuple(row.values()) for row in found] == expected


def test_the_plan_is_analyzed_by_the_database(folder, database):
    """With types that Spark has not, of tables and of inner joints; no row is read."""
    project = folder({**chain(database), "joints/late.sql": "SELECT *, s * 2 AS t FROM orders"})
    plan = analyze_plan(project.assembly, project.runtime)
    assert plan.errors == ()
    columns = [(field.name, str(field.type)) for field in plan.joint("summed").schema or ()]
    assert columns == [("customer", "int"), ("price", "decimal(20,2)"), ("n", "bigint"), ("a", "string")]
    assert {field.name: str(field.type) for field in plan.joint("late").schema or ()}["t"] == "numeric"
    broken = "SELECT customer, amount * 2 AS price, more->>'a' AS a,\n  nowhere FROM late"
    project.write({"joints/priced.sql": broken})
    (error,) = analyze_plan(project.assembly, project.runtime).errors
    assert (error.code, error.file, error.line) == ("RVT-503", "joints/priced.sql", 2)
    assert 'column "nowhere" does not exist' in error.message


def test_rows_of_a_joint_are_shown(folder, database):
    project = folder(chain(database))
    shown = shown_rows(project.runtime, "summed", 3)
    assert [name for name, _ in shown.columns] == ["customer", "price", "n", "a"]
    assert len(shown.rows) == 3
    late = shown_rows(project.runtime, "priced", 2, "price > 5")
    assert [row["price"] > 5 for row in late.rows] == [True, True]


CONDITIONS = (
    "name >= 'a'",
    "name < 'B' OR name IS NULL",
    "name BETWEEN 'A' AND 'b'",
    "name IN ('a', 'é', 'a ')",
    "name <> '' AND NOT (name = 'a')",
    "n > 1.5",
    "n <=> NULL",
    "n NOT IN (1, -3)",
    "m - n <= 0 AND n + 1 > 0",
    "big > n",
    "m >= n",
    "m = 1.10",
    "-m < 0.5",
    "d > 0",
    "d = 0.1",
    "f = 0.1",
    "f >= d",
    "d <> d",
    "day > DATE '2024-02-28'",
    "day BETWEEN DATE '1900-01-01' AND DATE '2024-02-29'",
    "b",
    "NOT b OR n IS NOT NULL",
    "b = true",
    "CASE WHEN n > 0 THEN m > 1 ELSE b END",
    "coalesce(n, 0) = 0",
    "greatest(n, 2) = 2",
)
VALUES = """
CREATE TABLE checked AS SELECT name COLLATE "und-x-icu" AS name, n, big, m::numeric(10,2) AS m, d, f, day, b FROM
    unnest(ARRAY['a', 'B', 'é', '', 'a ', 'Z', 'b', NULL]) AS name,
    unnest(ARRAY[1, -3, 2147483646, 0, NULL]) WITH ORDINALITY AS ns(n, place),
    unnest(ARRAY[1.10, -99999999.99, NULL]::numeric(10,2)[]) WITH ORDINALITY AS ms(m, of_m),
    LATERAL (SELECT (ARRAY[9223372036854775807, -1, NULL]::bigint[])[of_m], (ARRAY[0.1, 'NaN', '-Infinity', 0, NULL]
        ::float8[])[place], (ARRAY[0.1, 'NaN', 1, NULL, 0]::float4[])[place], (ARRAY['2024-02-29', '0001-01-01',
        '2024-02-28', NULL, '9999-12-31']::date[])[place], (ARRAY[true, false, NULL])[of_m]) AS o(big, d, f, day, b)
"""


@pytest.mark.nightly
def test_conditions_of_checks_count_what_spark_counts(application, database, tmp_path):
    """On values of each type at their bounds, and texts whose collation orders them otherwise than their bytes."""
    execute(database, VALUES)
    catalog = JdbcCatalog(CatalogSpec("shop", "jdbc", connection_of(database)), tmp_path)
    engine = PostgresEngine(EngineSpec("pg", "postgres", ("shop",)), needs=[catalog.session_needs("postgres")])
    relation, counts = catalog.relation("checked", {}), []
    for session in (engine.session(), application.session()):
        with session:
            session.register("checked", session.load(relation))
            items = ", ".join(f"COUNT_IF(NOT (\n{text}\n)) AS c{place}" for place, text in enumerate(CONDITIONS))
            extremes = "MAX(name) AS greatest, MIN(name) AS least, MAX(day) AS last"
            counts.append(session.rows(f"SELECT {items}, {extremes} FROM `checked`")[0])
    assert len(counts[0]) == len(CONDITIONS) + 3
    assert counts[0] == counts[1]
    assert len(set(counts[0].values())) > 10
