"""Which errors of earlier versions still hold, against a model in Python."""

import json
import random
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from support.error_tables import COLUMNS, SCHEMA

from rivet_dagster.catalogs.rewriting.error_retention import retained_errors
from rivet_dagster.definitions.partitions import window
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.model.partitions import parse_partitions
from rivet_dagster.model.relations import ArrowRows
from rivet_dagster.model.write_plan import (
    Append,
    AppendNewer,
    DeleteInsert,
    History,
    Refresh,
    ReplaceAll,
    ReplacePartitions,
    Upsert,
)
from rivet_dagster.sql.write_strategies.error_keys import key_columns, key_of

DAYS = [date(2024, 1, day) for day in range(1, 6)]
DAILY = parse_partitions({"type": "daily", "column": "day", "start": "2024-01-01", "timezone": "Europe/Berlin"})
KEYED = [
    Upsert(keys=("id",)),
    Upsert(keys=("day", "ID")),
    History(keys=("id",), effective_at="day"),
    DeleteInsert(columns=("id", "day"), by_partition=True),
    ReplacePartitions(column="day"),
]
REFRESHED = Refresh(plan=Upsert(keys=("id",)))


@pytest.fixture
def session(quick_session):
    return quick_session


def rows(table: pa.Table) -> ArrowRows:
    return ArrowRows(table.schema, table.to_reader)


def batch(*values: tuple[int | None, date | None]) -> pa.Table:
    ids, days = zip(*values, strict=True) if values else ((), ())
    return pa.table({"id": pa.array(ids, pa.int64()), "day": pa.array(days, pa.date32())})


def error(key: str | None, message: str = "", **fields: str | int | None) -> dict:
    given = dict.fromkeys(COLUMNS, "x") | {
        "line": 1,
        "found_at": None,
        "file": None,
        "key": key,
        "message": message,
        "version": message,
    }
    return given | fields


def frame_of(session: EngineSession, errors: list[dict]):
    return session.from_value(pa.Table.from_pylist(errors, SCHEMA))


def stay(session, plan, base, new, batch_rows, covered=None) -> list[dict]:
    """Return the errors that stay, in order."""
    given = rows(pa.Table.from_pylist(base, SCHEMA))
    with session.views():
        frame = retained_errors(plan, session, given, frame_of(session, new), rows(batch_rows), covered)
    if frame is None:
        return []
    found = session.to_arrow(frame)
    assert found.schema.names == list(COLUMNS)
    return sorted(found.to_pylist(), key=lambda row: row["message"])


def keys_of(session: EngineSession, columns: tuple[str, ...], table: pa.Table) -> list[str]:
    """Return the key of each row, as Spark writes it."""
    with session.views():
        session.register("keyed", session.load(rows(table)))
        key = key_of(columns, "keyed").sql(dialect="databricks")
        return [row["key"] for row in session.rows(f"SELECT {key} AS key FROM keyed")]


def test_equal_values_give_equal_keys(session):
    """NULLs are in it, and so are microseconds, and the time zone of the session is not."""
    moment = datetime(2024, 7, 1, 10, 0, 0, 123456, UTC)
    table = pa.table(
        {
            "id": pa.array([1, None], pa.int64()),
            "day": pa.array([date(2024, 1, 1)] * 2),
            "a b`c": pa.array(["x'\\\"", ""]),
            "at": pa.array([moment] * 2, pa.timestamp("us", "UTC")),
            "local": pa.array([moment.replace(tzinfo=None)] * 2, pa.timestamp("us")),
        }
    )
    found = keys_of(session, tuple(table.column_names), table)
    times = {"at": "2024-07-01T10:00:00.123456Z", "local": "2024-07-01T10:00:00.123456"}
    assert [json.loads(key) for key in found] == [
        {"id": 1, "day": "2024-01-01", "a b`c": "x'\\\"", **times},
        {"id": None, "day": "2024-01-01", "a b`c": "", **times},
    ]
    assert keys_of(session, ("id", "day"), table)[0] == '{"id":1,"day":"2024-01-01"}'


@pytest.mark.nightly(but=3)
@pytest.mark.parametrize("plan", KEYED, ids=lambda plan: f"{type(plan).__name__} {key_columns(plan)}")
def test_errors_of_the_keys_of_the_batch_and_of_new_errors_are_outdated(session, plan):
    chance = random.Random(4)
    columns = key_columns(plan)

    def rows_at_random(count: int) -> list[tuple[int | None, date | None]]:
        return [(chance.choice([None, *range(6)]), chance.choice([None, *DAYS])) for _ in range(count)]

    def errors_at_random(count: int, name: str) -> list[dict]:
        keys = keys_of(session, columns, batch(*rows_at_random(count)))
        return [
            error(chance.choice([key, key, None]), f"{name}{number:03}", row=chance.choice("abc"), file=file)
            for number, (key, file) in enumerate(zip(keys, chance.choices([None, "a.sql"], k=count), strict=True))
        ]

    for size in (0, 4):
        base, new, given = errors_at_random(60, "old"), errors_at_random(size, "new"), rows_at_random(size)
        replaced = {values(columns, row) for row in given} | {parsed(e["key"]) for e in new if e["key"]}
        repeated = {(e["file"], e["row"]) for e in new}
        expected = [
            e for e in base
            if (parsed(e["key"]) not in replaced if e["key"] else (e["file"], e["row"]) not in repeated)
        ]  # fmt: skip
        assert stay(session, plan, base, new, batch(*given)) == expected
        assert size == 0 or 0 < len(expected) < len(base)


def values(columns: tuple[str, ...], row: tuple[int | None, date | None]) -> tuple:
    """Return the values of a row in these columns."""
    by_name = {"id": row[0], "day": row[1] and row[1].isoformat()}
    return tuple(by_name[column.lower()] for column in columns)


def parsed(key: str) -> tuple:
    """Return the values in a key."""
    return tuple(json.loads(key).values())


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("field", ["joint", "code", "expression", "file", "row"])
def test_an_error_without_a_key_is_outdated_by_the_same_error_alone(session, field):
    base, plan = [error(None, "old", file="a.sql")], Upsert(keys=("id",))
    for new, expected in ((error(None, "new", file="a.sql", line=9), []), (base[0] | {field: "other"}, base)):
        assert stay(session, plan, base, [new], batch()) == expected
    assert stay(session, plan, base, [error('{"id":1}', file="a.sql")], batch()) == []


@pytest.mark.parametrize("plan", [Append(), AppendNewer(column="day")])
def test_all_errors_of_appended_rows_stay(session, plan):
    base = [error(None, "1"), error('{"id":1}', "2")]
    assert stay(session, plan, base, base, batch((1, DAYS[0]))) == base


@pytest.mark.parametrize("plan", [ReplaceAll(), ReplaceAll(keeps_table=True), REFRESHED])
def test_no_error_of_replaced_rows_stays(session, plan):
    assert stay(session, plan, [error(None)], [], batch()) == []


@pytest.mark.parametrize("plan", [ReplaceAll(), Append(), Upsert(keys=("id",))])
def test_without_an_earlier_error_table_none_stays(session, plan):
    covered = window(DAILY, ["2024-01-01"])
    assert retained_errors(plan, session, None, frame_of(session, []), rows(batch()), covered) is None


@pytest.mark.parametrize("keys", [["2024-01-02"], ["2024-01-02", "2024-01-03"]])
def test_errors_of_other_partitions_stay(session, keys):
    base = [error(key, str(number)) for number, key in enumerate(keys_of(session, ("day",), batch(*BY_DAY)))]
    covered = window(DAILY, keys)
    expected = [e for e in base if json.loads(e["key"])["day"] not in keys]
    assert stay(session, ReplaceAll(), base, [], batch(), covered) == expected
    assert len(expected) == len(base) - len(keys)


BY_DAY = [(None, None), *((1, day) for day in DAYS)]


def test_errors_of_no_partition_stay_until_they_are_repeated(session):
    base = [
        error(key, str(n), row=str(n)) for n, key in enumerate([None, '{"day":null}', "{}", '{"day":"2024-01-09"}'])
    ]
    new = [error(None, "new", row=row) for row in "012"]
    covered = window(DAILY, ["2024-01-01"])
    assert stay(session, ReplaceAll(), base, [], batch(), covered) == base
    assert stay(session, ReplaceAll(), base, new, batch(), covered) == base[3:]
    assert stay(session, ReplaceAll(), base, new[:1], batch(), covered) == base[1:]


def test_a_full_refresh_of_partitions_outdates_errors_by_key_or_as_the_same(session):
    covered, given = window(DAILY, ["2024-01-01"]), batch((1, DAYS[0]))
    base = [error(None, "1", row="a"), error('{"id":1}', "2"), error('{"id":2}', "3")]
    assert stay(session, REFRESHED, base, [error(None, row="a")], given, covered) == base[2:]
    appended = Refresh(plan=AppendNewer(column="day"))
    assert stay(session, appended, base[:1], [error(None, row="a")], given, covered) == []
    assert stay(session, appended, base[:1], [error(None, row="b")], given, covered) == base[:1]


MOMENTS = [datetime(2024, 1, 1, hour, minute, tzinfo=UTC) for hour, minute in ((21, 59), (22, 0), (22, 59), (23, 0))]
REGIONS = {"type": "static", "column": "code", "values": ["eu", "us"]}
HOURLY = {"type": "hourly", "column": "row", "start": "2024-01-01T00:00"}
ODD = "a b`c'\\d"


@pytest.mark.parametrize(
    ("partitions", "array", "keys", "expected"),
    [
        (HOURLY, pa.array(MOMENTS, pa.timestamp("us", "UTC")), ["2024-01-01-22:00"], [0, 3]),
        (HOURLY, pa.array([m.replace(tzinfo=None) for m in MOMENTS], pa.timestamp("us")), ["2024-01-01-22:00"], [0, 3]),
        (REGIONS, pa.array(["us", "eu", "de", None]), ["us"], [1, 2, 3]),
        (REGIONS | {"column": ODD, "values": ["1", "2"]}, pa.array([1, 2, 3, None], pa.int32()), ["1", "2"], [2, 3]),
        (REGIONS | {"values": ["true"]}, pa.array([True, False, None, True]), ["true"], [1, 2]),
        ({"type": "daily", "column": "day", "start": "2024-01-01"}, pa.array(["2024-01-01", "2024-01-02", "x", ""]),
         ["2024-01-02"], [0, 2, 3]),
    ],
    ids=["timestamp", "local time", "text", "number", "truth", "day as text"],
)  # fmt: skip
def test_the_value_of_a_partition_column_has_its_type(session, partitions, array, keys, expected):
    """The column may be called like one of an error."""
    given = parse_partitions(partitions)
    table = pa.table({given.column: array})
    columns = key_columns(ReplaceAll(), given)
    base = [error(key, str(number)) for number, key in enumerate(keys_of(session, columns, table))]
    found = stay(session, ReplaceAll(), base, [], table, window(given, keys))
    assert [int(e["message"]) for e in found] == expected


def test_views_of_the_run_are_restored(session):
    with session.views():
        for name in ("errors", "new_errors", "batch", "placed_errors"):
            session.register(name, session.from_value(pa.table({"mine": [1]})))
        stay(session, Upsert(keys=("id",)), [error(None)], [], batch())
        stay(session, ReplaceAll(), [error(None)], [], batch(), window(DAILY, ["2024-01-01"]))
        found = session.rows("SELECT * FROM errors, new_errors, batch, placed_errors")
        assert [list(row) for row in found] == [["mine"]]


def test_the_keys_of_a_batch_are_not_computed_where_no_errors_are_retained(session):
    none = rows(pa.Table.from_pylist([], SCHEMA))
    for plan in KEYED:
        assert retained_errors(plan, session, none, frame_of(session, []), rows(batch())) is None
