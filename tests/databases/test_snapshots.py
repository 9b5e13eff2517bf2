"""All tables of a database that a group reads are read at one snapshot, by any number of connections."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from support.databases import execute, reading, rows, source
from support.postgres import Database
from support.torture import examples

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.catalogs.jdbc.postgres import reading as postgres_reading
from rivet_dagster.errors import RivetError
from rivet_dagster.execution import this_run
from rivet_dagster.model.partitions import Window
from rivet_dagster.model.profile import CatalogSpec

ROWS = 20_000
TOTAL = 2 * 100 * ROWS
SHARED = {"partition_by": "id", "partitions": 8}
BOTH = "SELECT sum(value) AS total FROM (SELECT value FROM one UNION ALL SELECT value FROM other)"


@pytest.fixture(scope="module")
def database(postgres) -> Database:
    """Return a database with two tables of values whose sum every transaction leaves as it was."""
    found = postgres.database()
    for table in ("one", "other"):
        execute(
            found,
            f"CREATE TABLE {table} (id bigint PRIMARY KEY, value bigint NOT NULL)",
            f"INSERT INTO {table} SELECT n, 100 FROM generate_series(1, {ROWS}) n",
        )
    execute(found, "ANALYZE one")  # and of the other table nothing is known
    return found


@contextmanager
def moved_values(database: Database) -> Iterator[list[int]]:
    """Move values from one table to the other as long as the block lasts; yield the number of transactions."""
    stop, done = threading.Event(), [0]

    def move() -> None:
        with psycopg.connect(database.dsn) as connection:
            while not stop.is_set():
                moved = connection.execute(
                    f"UPDATE one SET value = value - 1 WHERE id IN (SELECT 1 + (random() * {ROWS - 1})::bigint "
                    "FROM generate_series(1, 300))"
                ).rowcount
                connection.execute("UPDATE other SET value = value + %s WHERE id = 1", (moved,))
                connection.commit()
                done[0] += 1

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def held_in(database: Database) -> list[str]:
    """Return the states of this project's connections to the database."""
    query = (
        "SELECT state FROM pg_stat_activity WHERE application_name = 'rivet_dagster reader' AND pid <> pg_backend_pid()"
    )
    return [state for (state,) in rows(database, query)]


def test_two_tables_that_change_are_read_at_one_moment(database, project, monkeypatch):
    sources = {name: source(name, options=SHARED) for name in ("one", "other")}
    folder = project(reading(database, BOTH, sources, connections=17))
    with moved_values(database) as moved:
        for _ in range(examples(1, 20)):
            before = moved[0]
            result = folder.run("read")
            assert folder.rows("read") == [{"total": TOTAL}]
            assert moved[0] > before + 1
    positions = {str(position) for position in result.published.inputs.values()}
    assert len(positions) == 1  # one snapshot for both
    assert positions.pop().startswith("snapshot ")
    assert held_in(database) == []

    # Without snapshots the sum is wrong, or the test shows nothing.
    monkeypatch.setattr(postgres_reading, "_AT_SNAPSHOT", "")
    with moved_values(database):
        totals = set()
        for _ in range(10):
            folder.run("read")
            totals |= {row["total"] for row in folder.rows("read")}
            if totals != {TOTAL}:
                break
    assert totals != {TOTAL}


def test_a_gated_source_is_judged_at_the_snapshot_that_is_published(database, project):
    gate = {
        "quality": {
            "assertions": [
                {"type": "custom", "sql": f"SELECT * FROM (SELECT sum(value) AS s FROM pair) WHERE s <> {TOTAL}"}
            ]
        }
    }
    execute(database, "CREATE OR REPLACE VIEW pair AS SELECT * FROM one UNION ALL SELECT * FROM other")
    folder = project(reading(database, "SELECT sum(value) AS total FROM pair", {"pair": source("pair", **gate)}))
    with moved_values(database):
        folder.run("read", unjudged_sources=["pair"])
    assert folder.rows("read") == [{"total": TOTAL}]


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"partition_by": "id", "partitions": 4}, 4),
        ({"partition_by": "name", "partitions": 4}, 4),
        ({"partition_by": "day", "partitions": 4}, 4),
        ({"partition_by": "at", "partitions": 3}, 3),
        ({"partition_by": "amount", "partitions": 4}, 4),
        ({"partitions": 5}, 5),
        ({"partition_by": "same", "partitions": 4}, 1),
        ({"partition_by": "nothing", "partitions": 4}, 1),
        ({"partitions": 200}, 7),
    ],
)
@pytest.mark.parametrize("analyzed", [True, False])
def test_each_row_is_read_once_however_they_are_shared_out(database, project, options, parts, analyzed):
    table = f"shared_{'analyzed' if analyzed else 'plain'}"
    if not rows(database, f"SELECT to_regclass('{table}') IS NOT NULL")[0][0]:
        execute(
            database,
            f"CREATE TABLE {table} (id int, name text, day date, at timestamptz, amount numeric(10, 2), same int, "
            "nothing int)",
            f"INSERT INTO {table} SELECT nullif(n, 7), 'n' || n % 1000, "
            "nullif(DATE '2024-01-01' + n % 400, '2024-01-02'), timestamptz '2024-01-01' + n * interval '1 minute', "
            "n / 7.0, 1, NULL FROM generate_series(1, 5000) n",
            *([f"ANALYZE {table}"] if analyzed else []),
        )
    catalog = JdbcCatalog(
        CatalogSpec("shop", "jdbc", {"url": database.jdbc, "user": database.user, "password": database.password}),
        Path(),
    )
    snapshot = catalog.snapshot(1)
    relation = snapshot.relation(table, options)
    snapshot.close()
    without_stats = not analyzed and options.get("partition_by") == "name"
    assert max(1, len(relation.conditions)) == (parts if not without_stats else 4)
    counts = [rows(database, f"SELECT count(*) FROM {relation.table} WHERE {c}")[0][0] for c in relation.conditions]
    assert not counts or sum(counts) == 5000
    assert not counts or min(counts) > 5000 / len(counts) / 4
    query = "SELECT count(*) AS n, count(DISTINCT at) AS different, sum(id) AS ids FROM shared"
    folder = project(reading(database, query, {"shared": source(table, options=options)}))
    folder.run("read")
    assert folder.rows("read") == [{"n": 5000, "different": 5000, "ids": 5000 * 5001 // 2 - 7}]


def test_a_partitioned_table_is_shared_out_by_the_blocks_of_its_partitions(database, project):
    execute(
        database,
        "CREATE TABLE by_month (id int, month int) PARTITION BY LIST (month)",
        *(f"CREATE TABLE by_month_{n} PARTITION OF by_month FOR VALUES IN ({n})" for n in range(3)),
        "INSERT INTO by_month SELECT n, n % 3 FROM generate_series(1, 9000) n",
    )
    folder = project(
        reading(
            database,
            "SELECT count(DISTINCT id) AS ids, count(*) AS n FROM by_month",
            {"by_month": source("by_month", options={"partitions": 4})},
        )
    )
    folder.run("read")
    assert folder.rows("read") == [{"ids": 9000, "n": 9000}]


def test_columns_conditions_and_a_limit_are_left_to_the_database(database, project):
    given = source("one", columns=["value"], filter="id <= 50")
    folder = project(reading(database, "SELECT * FROM one", {"one": given}))
    plan = folder.run("read").plans["read"].text
    assert "PushedFilters: [*IsNotNull(id), *LessThanOrEqual(id,50)]" in plan.replace("`", "")
    assert "ReadSchema: struct<value:bigint>" in plan
    assert len(folder.rows("read")) == 50

    limited = source("one", columns=["id"], limit=3, options=SHARED)
    folder.write(reading(database, "SELECT * FROM one", {"one": limited}))
    result = folder.run("read")
    assert "LIMIT 3) rivet_first_rows" in result.plans["read"].text
    assert len(folder.rows("read")) == 3
    assert database.password not in json.dumps([plan.text for plan in result.plans.values()])


def test_a_snapshot_whose_connection_ends_fails_the_group_and_says_why(database, project, monkeypatch):
    folder = project(reading(database, BOTH, {name: source(name, options=SHARED) for name in ("one", "other")}))
    relation = this_run.Snapshots._ref

    def ended(self, given):
        ref = relation(self, given)
        if given.name == "other":
            self._snapshot("shop")
            execute(
                database,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'rivet_dagster reader' AND state LIKE 'idle in%'",
            )
        return ref

    monkeypatch.setattr(this_run.Snapshots, "_ref", ended)
    with pytest.raises(RivetError) as caught:
        folder.run("read")
    assert caught.value.code == "RVT-510"
    assert "has ended: terminating connection due to administrator command" in str(caught.value)
    assert folder.versions("read") == []


def test_a_connection_that_ends_while_it_reads_fails_the_group(database, project):
    """Nothing is published, and a retry may succeed."""
    execute(database, "CREATE OR REPLACE VIEW slow AS SELECT id, pg_sleep(0.001)::text AS slept FROM one")
    folder = project(reading(database, "SELECT count(slept) AS n FROM slow", {"slow": source("slow", filter="id > 0")}))

    def end() -> None:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%slept%' AND state = 'active'"
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            deadline = time.monotonic() + 30
            while not connection.execute(f"{query} AND pid <> pg_backend_pid()").fetchall():
                assert time.monotonic() < deadline

    thread = threading.Thread(target=end)
    thread.start()
    with pytest.raises(RivetError) as caught:
        folder.run("read")
    thread.join()
    assert caught.value.code == "RVT-510"
    assert "terminating connection due to administrator command" in str(caught.value)
    assert folder.versions("read") == []
    assert held_in(database) == []


def test_good_rows_and_errors_are_those_of_one_moment(database, project):
    """They are read in several passes, while values become bad and good again."""
    execute(
        database,
        "CREATE TABLE prices (id int PRIMARY KEY, price text)",
        "INSERT INTO prices SELECT n, CASE n % 10 WHEN 0 THEN 'none' ELSE n::text END FROM generate_series(1, 5000) n",
    )
    query = "-- rivet:on_error: quarantine\nSELECT id, price FROM prices"
    given = source("prices", columns=["id", {"price": "CAST(price AS INT)"}], options=SHARED)
    folder = project(reading(database, query, {"prices": given}))
    stop = threading.Event()

    def change() -> None:
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute(
                    "UPDATE prices SET price = CASE price WHEN 'none' THEN '7' ELSE 'none' END WHERE id % 3 = 0"
                )

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(examples(1, 5)):
            result = folder.run("read")
            assert len(folder.rows("read")) + result.errors.count == 5000
            assert len(folder.table("read__errors")) == result.errors.count > 0
    finally:
        stop.set()
        thread.join()


def test_the_window_of_a_partition_is_left_to_the_database(database, project):
    execute(
        database,
        "CREATE TABLE daily (id int, day date)",
        "INSERT INTO daily SELECT n, DATE '2024-01-01' + n % 10 FROM generate_series(1, 100) n",
    )
    partitions = {"type": "daily", "column": "day", "start": "2024-01-01"}
    given = source("daily", partitions=partitions)
    strategy = (
        "-- rivet:partitions: {type: daily, column: day, start: 2024-01-01}\n"
        "-- rivet:write_strategy: {mode: snapshot, partition_column: day}\n"
    )
    folder = project(reading(database, f"{strategy}SELECT * FROM daily", {"daily": given}))
    joint = folder.assembly.joint("read")
    days = (datetime(2024, 1, 3, tzinfo=UTC), datetime(2024, 1, 4, tzinfo=UTC))
    window = Window(joint.partitions, ("2024-01-03",), days)
    result = folder.run("read", window=window)
    assert "GreaterThanOrEqual(day," in result.plans["read"].text
    assert len(folder.rows("read")) == 10
