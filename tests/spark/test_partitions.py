"""Rows that a partitioned run reads, by columns of every type, and its SQL parameters."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.folders import in_order, sink, source

from rivet_dagster.definitions.partitions import window
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.inputs import reference
from rivet_dagster.model.partitions import Window, parse_partitions
from rivet_dagster.sql.partitions import rows_by_key, rows_by_moment

ZONE = ZoneInfo("America/New_York")
"""Neither the session's time zone nor that of the process."""


def partitions(type_: str, column: str, start: str = "2024-01-01", **more) -> dict:
    return {"type": type_, "column": column, "start": start, "timezone": "America/New_York", **more}


def covering(declared: dict, *keys: str) -> Window:
    return window(parse_partitions(declared), keys)


def events(begin: datetime, hours: int) -> tuple[bytes, pd.DataFrame]:
    """Return an event for each half hour, with its time in every supported column type, and one without a time."""
    moments = [begin + timedelta(minutes=30 * n) for n in range(2 * hours)]
    local = [moment.astimezone(ZONE) for moment in moments]
    columns = {
        "id": pa.array([*range(len(moments)), -1], pa.int64()),
        "at": pa.array([*moments, None], pa.timestamp("us", "UTC")),
        "clock": pa.array([*(one.replace(tzinfo=None) for one in local), None], pa.timestamp("us")),
        "day": pa.array([*(one.date() for one in local), None], pa.date32()),
        "text": pa.array([*(one.date().isoformat() for one in local), None], pa.string()),
        "iso": pa.array([*(one.isoformat() for one in local), None], pa.string()),
    }
    table, file = pa.table(columns), io.BytesIO()
    pq.write_table(table, file)
    return file.getvalue(), table.to_pandas()


def files(declared: dict, content: bytes, query: str = "SELECT id FROM events") -> dict:
    return {
        "lake/events.parquet": content,
        "sources/events.yaml": {
            "type": "source", "catalog": "lake", "table": "events.parquet", "partitions": declared,
        },
        "joints/kept.sql": query,
        "joints/made.py": "# rivet:partitions: " + str(declared) + "\ndef transform(events):\n"
        "    assert events.row_count == events.to_arrow().num_rows\n    return events.to_arrow()\n",
        "sinks/out.yaml": sink("out", "made", partitions=declared),
    }  # fmt: skip


def ids(table: pa.Table) -> list[int]:
    return sorted(table.column("id").to_pylist())


def counted(engine, folder, declared: dict, kind: str, chosen: Window) -> dict[str, int]:
    """Return the row counts of the source's partitions by key."""
    session = engine.session()
    session.register("counted", reference(folder.runtime, "events").frame_in(session))
    query = rows_by_moment("counted", parse_partitions(declared), kind, chosen)
    found = rows_by_key(session.rows(*query), kind, chosen)
    session.close()
    return found


# Daylight saving time begins on the tenth of March and ends on the third of November.
@pytest.mark.nightly(but=3)
@pytest.mark.parametrize("begin", [datetime(2024, 3, 8, tzinfo=UTC), datetime(2024, 11, 1, tzinfo=UTC)])
@pytest.mark.parametrize("column", ["at", "clock", "day", "text", "iso"])
def test_a_range_of_days_reads_its_own_rows_by_a_column_of_any_type(project, application, begin, column):
    content, frame = events(begin, 24 * 5)
    declared = partitions("daily", column)
    first = (begin + timedelta(days=1)).date()
    chosen = covering(declared, *(str(first + timedelta(days=n)) for n in range(3)))
    folder = project(files(declared, content))
    found = reference(folder.runtime, "events", chosen).to_arrow()
    days = frame["at"].dt.tz_convert("America/New_York").dt.date
    expected = frame[(days >= first) & (days < first + timedelta(days=3))]
    assert ids(found) == sorted(expected["id"])
    kind = {"at": "timestamp", "clock": "timestamp_ntz", "day": "date"}.get(column, "string")
    assert counted(application, folder, declared, kind, chosen) == {
        str(day): int(n) for day, n in days.value_counts().items() if str(day) in chosen.keys
    }
    assert len(expected) == 2 * 24 * 3 + (2 if begin.month == 11 else -2)
    assert found.num_columns == len(frame.columns)


@pytest.mark.parametrize(("key", "first_id"), [("2024-11-03-01:00", 2), ("2024-11-03-01:00-0500", 4)])
def test_the_repeated_hour_of_a_clock_change_is_two_partitions(project, key, first_id):
    content, _ = events(datetime(2024, 11, 3, 4, tzinfo=UTC), 6)
    declared = partitions("hourly", "at")
    folder = project(files(declared, content))
    found = reference(folder.runtime, "events", covering(declared, key)).to_arrow()
    assert ids(found) == [first_id, first_id + 1]


def test_each_clock_time_belongs_to_one_hour(project, application):
    content, frame = events(datetime(2024, 11, 3, 4, tzinfo=UTC), 6)
    declared = partitions("hourly", "clock")
    folder = project(files(declared, content))
    keys = ["2024-11-03-00:00", "2024-11-03-01:00", "2024-11-03-01:00-0500", "2024-11-03-02:00", "2024-11-03-03:00",
            "2024-11-03-04:00"]  # fmt: skip
    found = [id for key in keys for id in ids(reference(folder.runtime, "events", covering(declared, key)).to_arrow())]
    assert sorted(found) == sorted(frame["id"].drop(frame.index[-1]))
    counts = counted(application, folder, declared, "timestamp_ntz", covering(declared, *keys[:4]))
    assert counts == dict(zip(keys[:4], (2, 0, 4, 2), strict=True))
    at = counted(application, folder, declared | {"column": "at"}, "timestamp", covering(declared, *keys[:4]))
    assert at == dict.fromkeys(keys[:4], 2)


@pytest.mark.parametrize(("type_", "key", "first", "beyond"), [
    ("weekly", "2024-03-03", date(2024, 3, 3), date(2024, 3, 10)),
    ("monthly", "2024-03-01", date(2024, 3, 1), date(2024, 4, 1)),
])  # fmt: skip
def test_weeks_and_months(project, application, type_, key, first, beyond):
    content, frame = events(datetime(2024, 2, 25, tzinfo=UTC), 24 * 40)
    declared = partitions(type_, "at")
    folder = project(files(declared, content))
    days = frame["at"].dt.tz_convert("America/New_York").dt.date
    expected = frame[(days >= first) & (days < beyond)]
    chosen = covering(declared, key)
    assert ids(reference(folder.runtime, "events", chosen).to_arrow()) == sorted(expected["id"])
    assert counted(application, folder, declared, "timestamp", chosen) == {key: len(expected)}


def test_a_python_joint_gets_the_rows_of_its_window(project):
    content, frame = events(datetime(2024, 3, 8, tzinfo=UTC), 24 * 3)
    declared = partitions("daily", "day")
    folder = project(files(declared, content))
    folder.run("made", window=covering(declared, "2024-03-08", "2024-03-09"))
    made = folder.table("made", ".rivet/workspace")
    assert ids(made) == sorted(frame[frame["day"].isin([date(2024, 3, 8), date(2024, 3, 9)])]["id"])
    folder.run("out", window=covering(declared, "2024-03-09"))
    assert ids(folder.table("out")) == sorted(frame[frame["day"] == date(2024, 3, 9)]["id"])


def test_a_joint_without_partitions_reads_everything_and_is_read_completely(project):
    content, frame = events(datetime(2024, 3, 8, tzinfo=UTC), 24 * 3)
    declared = partitions("daily", "day")
    names = "SELECT * FROM VALUES (0, 'zero'), (60, 'sixty') AS t(id, name)"
    joined = f"-- rivet:partitions: {declared}\nSELECT events.*, name FROM events LEFT JOIN names USING (id)"
    folder = project({
        **files(declared, content), "joints/names.sql": f"-- rivet:eager: true\n{names}", "joints/joined.sql": joined,
    })  # fmt: skip
    folder.run("names")
    folder.run("joined", window=covering(declared, "2024-03-09"))
    found = folder.table("joined", ".rivet/workspace").to_pandas()
    assert sorted(found["id"]) == sorted(frame[frame["day"] == date(2024, 3, 9)]["id"])
    assert list(found["name"].dropna()) == ["sixty"]
    folder.run("kept")
    assert ids(folder.table("kept", ".rivet/workspace")) == sorted(frame["id"])


def test_hourly_joints_read_daily_upstreams_and_daily_joints_hourly_ones(project):
    content, frame = events(datetime(2024, 3, 8, tzinfo=UTC), 24 * 3)
    hours, days = partitions("hourly", "at"), partitions("daily", "day")
    folder = project(files(days, content))
    by_day = reference(folder.runtime, "events", covering(hours, "2024-03-09-05:00")).to_arrow()
    assert ids(by_day) == sorted(frame[frame["day"] == date(2024, 3, 9)]["id"])
    folder = project(files(hours, content))
    by_hour = reference(folder.runtime, "events", covering(days, "2024-03-09")).to_arrow()
    assert ids(by_hour) == ids(by_day)


def test_the_query_can_use_the_bounds_of_its_window(project):
    content, _ = events(datetime(2024, 3, 8, tzinfo=UTC), 1)
    declared = partitions("daily", "started")
    query = f"""-- rivet:partitions: {declared}
-- rivet:eager: true
WITH bounds AS (SELECT :partition_start AS started, :partition_end AS ended)
SELECT *, :partition_keys AS keys, typeof(started) AS kind, typeof(:partition_keys) AS kinds,
  ':partition_start' AS text
FROM bounds"""
    folder = project(files(declared, content, query))
    folder.run("kept", window=covering(declared, "2024-03-09", "2024-03-10"))
    assert folder.table("kept", ".rivet/workspace").to_pylist() == [{
        "started": datetime(2024, 3, 9, 5, tzinfo=UTC), "ended": datetime(2024, 3, 11, 4, tzinfo=UTC),
        "keys": ["2024-03-09", "2024-03-10"], "kind": "timestamp", "kinds": "array<string>",
        "text": ":partition_start",
    }]  # fmt: skip


def test_an_error_in_a_query_with_parameters_has_its_line(project):
    content, _ = events(datetime(2024, 3, 8, tzinfo=UTC), 1)
    declared = partitions("daily", "day")
    columns = "SELECT day,\n  :partition_start AS s,\n  no_such_function(day) AS f"
    query = f"-- rivet:partitions: {declared}\n{columns}\nFROM events"
    folder = project(files(declared, content, query))
    with pytest.raises(RivetError, match=r"RVT-503 joints/kept\.sql:4: joint kept.*no_such_function"):
        folder.run("kept", window=covering(declared, "2024-03-09"))


def test_static_keys_select_strings_and_numbers(project):
    orders = "region,n\neu,1\nus,2\nap,3\n,4\n"
    for column, values, chosen, rows in (
        ("region", ["eu", "us", "ap"], ["us", "ap"], [2, 3]), ("n", ["1", "2", "3", "04"], ["3", "04"], [3]),
    ):  # fmt: skip
        declared = {"type": "static", "column": column, "values": values}
        folder = project({
            "data/orders.csv": orders,
            "sources/orders.yaml": source("orders", "region STRING, n INT", partitions=declared),
            "sinks/out.yaml": sink(f"out_{column}", "orders", partitions=declared),
        })  # fmt: skip
        folder.run("out", window=covering(declared, *chosen))
        assert folder.rows(f"out_{column}") == in_order(
            {"region": r, "n": n} for n, r in ((2, "us"), (3, "ap")) if n in rows
        )


def test_an_upstream_with_other_keys_is_read_completely(project):
    letters = {"type": "static", "column": "region", "values": ["eu", "us"]}
    folder = project({
        "data/orders.csv": "region,n\neu,1\nus,2\n",
        "sources/orders.yaml": source("orders", "region STRING, n INT", partitions=letters),
        "sinks/out.yaml": sink("out", "orders", partitions={**letters, "column": "n", "values": ["1"]}),
    })  # fmt: skip
    runtime = folder.runtime
    other = covering({**letters, "column": "n", "values": ["1"]}, "1")
    assert reference(runtime, "orders", other).row_count == 2
    assert reference(runtime, "orders", covering(letters, "eu")).row_count == 1


def test_a_column_that_cannot_give_partitions_is_an_error(project):
    declared = partitions("daily", "day")
    folder = project({
        "joints/made.py": f"# rivet:partitions: {declared}\nimport pandas as pd\n\ndef transform():\n"
        "    return pd.DataFrame({'id': [1], 'day': [1.5]})\n",
        "joints/other.py": f"# rivet:partitions: {declared}\nimport pandas as pd\n\ndef transform():\n"
        "    return pd.DataFrame({'id': [1]})\n",
    })  # fmt: skip
    chosen = covering(declared, "2024-03-09")
    for name in ("made", "other"):
        folder.run(name)
    with pytest.raises(RivetError, match=r"RVT-322 joints/made\.py.*'day' is of type double, which tells no daily key"):
        reference(folder.runtime, "made", chosen).to_arrow()
    with pytest.raises(RivetError, match=r"RVT-322 joints/other\.py.*'day' is none of id"):
        reference(folder.runtime, "other", chosen).to_arrow()


def test_an_unstored_joint_with_window_parameters_is_read_only_in_a_window(project):
    content, frame = events(datetime(2024, 3, 8, tzinfo=UTC), 24 * 3)
    declared = partitions("daily", "day")
    folder = project({
        **files(declared, content, f"-- rivet:partitions: {declared}\nSELECT *, :partition_start AS s FROM events"),
        "sinks/out.yaml": sink("out", "kept", partitions=declared),
    })  # fmt: skip
    with pytest.raises(RivetError, match=r"RVT-323 joints/kept\.sql.*only a run of its partitions.*:partition_start"):
        reference(folder.runtime, "kept").to_arrow()
    found = reference(folder.runtime, "kept", covering(declared, "2024-03-09")).to_arrow()
    assert ids(found) == sorted(frame[frame["day"] == date(2024, 3, 9)]["id"])
    assert set(found["s"].to_pylist()) == {datetime(2024, 3, 9, 5, tzinfo=UTC)}


def test_a_range_is_one_query(project, sql_executions):
    content, frame = events(datetime(2024, 3, 8, tzinfo=UTC), 24 * 3)
    declared = partitions("daily", "day")
    folder = project({
        **files(declared, content, f"-- rivet:partitions: {declared}\nSELECT * FROM events"),
        "sinks/out.yaml": sink("out", "kept", partitions=declared),
    })  # fmt: skip
    assert folder.assembly.group("out").joints == ("kept", "out")
    sql_executions.since()
    folder.run("out", window=covering(declared, "2024-03-08", "2024-03-09"))
    assert sql_executions.since() == 2  # the query, and its row count for each partition
    assert ids(folder.table("out")) == sorted(frame[frame["day"].isin([date(2024, 3, 8), date(2024, 3, 9)])]["id"])
