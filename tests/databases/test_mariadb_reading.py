"""Tables of MariaDB as sources: each value exactly or an error, and several reads at one moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal

import pymysql
import pytest
from support.databases import source
from support.mariadb import MariaSchema, reading

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.jdbc import JdbcCatalog
from rivet_dagster.errors import RivetError
from rivet_dagster.execution import this_run
from rivet_dagster.model.profile import CatalogSpec


@pytest.fixture(scope="module")
def database(mariadb) -> MariaSchema:
    return mariadb.database()


EXACT = {
    "truth": ("boolean", ["1", "0", "NULL"], [True, False, None]),
    "tiny": ("tinyint", ["-128", "127"], [-128, 127]),
    "tiny_up": ("tinyint unsigned", ["255"], [255]),
    "medium": ("mediumint", ["-8388608"], [-8388608]),
    "whole_up": ("int unsigned", ["4294967295"], [2**32 - 1]),
    "large": ("bigint", ["-9223372036854775808"], [-(2**63)]),
    "large_up": ("bigint unsigned", ["18446744073709551615", "0"], [Decimal(2**64 - 1), Decimal(0)]),
    "number": (
        "decimal(38, 9)",
        ["12345678901234567890123456789.123456789"],
        [Decimal("12345678901234567890123456789.123456789")],
    ),
    "twice": ("double", ["0.1", "1e308", "-0.30000000000000004"], [0.1, 1e308, -0.30000000000000004]),
    "words": ("varchar(30) CHARACTER SET latin1", ["'ä '", "'a\\\\b'", "''"], ["ä ", "a\\b", ""]),
    "more_words": ("longtext", ["'it''s\n\U0001f600'"], ["it's\n\U0001f600"]),
    "fixed": ("char(5)", ["'ab  '"], ["ab"]),
    "raw": ("varbinary(10)", ["X'00ff27'", "''"], [b"\x00\xff'", b""]),
    "blob": ("blob", ["X'5c00'"], [b"\\\x00"]),
    "chosen": ("enum('new', 'it''s')", ["'it''s'"], ["it's"]),
    "several": ("set('a', 'b')", ["'a,b'", "''"], ["a,b", ""]),
    "document": ("json", ["'{\"a\":  1.10}'"], ['{"a":  1.10}']),
    "long_time": ("time(3)", ["'-838:59:59'", "'25:00:00.5'"], ["-838:59:59.000", "25:00:00.500"]),
    "of_year": ("year", ["2155", "1901"], [2155, 1901]),
    "bits": ("bit(10)", ["b'1000000001'"], [Decimal(513)]),
    "one_bit": ("bit(1)", ["b'1'", "b'0'"], [True, False]),
    "key": ("uuid", ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'"], ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"]),
    "address": ("inet6", ["'::1'"], ["::1"]),
    "day": ("date", ["'0001-01-01'", "'1582-10-04'", "'9999-12-31'"], [date(1, 1, 1), None, date(9999, 12, 31)]),
    "local": (
        "datetime(6)",
        ["'2024-03-31 02:30:00.123456'", "'1582-10-15'"],
        [datetime(2024, 3, 31, 2, 30, 0, 123456), datetime(1582, 10, 15)],
    ),
}
"""By column the type, values as MariaDB's SQL has them, and as Spark publishes them; None is not compared."""


def test_each_value_is_read_exactly(database, project):
    declared = ", ".join(f"`{name}` {type_}" for name, (type_, *_) in EXACT.items())
    database.execute(f"CREATE TABLE exact (id integer PRIMARY KEY, moment timestamp(6) NULL, single float, {declared})")
    for number in range(3):
        given = {name: texts[number] for name, (_, texts, _) in EXACT.items() if number < len(texts)}
        names = ", ".join(f"`{name}`" for name in given)
        values = ", ".join(given.values())
        moment = ["2024-10-27 00:30:00.5", "1970-01-01 00:00:01", "2038-01-19 03:14:07.999999"][number]
        database.execute(
            f"INSERT INTO exact (id, moment, single, {names}) VALUES ({number}, '{moment}', 16777217.1, {values})"
        )
    query = "SELECT *, unix_micros(moment) AS micros, CAST(local AS STRING) AS local_text FROM exact"
    folder = project(reading(database, query, {"exact": source("exact")}))
    folder.run("read")
    found = sorted(folder.rows("read"), key=lambda row: row["id"])
    for name, (_, texts, expected) in EXACT.items():
        actual = [row[name] for row in found][: len(texts)]
        for got, wanted in zip(actual, expected, strict=True):
            assert wanted is None or got == wanted, (name, got, wanted)
    assert [row["micros"] for row in found] == [1729989000500000, 1000000, 2147483647999999]
    assert found[0]["local_text"] == "2024-03-31 02:30:00.123456"
    assert {row["single"] for row in found} == {16777218.0}
    (texts,) = database.rows("SELECT CAST(day AS CHAR), CAST(large_up AS CHAR) FROM exact WHERE id = 1")
    assert (str(found[1]["day"]), str(found[1]["large_up"])) == texts


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("type_", "value", "told"),
    [
        ("date", "'0000-00-00'", "a date with zeros"),
        ("date", "'2024-02-00'", "a date with zeros"),
        ("datetime", "'0000-00-00 00:00:00'", "a date with zeros"),
        ("date", "'1582-10-10'", "October 5 to 14"),
        ("datetime", "'1500-01-01'", "before October 15"),
        ("tinyint(1)", "7", "other numbers than 0 and 1"),
    ],
)
def test_values_that_spark_has_not_are_errors(database, project, type_, value, told):
    """The database casts them to what Spark has."""
    connection = database.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.execute(f"CREATE OR REPLACE TABLE wrong (id int, v {type_} NOT NULL)")
        cursor.execute(f"INSERT INTO wrong VALUES (1, {value})")
    folder = project(reading(database, "SELECT v FROM wrong", {"wrong": source("wrong")}))
    with pytest.raises(RivetError) as caught:
        folder.run("read")
    assert "the column v holds " in str(caught.value)
    assert told in str(caught.value)
    cast = "signed" if type_ == "tinyint(1)" else "char"
    assert "casts: {v: " in str(caught.value)
    folder.write(reading(database, "SELECT v FROM wrong", {"wrong": source("wrong", options={"casts": {"v": cast}})}))
    folder.run("read")
    ((text,),) = database.rows("SELECT CAST(v AS CHAR) FROM wrong")
    assert [str(row["v"]) for row in folder.rows("read")] == [text]


def test_columns_that_cannot_be_read(database, project):
    database.execute("CREATE TABLE unreadable (id int, much decimal(65, 2), place point)")
    folder = project(reading(database, "SELECT * FROM unreadable", {"unreadable": source("unreadable")}))
    with pytest.raises(RivetError) as caught:
        folder.run("read")
    assert [told.code for told in caught.value.diagnostics] == ["RVT-422"] * 2
    assert "casts: {much: 'decimal(38, 9)'}" in str(caught.value)
    folder.write(reading(database, "SELECT * FROM unreadable", {"unreadable": source("unreadable", columns=["id"])}))
    folder.run("read")
    assert folder.rows("read") == []


def test_names_that_need_quotes_and_texts_that_differ_in_case(database, project):
    """Spark quotes names as MariaDB quotes texts, and knows no collation; conditions are left to the database."""
    database.execute(
        "CREATE TABLE `order` (id int PRIMARY KEY, `order` varchar(9) COLLATE utf8mb4_general_ci, `Net ``total``` int)",
        r"INSERT INTO `order` VALUES (1, 'a', 5), (2, 'A', 6), (3, 'a ', 7), (4, 'order', 8), (5, 'a\\', 9)",
    )
    for condition, expected in [
        ("`order` = 'a'", [1]),
        ("`order` = 'a\\\\'", [5]),
        ("`order` IN ('A', 'order')", [2, 4]),
    ]:
        query = f"SELECT id, `order`, `Net ``total``` AS net FROM orders WHERE {condition}"
        folder = project(reading(database, query, {"orders": source("order")}))
        folder.run("read")
        assert [row["id"] for row in folder.rows("read")] == expected, condition
    assert folder.rows("read")[0] == {"id": 2, "order": "A", "net": 6}


def wrong_of(files, tmp_path) -> list[str]:
    from support.folders import ProjectFolder

    found = compile_directory(ProjectFolder(tmp_path, files).root)
    return [f"{error.code} {error.message} {error.remediation}" for error in found.errors]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partition_by": "id", "partitions": 4}, "shares no snapshot between connections"),
        ({"changed_at": "at"}, "does not tell which transactions are open"),
        ({"casts": {"a": "numeric(5, 2)"}}, "`casts` casts a to 'numeric(5, 2)'"),
    ],
)
def test_what_mariadb_cannot_do_is_refused_when_the_project_compiles(tmp_path, options, told):
    database = MariaSchema("shop", 3306)
    (error,) = wrong_of(reading(database, "SELECT * FROM a", {"a": source("a", options=options)}), tmp_path)
    assert told in error


def test_how_a_catalog_reads_must_be_said(tmp_path):
    files = dict(reading(MariaSchema("shop", 3306), "SELECT * FROM a", {"a": source("a")}))
    del files["profiles.yaml"]["default"]["catalogs"]["shop"]["reads"]
    (error,) = wrong_of(files, tmp_path)
    assert "its catalog does not say how it reads" in error
    assert "`reads: locked`" in error


ROWS = 2_000
TOTAL = 2 * 100 * ROWS
BOTH = "SELECT sum(value) AS total FROM (SELECT value FROM one UNION ALL SELECT value FROM other)"


@contextmanager
def moved_values(database: MariaSchema) -> Iterator[list[int]]:
    """Move values from one table to the other as long as the block lasts; yield the number of transactions."""
    stop, done = threading.Event(), [0]

    def move() -> None:
        with database.connect() as connection, connection.cursor() as cursor:
            connection.autocommit(False)
            while not stop.is_set():
                moved = cursor.execute("UPDATE one SET value = value - 1 WHERE id % 7 = 3")
                cursor.execute("UPDATE other SET value = value + %s WHERE id = 1", (moved,))
                connection.commit()
                done[0] += 1

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


@pytest.fixture(scope="module")
def moving(mariadb) -> MariaSchema:
    found = mariadb.database()
    for table in ("one", "other"):
        found.execute(
            f"CREATE TABLE {table} (id bigint PRIMARY KEY, value bigint NOT NULL)",
            f"INSERT INTO {table} SELECT seq, 100 FROM seq_1_to_{ROWS}",
        )
    return found


@pytest.mark.nightly
def test_tables_that_change_are_read_at_one_moment(moving, project):
    """They are locked as long as they are read, and no longer; apart, each is read at a moment of its own."""
    sources = {name: source(name) for name in ("one", "other")}
    folder = project(reading(moving, BOTH, sources))
    with moved_values(moving) as moved:
        for _ in range(3):
            before = moved[0]
            result = folder.run("read")
            assert folder.rows("read") == [{"total": TOTAL}]
            deadline = time.monotonic() + 30
            while moved[0] <= before and time.monotonic() < deadline:
                time.sleep(0.01)
            assert moved[0] > before
        assert {str(position)[:9] for position in result.published.inputs.values()} == {"snapshot "}
        folder.write(reading(moving, BOTH, sources, reads="apart"))
        totals = set()
        for _ in range(10):
            folder.run("read")
            totals |= {row["total"] for row in folder.rows("read")}
            if totals != {TOTAL}:
                break
    assert totals != {TOTAL}


def test_a_lock_that_is_lost_fails_the_group(moving, project, monkeypatch):
    """It says why, and publishes nothing."""
    folder = project(reading(moving, BOTH, {name: source(name) for name in ("one", "other")}))
    relation = this_run.Snapshots._snapshot

    def killed(self, catalog):
        found = relation(self, catalog)
        for (number,) in moving.rows(
            f"SELECT id FROM information_schema.processlist WHERE db = '{moving.name}' AND command = 'Sleep' "
            "AND id <> connection_id()"
        ):
            with suppress(pymysql.err.OperationalError):  # An idle one may have ended by itself.
                moving.execute(f"KILL {number}")
        return found

    monkeypatch.setattr(this_run.Snapshots, "_snapshot", killed)
    with pytest.raises(RivetError) as caught:
        folder.run("read")
    assert caught.value.code == "RVT-510"
    assert "that held the lock" in str(caught.value)


def test_a_lock_of_somebody_else_is_waited_for(moving, project, monkeypatch):
    monkeypatch.setattr("rivet_dagster.catalogs.jdbc.mariadb.reading.LOCK_SECONDS", 1)
    folder = project(reading(moving, "SELECT * FROM one", {"one": source("one")}))
    with moving.connect() as connection, connection.cursor() as cursor:
        connection.autocommit(False)
        cursor.execute("UPDATE one SET value = value WHERE id = 1")
        with pytest.raises(RivetError, match=r"[Ll]ock wait timeout"):
            folder.run("read")


def test_wrong_logins_and_names_are_errors(database, tmp_path):
    options = {"url": database.jdbc, "user": database.user, "password": "not-this-one", "reads": "apart"}
    catalog = JdbcCatalog(CatalogSpec("shop", "jdbc", options), tmp_path)
    with pytest.raises(RivetError, match=r"RVT-403 .*access is refused") as caught:
        catalog.columns("orders", {})
    assert "not-this-one" not in str(caught.value)
    right = JdbcCatalog(CatalogSpec("shop", "jdbc", {**options, "password": database.password}), tmp_path)
    with pytest.raises(RivetError, match="there is no table or view"):
        right.columns("no_such_table", {})
    nowhere = JdbcCatalog(CatalogSpec("shop", "jdbc", {**options, "url": "jdbc:mariadb://127.0.0.1:1/shop"}), tmp_path)
    with pytest.raises(RivetError, match="cannot be reached"):
        nowhere.columns("orders", {})
    (finding,) = right.examine(True)
    assert "MariaDB" in str(finding)
