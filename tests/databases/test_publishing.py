"""Tables that a project publishes in a database: what readers see, and what the database keeps."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import dagster as dg
import pytest
from support.databases import execute, profiles, rows
from support.folders import MANIFEST, Files, ProjectFolder
from support.postgres import Database

from rivet_dagster import load_definitions
from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.catalogs.jdbc import database as connections
from rivet_dagster.catalogs.jdbc.postgres.connection import PostgresDatabase
from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.environments import use_environment
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.partitions import Partitions, Window

ROWS = "SELECT id, id * 2 AS n FROM range({})"


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


def test_a_run_opens_one_connection_beside_those_of_tasks(project, database, monkeypatch):
    """Unless the server has closed it meanwhile."""
    folder = project(publishing(database, ROWS.format(10)))
    opened: list[str] = []
    open_one = PostgresDatabase.open

    def counted(self, application: str) -> Any:
        opened.append(application)
        return open_one(self, application)

    monkeypatch.setattr(PostgresDatabase, "open", counted)
    monkeypatch.setattr(connections, "IDLE_SECONDS", 60.0)
    runtime = folder.runtime
    for attempt in ("first", "second"):
        run_group(runtime, "orders", runtime.assembly.group("orders").joints, f"{attempt}/orders")
    assert opened == ["rivet_dagster writer"]
    ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^rivet_dagster'"
    execute(database, ended)
    run_group(runtime, "orders", runtime.assembly.group("orders").joints, "third/orders")
    assert opened == ["rivet_dagster writer"] * 2
    assert rows(database, "SELECT count(*) FROM orders") == [(10,)]


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


TYPES = """
SELECT * FROM VALUES
  (1, true, 1S, CAST(1.5 AS FLOAT), CAST('NaN' AS DOUBLE), CAST(12.30 AS DECIMAL(10, 2)),
   'a\\tb\\n\\\\.\\n"c\\\\', X'00FF5C',
   DATE '0001-01-01', TIMESTAMP '2026-03-29 01:30:00.123456Z', TIMESTAMP_NTZ '2026-03-29 02:30:00.000001',
   array(1, NULL, -3), array('x,y', '{"', NULL, ''),
   'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '{"b": 1, "a": [2]}', 'paid'),
  (2, NULL, NULL, NULL, NULL, NULL, '', X'', NULL, NULL, NULL, array(), NULL, NULL, NULL, NULL),
  (3, false, -32768S, CAST('-Infinity' AS FLOAT), -0.0D, CAST(-99999999.99 AS DECIMAL(10, 2)), 'ß€𝄞', NULL,
   DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59.999999Z', TIMESTAMP_NTZ '0001-01-01 00:00:00', NULL, array(),
   'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A12', '[]', 'new')
AS t(id, truth, small, single, `double`, `order`, text, bytes, day, at, local, numbers, texts, uid, json, state)
"""


def test_values_of_every_type_arrive_as_they_are(project, database):
    """In a table that the run makes, in one with types that Spark has not, and read back by Spark."""
    publish = publishing(database, TYPES)
    project(publish).run("orders")
    execute(
        database,
        "CREATE TYPE state AS ENUM ('new', 'paid')",
        "CREATE TABLE typed AS SELECT * FROM orders",
        *(
            f"ALTER TABLE typed ALTER COLUMN {column} TYPE {type_} USING {column}::{type_}"
            for column, type_ in (("uid", "uuid"), ("json", "jsonb"), ("state", "state"), ("text", "varchar(40)"))
        ),
        "CREATE TABLE expected AS SELECT * FROM typed",
        "DELETE FROM typed",
    )
    project(publishing(database, TYPES, table="typed", adopt=True)).run("orders")
    same = "SELECT count(*) FROM {} AS a FULL JOIN {} AS b ON a.id = b.id WHERE a IS DISTINCT FROM b"
    assert rows(database, same.format("typed", "expected")) == [(0,)]
    assert rows(database, "SELECT text, bytes, texts, numbers FROM orders WHERE id = 1") == [
        ('a\tb\n\\.\n"c\\', b"\x00\xff\\", ["x,y", '{"', None, ""], [1, None, -3])
    ]
    assert rows(database, 'SELECT at, local, "order", single, day FROM typed WHERE id = 3') == [
        (
            datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
            datetime(1, 1, 1),
            Decimal("-99999999.99"),
            -math.inf,
            date(9999, 12, 31),
        )
    ]
    declared = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'orders'"
    assert dict(rows(database, declared)) == {
        "id": "integer",
        "truth": "boolean",
        "small": "smallint",
        "single": "real",
        "double": "double precision",
        "order": "numeric",
        "text": "text",
        "bytes": "bytea",
        "day": "date",
        "at": "timestamp with time zone",
        "local": "timestamp without time zone",
        "numbers": "ARRAY",
        "texts": "ARRAY",
        "uid": "text",
        "json": "text",
        "state": "text",
    }


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("SELECT 1 AS id, 'x' AS uid", "RVT-527", "column 'uid'"),
        ("SELECT 1 AS id, decode(X'00', 'UTF-8') AS uid", "RVT-527", "0x00"),
        ("SELECT 1 AS id, map('a', 1) AS uid", "RVT-514", "uid is string in the table"),
        ("SELECT 1 AS id, CAST(NULL AS STRING) AS uid UNION ALL SELECT 1, NULL", "RVT-527", "unique constraint"),
        ("SELECT CAST(NULL AS INT) AS id, CAST(NULL AS STRING) AS uid", "RVT-527", "null value in column"),
    ],
)
def test_what_the_database_refuses(project, database, query, code, text):
    """The table stays as it was."""
    execute(database, "CREATE TABLE orders (id int PRIMARY KEY, uid uuid)", "INSERT INTO orders VALUES (7, NULL)")
    strategy = "append"
    with pytest.raises(RivetError, match=text) as caught:
        project(publishing(database, query, adopt=True, write_strategy=strategy)).run("orders")
    assert caught.value.code == code
    assert rows(database, "SELECT id FROM orders") == [(7,)]
    assert leftovers(database) == []


def test_types_that_the_database_has_not(project, database):
    folder = project(publishing(database, "SELECT 1 AS id, named_struct('a', 1) AS place"))
    with pytest.raises(RivetError, match="the column 'place' is of the type struct<a:int>") as caught:
        folder.run("orders")
    assert caught.value.code == "RVT-422"
    execute(database, "CREATE TABLE wide (id int, amount numeric)")
    folder = project(publishing(database, "SELECT 1 AS id, 1.5 AS amount", table="wide", adopt=True))
    with pytest.raises(RivetError, match="numeric without precision"):
        folder.run("orders")


@pytest.mark.parametrize("micros", [9 * 10**18, -7 * 10**16], ids=["year 287168", "year 249 BC"])
def test_moments_that_cannot_be_copied_are_refused(project, database, micros):
    folder = project(publishing(database, f"SELECT 1 AS id, timestamp_micros({micros}) AS at"))
    with pytest.raises(RivetError, match="the column 'at'") as caught:
        folder.run("orders")
    assert caught.value.code == "RVT-527"


def test_row_errors_are_published_with_the_rows(project, database):
    """In one transaction; a run without errors leaves an empty error table."""
    query = "SELECT id, CAST(text AS INT) AS n FROM VALUES (1, '1'), (2, '{}') AS t(id, text)"
    files = publishing(database, query.format("x"), on_error="quarantine")
    folder = project(files)
    folder.run("orders")
    assert rows(database, "SELECT id, n FROM orders") == [(1, 1)]
    assert rows(database, "SELECT joint, code FROM orders__errors") == [("made", "CAST_INVALID_INPUT")]
    (together,) = rows(
        database, "SELECT (SELECT min(xmin::text) FROM orders) = (SELECT xmin::text FROM orders__errors)"
    )
    assert together == (True,)
    ProjectFolder(folder.root, {**files, "joints/made.sql": query.format("2")}).run("orders")
    assert rows(database, "SELECT count(*) FROM orders") == [(2,)]
    assert rows(database, "SELECT count(*) FROM orders__errors") == [(0,)]


def test_partitions_replace_their_own_rows(project, database):
    """Of a backfill of two days; a row of another day fails the run."""
    joint = (
        "-- rivet:catalog: shop\n-- rivet:partitions: {type: daily, column: day, start: '2026-01-01'}\n"
        "SELECT id, DATE '2026-01-01' + CAST(id AS INT) AS day, {{ var('n') }} AS n FROM range(4)"
        "{{ var('only') }}"
    )

    def files(n: str, only: str) -> Files:
        manifest = {**MANIFEST, "vars": {"n": n, "only": only}}
        return {"profiles.yaml": profiles(database), "joints/orders.sql": joint, "rivet.yaml": manifest}

    folder = project(files("1", ""))
    days = folder.assembly.computed("orders").partitions
    assert days is not None
    folder.run("orders", window=window_of(days, 1, 4))
    again = ProjectFolder(folder.root, files("2", " WHERE id BETWEEN 1 AND 2"))
    result = again.run("orders", window=window_of(days, 2, 3))
    assert (result.rows.inserted, result.rows.deleted) == (2, 2)
    assert rows(database, "SELECT n FROM orders ORDER BY day") == [(1,), (2,), (2,), (1,)]
    with pytest.raises(RivetError, match="1 rows of the batch lie outside"):
        again.run("orders", window=window_of(days, 2, 2))
    assert rows(database, "SELECT count(*) FROM orders") == [(4,)]


def window_of(days: Partitions, first: int, last: int) -> Window:
    """Return the days of January from the first to the last."""
    starts = [datetime(2026, 1, day, tzinfo=UTC) for day in range(first, last + 2)]
    return Window(days, tuple(f"2026-01-{start.day:02}" for start in starts[:-1]), tuple(starts))


def test_the_command_line(project, database, capsys):
    """adopt and its undoing, versions, environments, sweep, doctor."""
    execute(database, "CREATE TABLE orders (id bigint, n bigint)", "INSERT INTO orders VALUES (1, 1), (2, 2)")
    root = project(publishing(database, ROWS.format(10))).root

    def told(*command: str) -> str:
        capsys.readouterr()
        code = main([*command, "-p", str(root)])
        captured = capsys.readouterr()
        return f"{code} {captured.out}{captured.err}"

    assert "0 orders: takes over postgresql://" in (first := told("adopt", "orders"))
    assert "with 2 rows" in first
    assert "2 rows" in (listed := told("versions", "list", "orders"))
    assert listed.rstrip().endswith("adopted")
    assert "the table stays" in told("adopt", "orders", "--undo")
    assert "nothing is published" in told("versions", "list", "orders")
    told("adopt", "orders")
    assert "RVT-408" in told("versions", "rollback", "orders")
    assert "tables can be published to the schema public" in told("doctor")
    assert told("sweep").startswith("0 ")


def test_an_environment_of_the_project(project, database):
    """Its tables are its own until it is merged; sources of the same database are read at one snapshot there."""
    execute(database, "CREATE TABLE plain AS SELECT n AS id, n * 2 AS n FROM generate_series(0::bigint, 9) n")
    reader = {"type": "source", "catalog": "shop", "table": "plain"}
    again = {"type": "sink", "catalog": "shop", "table": "doubled", "upstream": ["twice"]}
    files = {
        **publishing(database, ROWS.format(10)),
        "sources/published.yaml": reader,
        "joints/twice.sql": "SELECT id, n * 2 AS n FROM published",
        "sinks/doubled.yaml": again,
    }
    folder = project(files)
    folder.run("orders")
    environment = Runtime(folder.assembly, folder.root, environment="pr-7")
    use_environment(environment)
    for name in ("orders", "doubled"):
        run_group(environment, name, folder.assembly.group(name).joints, f"run/{name}")
    assert rows(database, "SELECT to_regclass('public.doubled')") == [(None,)]
    assert rows(database, 'SELECT sum(n) FROM "public__pr-7".doubled') == [(180,)]
    catalog = folder.runtime.catalog("shop")
    assert isinstance(catalog, JdbcCatalog)
    assert sorted(version.table for version in catalog.merge("pr-7")) == ["doubled", "orders"]
    assert rows(database, "SELECT sum(n) FROM doubled") == [(180,)]
    assert rows(database, "SELECT to_regnamespace('\"public__pr-7\"')") == [(None,)]


def test_tables_of_a_run_are_published_in_one_transaction(project, database):
    """All of them by its last step, or none."""
    other = {"type": "sink", "catalog": "shop", "table": "doubled", "upstream": ["twice"]}
    files = {
        **publishing(database, ROWS.format(10), {"publish": "run"}),
        "joints/twice.sql": "SELECT id, n * 2 AS n FROM made",
        "sinks/doubled.yaml": other,
    }
    folder = project(files)
    definitions = load_definitions(folder.root)
    with dg.DagsterInstance.ephemeral() as instance:
        result = definitions.resolve_job_def("all").execute_in_process(instance=instance)
    assert result.success
    of_one, of_other = (rows(database, f"SELECT DISTINCT xmin::text FROM {name}") for name in ("orders", "doubled"))
    assert of_one == of_other
    assert leftovers(database) == []


def test_only_the_batch_of_a_replaced_table_takes_its_place(project, database):
    """With its row errors, whose number is another; a full refresh of a merge changes the table in place."""
    execute(database, "CREATE TABLE orders (id bigint PRIMARY KEY, n int)", "INSERT INTO orders VALUES (100, 1)")
    query = "SELECT id, CAST(text AS INT) AS n FROM VALUES (1L, '1'), (2L, 'x'), (3L, '3'), (4L, 'y') AS t(id, text)"
    swap = {"options": {"replace_by": "swap"}, "adopt": True}
    result = project(publishing(database, query, on_error="quarantine", **swap)).run("orders")
    assert (result.rows.inserted, result.rows.deleted, result.rows.total) == (2, 1, 2)
    assert rows(database, "SELECT count(*) FROM orders__errors") == [(2,)]
    before = rows(database, "SELECT oid, relpersistence FROM pg_class WHERE relname = 'orders'")
    merged = "SELECT id, CAST(1 AS INT) AS n FROM VALUES (7L), (7L), (8L) AS t(id)"
    strategy = {"mode": "merge", "key_columns": ["id"]}
    folder = project(publishing(database, merged, write_strategy=strategy, **swap))
    assert folder.run("orders", full_refresh=True).rows.total == 2
    assert rows(database, "SELECT id FROM orders ORDER BY id") == [(7,), (8,)]
    assert rows(database, "SELECT oid, relpersistence FROM pg_class WHERE relname = 'orders'") == before
    assert leftovers(database) == []


def test_a_table_with_partitions(project, database):
    """It is merged into and replaced in place, and no other table takes its place."""
    execute(
        database,
        "CREATE TABLE orders (id bigint PRIMARY KEY, n bigint) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF orders FOR VALUES FROM (0) TO (5)",
        "CREATE TABLE high PARTITION OF orders FOR VALUES FROM (5) TO (100)",
        "INSERT INTO orders VALUES (3, 0), (50, 50)",
    )
    strategy = {"mode": "merge", "key_columns": ["id"]}
    result = project(publishing(database, ROWS.format(10), adopt=True, write_strategy=strategy)).run("orders")
    assert (result.rows.inserted, result.rows.updated, result.rows.total) == (9, 1, 11)
    assert project(publishing(database, ROWS.format(4))).run("orders").rows.deleted == 11
    with pytest.raises(RivetError, match="has partitions") as caught:
        project(publishing(database, ROWS.format(4), options={"replace_by": "swap"})).run("orders")
    assert caught.value.code == "RVT-404"
    assert rows(database, "SELECT count(*) FROM low") == [(4,)]


def test_what_a_table_would_refuse_is_told_before_anything_runs(project, database, capsys):
    """By `compile --introspect`, and by `--analyze`; what only values decide is not."""
    execute(database, "CREATE TABLE orders (id bigint, n date)", "CREATE VIEW seen AS SELECT 1 AS id")

    def compiled(query: str, option: str = "--introspect", **fields: Any) -> str:
        root = project(publishing(database, query, **fields)).root
        code = main(["compile", option, "-p", str(root)])
        captured = capsys.readouterr()
        return f"{code} {captured.out}{captured.err}"

    append = {"write_strategy": "append"}
    assert "0 " in compiled("SELECT 1L AS id, DATE '2026-01-01' AS n", **append)[:2]
    refused = compiled("SELECT 1L AS id, 'x' AS n, 2 AS more", **append)
    assert "1 " in refused[:2]
    assert "RVT-514 sinks/orders.yaml:1: joint orders: the batch does not fit the table" in refused
    assert "0 " in compiled("SELECT 1L AS id, 'x' AS n, 2 AS more")[:2]
    added = {"write_strategy": {"mode": "append", "on_schema_change": "add"}}
    assert "0 " in compiled("SELECT 1L AS id, DATE '2026-01-01' AS n, 2 AS more", **added)[:2]
    assert "RVT-422" in compiled("SELECT 1L AS id, map('a', 1) AS n", "--analyze", table="new")
    assert "is a view or a foreign table" in compiled("SELECT 1 AS id", table="seen")
    assert "0 " in compiled("SELECT 1L AS id, DATE '2026-01-01' AS n", "--analyze", **append)[:2]
    unreachable = {**publishing(database, "SELECT 1L AS id"), "profiles.yaml": profiles(Database("shop", 1))}
    assert main(["compile", "--introspect", "-p", str(project(unreachable).root)]) == 0
    assert "RVT-318" in capsys.readouterr().err
    assert rows(database, "SELECT to_regclass('rivet_versions')") == [(None,)]
