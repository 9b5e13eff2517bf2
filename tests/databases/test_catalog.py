"""The catalog `jdbc` without an engine: columns, versions of data, findings, and errors that tell what to do."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import psycopg
import pytest
from support.databases import execute, reading, source
from support.postgres import Database, pooler_of, standby_of, tls_server

from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import FAIL, OK
from rivet_dagster.model.profile import CatalogSpec


@pytest.fixture(scope="module")
def database(postgres) -> Database:
    found = postgres.database()
    execute(
        found,
        "CREATE TABLE orders (id bigint PRIMARY KEY, key uuid, amount numeric, changed timestamptz)",
        "INSERT INTO orders SELECT n, NULL, n, now() FROM generate_series(1, 10) n",
        "CREATE SCHEMA mart",
        "CREATE VIEW mart.latest AS SELECT max(id) AS id FROM orders",
        "CREATE MATERIALIZED VIEW mart.kept AS SELECT count(*) AS n FROM orders",
    )
    return found


def catalog(database: Database, **options) -> JdbcCatalog:
    given = {"url": database.jdbc, "user": database.user, "password": database.password, **options}
    return JdbcCatalog(CatalogSpec("shop", "jdbc", given), Path())


def failure(call, *arguments) -> RivetError:
    with pytest.raises(RivetError) as caught:
        call(*arguments)
    return caught.value


def test_columns_tables_and_addresses(database):
    shop = catalog(database)
    types = {field.name: field.type for field in shop.columns("orders", {"casts": {"amount": "numeric(38, 9)"}})}
    assert types == {"id": "bigint", "key": "string", "amount": "decimal(38,9)", "changed": "timestamp"}
    assert {field.name: field.type for field in shop.columns("orders", {})}["amount"] is None
    assert shop.tables("") == ("mart.kept", "mart.latest", "orders")
    assert shop.tables("mart.l") == ("mart.latest",)
    assert catalog(database, schema="mart").tables("") == ("kept", "latest", "public.orders")
    assert shop.uri("mart.latest") == f"postgresql://127.0.0.1:{database.port}/{database.name}/mart.latest"
    parameters = f"{database.jdbc}?user={database.user}&password={database.password}&ApplicationName=x"
    by_url = JdbcCatalog(CatalogSpec("shop", "jdbc", {"url": parameters}), Path())
    assert by_url.tables("o") == ("orders",)
    assert by_url.uri("orders") == f"postgresql://127.0.0.1:{database.port}/{database.name}/public.orders"


def test_the_version_of_data_changes_with_each_change(database):
    shop = catalog(database)
    seen = {shop.data_version("orders", {})}

    def changed(*statements: str) -> bool:
        execute(database, *statements)
        deadline = time.monotonic() + 10  # the database counts a while later
        while (version := shop.data_version("orders", {})) in seen and time.monotonic() < deadline:
            time.sleep(0.1)
        is_new = version not in seen
        seen.add(version)
        return is_new

    assert changed("INSERT INTO orders VALUES (11)")
    assert changed("UPDATE orders SET amount = 5 WHERE id = 11")
    assert changed("DELETE FROM orders WHERE id = 11")
    assert changed("CREATE TABLE kept_rows AS TABLE orders", "TRUNCATE orders")
    assert changed("INSERT INTO orders SELECT * FROM kept_rows")

    assert changed("ALTER TABLE orders ADD COLUMN note text")

    by_column = {"version_by": "id"}
    before = shop.data_version("orders", by_column)
    assert shop.data_version("orders", by_column) == before
    execute(database, "INSERT INTO orders VALUES (12)")
    assert shop.data_version("orders", by_column) != before

    assert "version_by" in str(failure(shop.data_version, "mart.latest", {}))
    assert shop.data_version("mart.latest", {"version_by": "id"}).startswith("12-")
    before = shop.data_version("mart.kept", {})
    execute(database, "REFRESH MATERIALIZED VIEW mart.kept")
    assert shop.data_version("mart.kept", {}) != before


def test_what_does_not_exist_is_named(database):
    shop = catalog(database)
    assert "there is no table or view public.order; did you mean 'orders'?" in str(failure(shop.columns, "order", {}))
    assert "no table or view nowhere.orders: its schema has none" in str(failure(shop.columns, "nowhere.orders", {}))
    assert "no column 'amout'" in str(failure(shop.columns, "orders", {"casts": {"amout": "text"}}))
    by = {"partition_by": "ident", "partitions": 2}
    snapshot = shop.snapshot(1)
    assert "no column 'ident', which `partition_by` names" in str(failure(snapshot.relation, "orders", by))
    assert "has no blocks by which" in str(failure(snapshot.relation, "mart.latest", {"partitions": 2}))
    snapshot.close()
    assert 'column "changes" does not exist' in str(failure(shop.data_version, "orders", {"version_by": "changes"}))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"password": "wrong word"}, "access is refused: "),
        ({"user": "nobody"}, "access is refused: "),
        ({"url": "jdbc:postgresql://127.0.0.1:1/shop"}, "postgresql://127.0.0.1:1/shop cannot be reached: "),
        (
            {"url": "jdbc:postgresql://no.such.invalid/shop"},
            "postgresql://no.such.invalid:5432/shop cannot be reached: ",
        ),
        ({"url": "URL/no_such_database"}, 'database "no_such_database" does not exist'),
        ({"sslmode": "require"}, "server does not support SSL"),
    ],
)
def test_a_database_that_cannot_be_reached_says_why(database, options, told):
    options = {key: value.replace("URL", database.jdbc.rpartition("/")[0]) for key, value in options.items()}
    shop = catalog(database, **options)
    for call in (lambda: shop.columns("orders", {}), lambda: shop.snapshot(1)):
        error = failure(call)
        assert error.code == "RVT-403"
        assert told in str(error)
        assert database.password not in str(error)
        assert "wrong word" not in str(error)
    (finding,) = [finding for finding in shop.examine(False) if finding.status == FAIL]
    assert (finding.code, "wrong word" in finding.text) == ("RVT-403", False)


def test_a_table_that_may_not_be_read_says_so(database):
    execute(database, "CREATE ROLE guest LOGIN PASSWORD 'word'")
    guest = catalog(database, user="guest", password="word")
    assert guest.tables("") == ()
    assert "permission denied for table orders" in str(failure(guest.data_version, "orders", {"version_by": "id"}))


def test_without_the_package_the_extra_is_named(database, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = failure(catalog(database).columns, "orders", {})
    assert error.code == "RVT-123"
    assert "rivet_dagster[postgres]" in error.diagnostics[0].remediation


def test_a_driver_that_spark_has_not_is_named(database, project):
    given = {"orders": source("orders", columns=["id"])}
    folder = project(reading(database, "SELECT * FROM orders", given, driver="no.such.Driver"))
    error = failure(folder.run, "read")
    assert "no jar of Spark's session has the class no.such.Driver" in str(error)
    assert "`packages` or `jars`" in error.diagnostics[0].remediation


def test_wrong_declarations_are_found_before_anything_runs(tmp_path, database, project):
    options = {"partition_by": "id", "casts": {"amount": "numeric(38, 9"}, "fetchsize": 5}
    wrong = reading(
        database,
        "SELECT * FROM a",
        {"a": source("x.y.z", options=options), "b": source("orders", options={"partitions": 0})},
        connections=1,
        sslmode="on",
        database="shop",
    )
    folder = project(wrong)
    with pytest.raises(RivetError) as caught:
        _ = folder.assembly
    text = str(caught.value)
    for told in (
        "`connections` must be a whole number of at least 2, not 1",
        "`sslmode` must be one of disable,",
        "the unknown option 'database'",
    ):
        assert told in text
    folder.write(reading(database, "SELECT * FROM a", {"a": source("x.y.z", options=options)}))
    with pytest.raises(RivetError) as caught:
        _ = folder.assembly
    text = str(caught.value)
    for told in (
        "no table of a database can be called 'x.y.z'",
        "`partition_by` needs `partitions`",
        "`casts` casts amount to 'numeric(38, 9'",
        "Cast it to one of boolean, smallint,",
        "unknown option 'fetchsize'",
    ):
        assert told in text


def test_the_doctor_tells_what_a_database_can_do(database, postgres):
    texts = {finding.text: finding.status for finding in catalog(database).examine(False)}
    assert set(texts.values()) == {OK}
    assert any(text.startswith("PostgreSQL 1") and f"{database.user} may log in" in text for text in texts)
    assert "several connections can read one snapshot of it" in texts

    with pooler_of(database) as pooled:
        texts = {finding.text: finding.status for finding in catalog(pooled).examine(False)}
    assert set(texts.values()) == {OK}
    assert "a pooler in front of it, like PgBouncer, gives each transaction any session" in texts

    with pooler_of(database, pool_mode="statement") as pooled:
        (refusal,) = [finding for finding in catalog(pooled).examine(False) if finding.status != OK]
    assert (refusal.status, refusal.code) == (FAIL, "RVT-528")
    assert "`pool_mode = statement` of PgBouncer" in refusal.text

    execute(database, "CREATE ROLE limited LOGIN PASSWORD 'word'", "ALTER ROLE limited SET statement_timeout = '2s'")
    texts = {
        finding.text: finding.status for finding in catalog(database, user="limited", password="word").examine(False)
    }
    assert texts["its user has `statement_timeout` 2000ms: longer reads and publications fail (RVT-528)"] == OK


def test_a_replica_is_read_at_a_snapshot_or_says_that_it_cannot(database, postgres):
    with standby_of(postgres) as standby:
        replica = Database(database.name, standby.port)
        shop = catalog(replica)
        assert "orders" in shop.tables("")
        found = {finding.text: finding.status for finding in shop.examine(False)}
        with psycopg.connect(replica.dsn, autocommit=True) as connection:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            try:
                connection.execute("SELECT pg_export_snapshot()")
                exports = True
            except psycopg.Error:
                exports = False
        assert exports == ("several connections can read one snapshot of it" in found)
        assert exports, "and a snapshot can be read by several connections there"
        snapshot = shop.snapshot(1)
        assert snapshot.relation("orders", {"partitions": 2}).before_reading.startswith("SET TRANSACTION ISOLATION")
        error = failure(snapshot.relation, "orders", {"changed_at": "changed"})
        assert "a replica does not know of them" in str(error)
        snapshot.close()


def test_commands_speak_it(database, project, capsys):
    folder = project(
        reading(database, "SELECT id, key FROM orders", {"orders": source("orders", columns=["id", "key"])})
    )

    def printed(*arguments: str) -> str:
        assert main(["-p", str(folder.root), *arguments]) == 0
        return capsys.readouterr().out

    assert "shop" in printed("catalog", "list")
    assert '"key", "type": "string"' in " ".join(printed("compile", "--introspect", "--format", "json").split())
    shown = printed("doctor", "--format", "json")
    assert "several connections can read one snapshot of it" in shown
    assert database.password not in shown


def test_a_connection_is_encrypted_and_the_server_proves_who_it_is(project, tmp_path):
    with tls_server() as (server, certificate):
        database = server.database()
        execute(database, "CREATE TABLE orders (id int)", "INSERT INTO orders VALUES (7)")
        (tmp_path / "project").mkdir()
        (tmp_path / "project/root.crt").write_bytes(certificate.read_bytes())
        safe = {"sslmode": "verify-full", "sslrootcert": "root.crt"}
        folder = project(reading(database, "SELECT id FROM orders", {"orders": source("orders")}, **safe))
        folder.run("read")
        assert folder.rows("read") == [{"id": 7}]
        elsewhere = catalog(
            database,
            url=database.jdbc.replace("127.0.0.1", "localhost"),
            sslmode="verify-full",
            sslrootcert=str(certificate),
        )
        error = failure(elsewhere.tables, "")
        assert error.code == "RVT-403"
        assert 'does not match host name "localhost"' in str(error)
