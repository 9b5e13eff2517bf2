"""Each type of PostgreSQL is read exactly, or is an error at its column."""

from __future__ import annotations

import json
import random
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from support.databases import execute, reading, rows, source
from support.postgres import Database
from support.torture import examples, some

from rivet_dagster.errors import RivetError

EXACT = {
    "bool": ("boolean", ["true", "false", None]),
    "small": ("smallint", ["-32768", "32767", None]),
    "whole": ("integer", ["-2147483648", "2147483647"]),
    "large": ("bigint", ["-9223372036854775808", "9223372036854775807"]),
    "single": ("real", ["1.1", "-3.4028235e38", "NaN"]),
    "twice": ("double precision", ["0.1", "1e308", "-Infinity"]),
    "number": ("numeric(38, 9)", ["12345678901234567890123456789.123456789", "-0.000000001", None]),
    "rounded": ("numeric(5, -2)", ["12300", "-99900"]),
    "tiny": ("numeric(3, 5)", ["0.00123", "-0.00999"]),
    "cash": ("money", ["92233720368547758.07", "-92233720368547758.08", "0.1", None]),
    "words": ("text", ["", "it's \\ ä \U0001f600\n", None]),
    "short": ("varchar(5)", ["ab ", "abcde"]),
    "raw": ("bytea", ["\\x00ff10", "\\x", None]),
    "number_of": ("oid", ["4294967295", "0"]),
    "whole_array": ("integer[]", ["{1,NULL,3}", "{}", None]),
    "text_array": ("text[]", ['{a,"b,c",NULL,""}', "{}"]),
    "number_array": ("numeric(10, 2)[]", ["{1.25,NULL,-99999999.99}"]),
}
"""Types whose values psycopg and Spark both have, with texts of values."""

AS_TEXT = {
    "key": ("uuid", ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", None]),
    "document": ("json", ['{"a":  1.10, "a": [null]}']),
    "binary_document": ("jsonb", ['{"a": 1.10, "b": [null, "x"]}', "null"]),
    "feeling": ("mood", ["sad", "very happy", None]),
    "places": ("int4range", ["[1,5)", "empty", "(,)"]),
    "moments": ("tstzrange", ['["2024-01-01 00:00:00+02",)']),
    "several": ("nummultirange", ["{[1,2),[3,4.5]}"]),
    "long": ("interval", ["1 year 2 mons -3 days 04:05:06.789", "-00:00:00.000001"]),
    "clock": ("time", ["24:00:00", "10:11:12.123456"]),
    "clock_there": ("timetz", ["10:11:12.123456+05:30"]),
    "bits": ("bit(3)", ["101"]),
    "more_bits": ("varbit", ["10101", ""]),
    "markup": ("xml", ["<a b='1'>ä</a>"]),
    "address": ("inet", ["10.0.0.1/8", "::1"]),
    "caseless": ("citext", ["AbC"]),
    "keys": ("uuid[]", ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}"]),
    "feelings": ("mood[]", ['{sad,"very happy"}']),
}
"""Types that Spark has not: their text is read."""

DOMAINS = {"limited": ("limited", ["5", None]), "twice_limited": ("twice_limited", ["7.50"])}


@pytest.fixture(scope="module")
def database(postgres) -> Database:
    found = postgres.database()
    execute(
        found,
        "CREATE EXTENSION citext",
        "CREATE TYPE mood AS ENUM ('sad', 'very happy')",
        "CREATE DOMAIN limited AS integer CHECK (value < 100)",
        "CREATE DOMAIN some_digits AS numeric(10, 2)",
        "CREATE DOMAIN twice_limited AS some_digits CHECK (value > 0)",
    )
    return found


def make(database: Database, table: str, columns: dict[str, tuple[str, list[str | None]]]) -> None:
    """Make a table whose rows have, one after another, the values of each column."""
    declared = ", ".join(f'"{name}" {type_}' for name, (type_, _) in columns.items())
    execute(database, f"CREATE TABLE {table} (id integer GENERATED ALWAYS AS IDENTITY, {declared})")
    for number in range(max(len(values) for _, values in columns.values())):
        given = {name: values[number] for name, (_, values) in columns.items() if number < len(values)}
        texts = ", ".join("NULL" if text is None else f"E'{_escaped(text)}'" for text in given.values())
        names = ", ".join(f'"{name}"' for name in given)
        execute(database, f"INSERT INTO {table} ({names}) VALUES ({texts})")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def same(one, other) -> bool:
    return one == other or (one != one and other != other)


def test_values_that_spark_has(database, project):
    columns = {**EXACT, **DOMAINS}
    make(database, "exact", columns)
    folder = project(reading(database, "SELECT * FROM exact", {"exact": source("exact")}))
    folder.run("read")
    found = {row["id"]: row for row in folder.rows("read")}
    names = ", ".join(f'"{name}"' for name in columns if name != "cash")
    for key, *values in rows(database, f"SELECT id, cash::numeric, {names} FROM exact"):
        expected = dict(zip(("cash", *(name for name in columns if name != "cash")), values, strict=True))
        for name, value in expected.items():
            actual = found[key][name]
            value = bytes(value) if isinstance(value, bytes | memoryview) else value
            if name == "single" and value == value and value is not None:
                assert actual == pytest.approx(value, rel=1e-7), name
            else:
                assert same(actual, value), (name, actual, value)
    assert str(folder.table("read").schema.field("tiny").type) == "decimal128(5, 5)"
    assert found[1]["whole"] == -(2**31)
    assert found[2]["large"] == 2**63 - 1


def test_values_whose_text_is_read(database, project):
    make(database, "texts", AS_TEXT)
    folder = project(reading(database, "SELECT * FROM texts", {"texts": source("texts")}))
    folder.run("read")
    found = {row["id"]: row for row in folder.rows("read")}
    names = ", ".join(
        f'"{name}"{"::text[]" if type_.endswith("[]") else "::text"}' for name, (type_, _) in AS_TEXT.items()
    )
    with_settings = f"SET TimeZone = 'UTC'; SET IntervalStyle = 'iso_8601'; SELECT id, {names} FROM texts"
    import psycopg

    with psycopg.connect(database.dsn, autocommit=True) as connection:
        cursor = connection.execute(with_settings)
        while cursor.nextset():
            pass
        for key, *values in cursor.fetchall():
            assert {name: found[key][name] for name in AS_TEXT} == dict(zip(AS_TEXT, values, strict=True))
    assert json.loads(found[1]["binary_document"]) == {"a": 1.10, "b": [None, "x"]}
    assert found[1]["long"] == "P1Y2M-3DT4H5M6.789S"


MICROS = {
    "day": ("datediff(day, DATE '1970-01-01')", "day - DATE '1970-01-01'"),
    "local": (
        "CAST(CAST(local - TIMESTAMP_NTZ '1970-01-01 00:00:00' AS INTERVAL SECOND) AS DECIMAL(18, 6)) * 1000000",
        "(extract(epoch FROM local) * 1000000)::bigint",
    ),
    "moment": ("unix_micros(moment)", "(extract(epoch FROM moment) * 1000000)::bigint"),
}
"""By column a number that stands for the value: in Spark's SQL, and in PostgreSQL's."""


def numbers(database: Database, folder, condition: str, *names: str) -> tuple[set, set]:
    """Return the rows as Spark publishes them, and as the database has them."""
    ours = ", ".join(f"CAST({MICROS[name][0]} AS BIGINT) AS {name}" for name in names)
    given = source("moments", filter=condition, columns=["id", *names])
    folder.write(reading(database, f"SELECT id, {ours} FROM moments", {"moments": given})).run("read")
    theirs = ", ".join(MICROS[name][1] for name in names)
    expected = rows(database, f"SELECT id, {theirs} FROM moments WHERE {condition}")
    return {tuple(row.values()) for row in folder.rows("read")}, set(expected)


def test_any_day_and_time_is_the_same_or_an_error(database, project):
    """Among them are years BC, those before the Gregorian calendar, changes to and from summer time, and infinity."""
    chance = random.Random(5)
    texts = ["0044-03-15 BC", "4713-01-01 BC", "0001-01-01", "1582-10-04", "1582-10-15", "9999-12-31", "12000-01-01"]
    texts += ["2024-03-31 02:30:00", "2024-10-27 02:30:00.123456", "1893-03-31 23:55:00", "1969-12-31 23:59:59.999999"]
    for _ in range(examples(50, 1000)):
        seconds, micros = chance.randrange(315_000_000_000), chance.randrange(10**6)
        texts.append((datetime(1, 1, 1) + timedelta(seconds=seconds, microseconds=micros)).isoformat(" "))
    texts = [text for text in texts if not "1582-10-05" <= text < "1582-10-15"]
    values = [f"({n}, '{t}'::timestamp::date, '{t}', '{t}'::timestamp AT TIME ZONE 'UTC')" for n, t in enumerate(texts)]
    execute(
        database,
        "CREATE TABLE moments (id integer, day date, local timestamp, moment timestamptz)",
        f"INSERT INTO moments VALUES {', '.join(values)}",
    )
    folder = project({})
    found, expected = numbers(database, folder, "id > 1", "day", "local", "moment")
    assert found == expected
    found, expected = numbers(database, folder, "id < 2", "day", "moment")
    assert found == expected

    wrong = {
        "local": ("0044-03-15 BC", "infinity"),
        "day": ("-infinity", "1582-10-14"),
        "moment": ("infinity", "1582-10-10"),
    }
    for column, text in some([(column, text) for column, texts in wrong.items() for text in texts], 1):
        execute(
            database,
            "DROP TABLE IF EXISTS wrong",
            "CREATE TABLE wrong AS SELECT * FROM moments LIMIT 0",
            f"INSERT INTO wrong ({column}) VALUES ('{text}')",
        )
        folder.write(reading(database, f"SELECT {column} FROM wrong", {"wrong": source("wrong")}))
        with pytest.raises(RivetError) as caught:
            folder.run("read")
        assert f"the column {column} holds infinity" in str(caught.value)
        assert f"casts: {{{column}: 'text'}}" in str(caught.value)
        again = source("wrong", options={"casts": {column: "timestamp"}})  # no way around the check
        folder.write(reading(database, f"SELECT {column} FROM wrong", {"wrong": again}))
        with pytest.raises(RivetError, match=f"the column {column} holds infinity"):
            folder.run("read")
        cast = source("wrong", columns=[column], options={"casts": {column: "text"}})
        folder.write(reading(database, f"SELECT {column} FROM wrong", {"wrong": cast})).run("read")
        (row,) = folder.rows("read")
        assert row[column].startswith(text.partition(" ")[0])


def test_what_cannot_be_read_is_an_error_at_its_column(database, project):
    execute(
        database,
        "CREATE TYPE pair AS (a int, b int)",
        "CREATE TABLE unreadable (id int, amount numeric, duo pair, much numeric(50, 2), days date[])",
        "INSERT INTO unreadable VALUES (1, 1.5, (1, 2), 3.25, '{2024-01-01}')",
    )
    yaml = "type: source\ncatalog: shop\ntable: unreadable\ncolumns:\n  - id\n  - amount\n  - total: much + 1\n"
    folder = project({**reading(database, "SELECT * FROM unreadable", {}), "sources/unreadable.yaml": yaml})
    with pytest.raises(RivetError) as caught:
        folder.run("read")
    first, second = caught.value.diagnostics
    assert (first.code, first.file, first.line) == ("RVT-422", "sources/unreadable.yaml", 1)
    assert (second.code, second.file, second.line) == ("RVT-422", "sources/unreadable.yaml", 7)
    assert "the column 'amount' of unreadable is a numeric without precision" in first.message
    assert "casts: {amount: 'numeric(38, 9)'}" in first.remediation
    assert "the column 'much' of unreadable is a numeric(50,2)" in second.message

    folder.write(reading(database, "SELECT * FROM unreadable", {"unreadable": source("unreadable")}))
    with pytest.raises(RivetError) as caught:
        folder.run("read")
    assert [told.message.split("'")[1] for told in caught.value.diagnostics] == ["amount", "duo", "much", "days"]

    casts = {"amount": "numeric(38, 9)", "duo": "text", "much": "numeric(38, 2)", "days": "text"}
    folder.write(
        reading(database, "SELECT * FROM unreadable", {"unreadable": source("unreadable", options={"casts": casts})})
    )
    folder.run("read")
    assert folder.rows("read") == [
        {"id": 1, "amount": Decimal("1.500000000"), "duo": "(1,2)", "much": Decimal("3.25"), "days": "{2024-01-01}"}
    ]
    # What the source does not read harms nobody.
    folder.write(reading(database, "SELECT * FROM unreadable", {"unreadable": source("unreadable", columns=["id"])}))
    folder.run("read")
    assert folder.rows("read") == [{"id": 1}]


def test_an_array_of_several_dimensions_is_an_error(database, project):
    execute(database, "CREATE TABLE nested (id int, cells int[])", "INSERT INTO nested VALUES (1, '{{1,2},{3,4}}')")
    folder = project(reading(database, "SELECT * FROM nested", {"nested": source("nested")}))
    with pytest.raises(RivetError, match="an array of several dimensions"):
        folder.run("read")


def test_columns_that_the_database_computes_and_names_that_need_quotes(database, project):
    execute(
        database,
        'CREATE SCHEMA "My Shop"',
        'CREATE TABLE "My Shop"."order" (id int PRIMARY KEY, "order" text, "Net ""total""" int, '
        'twice int GENERATED ALWAYS AS ("Net ""total""" * 2) STORED)',
        """INSERT INTO "My Shop"."order" VALUES (1, 'a', 5)""",
    )
    files = reading(database, "SELECT * FROM orders", {"orders": source("My Shop.order")})
    folder = project(files)
    folder.run("read")
    assert folder.rows("read") == [{"id": 1, "order": "a", 'Net "total"': 5, "twice": 10}]


def test_nan_in_a_numeric_is_an_error(database, project):
    execute(database, "CREATE TABLE unsure (id int, amount numeric(10, 2))", "INSERT INTO unsure VALUES (1, 'NaN')")
    folder = project(reading(database, "SELECT * FROM unsure", {"unsure": source("unsure")}))
    with pytest.raises(RivetError, match="the column amount holds NaN"):
        folder.run("read")


def test_a_condition_on_a_time_means_the_same_in_any_zone_of_the_jvm(database, project, application):
    """Spark writes the time into the condition in the JVM's zone, which is not that of the session."""
    execute(
        database,
        "CREATE TABLE hours (id int, at timestamptz)",
        "INSERT INTO hours SELECT n, timestamptz '2026-01-01 00:00Z' + n * interval '1 hour' "
        "FROM generate_series(0, 23) n",
    )
    query = "SELECT id FROM hours WHERE at > TIMESTAMP '2026-01-01 05:00:00Z'"
    folder = project(reading(database, query, {"hours": source("hours")}))
    with application.session() as session:
        zones = session.spark._jvm.java.util.TimeZone
        before = zones.getDefault()
        try:
            for zone in ("America/New_York", "UTC"):
                zones.setDefault(zones.getTimeZone(zone))
                folder.run("read")
                assert {row["id"] for row in folder.rows("read")} == {*range(6, 24)}
        finally:
            zones.setDefault(before)
