"""Partitions: declarations, effects on the plan, and the rows of a window."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from support.projects import compile_joints, groups, python, reasons, sink, source, sql

from rivet_dagster.cli.compile.command import plan_mermaid
from rivet_dagster.cli.compile.outline import plan_text
from rivet_dagster.compiler.diff import ChangedJoint, diff_plans
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError
from rivet_dagster.model.joint import Joint
from rivet_dagster.model.partitions import Partitions, Window, parse_partitions
from rivet_dagster.sql.partitions import rows_by_key, rows_in_window
from rivet_dagster.sql.target import parameters

DAILY = {"type": "daily", "column": "day", "start": "2024-01-01"}
REGIONS = {"type": "static", "column": "region", "values": ["eu", "us"]}
QUERY = "SELECT * FROM {}"
BERLIN = ZoneInfo("Europe/Berlin")


def chain(raw=DAILY, a=DAILY, b=DAILY, out=DAILY) -> CompiledAssembly:
    return compile_joints(
        source("raw", partitions=raw),
        sql("a", QUERY.format("raw"), partitions=a),
        sql("b", QUERY.format("a"), partitions=b),
        sink("out", "b", partitions=out),
    )


# declarations


def test_the_same_declaration_in_python():
    declared = Joint(name="a", type="sql", sql="SELECT 1 AS day", partitions=DAILY)
    assert declared.partitions == Partitions("daily", "day", "2024-01-01")
    by_date = Joint(name="a", type="sql", sql="SELECT 1 AS day", partitions={**DAILY, "start": date(2024, 1, 1)})
    assert by_date == declared == Joint(name="a", type="sql", sql="SELECT 1 AS day", partitions=declared.partitions)
    with pytest.raises(RivetError, match=r"RVT-213.*needs `start`"):
        Joint(name="a", type="sql", sql="SELECT 1", partitions={"type": "daily", "column": "day"})
    with pytest.raises(RivetError, match=r"RVT-213.*must be a mapping"):
        Joint(name="a", type="sql", sql="SELECT 1", partitions="daily")


def test_hourly_partitions_start_on_a_date_or_at_an_hour():
    for start in ("2024-01-01", "2024-01-01T05:00", datetime(2024, 1, 1, 5)):
        assert parse_partitions({**DAILY, "type": "hourly", "start": start}).start in ("2024-01-01", "2024-01-01T05:00")
    for start in ("2024-01-01T05:00Z", "2024-01-01T05:30", "2024-01", "today", 20240101, True, None):
        with pytest.raises(ValueError, match="start"):
            parse_partitions({**DAILY, "type": "hourly", "start": start})


# the plan


def test_equal_partitions_fuse():
    assert groups(chain()) == {"out": ("raw", "a", "b", "out")}


def test_fused_joints_may_have_different_partition_columns():
    assert groups(chain(raw={**DAILY, "column": "at"})) == {"out": ("raw", "a", "b", "out")}


@pytest.mark.parametrize(
    "other",
    [None, REGIONS, {**DAILY, "type": "weekly"}, {**DAILY, "start": "2024-01-02"}, {**DAILY, "end": "2025-01-01"},
     {**DAILY, "timezone": "Europe/Berlin"}],
)  # fmt: skip
def test_different_partitions_end_a_group(other):
    plan = chain(b=other, out=other)
    assert groups(plan) == {"a": ("raw", "a"), "out": ("b", "out")}
    assert reasons(plan) == {"a": "partition_boundary"}


def test_a_source_with_other_partitions_than_its_reader_is_not_fused():
    plan = chain(raw=None)
    assert groups(plan) == {"raw": ("raw",), "out": ("a", "b", "out")}
    assert reasons(plan) == {}


def test_other_fusion_rules_take_precedence():
    joint, functions = python("model", "a", partitions=REGIONS)
    plan = compile_joints(sql("a", "SELECT 1 AS day", partitions={**REGIONS, "column": "day"}), joint,
                          sql("b", QUERY.format("model")), functions=functions)  # fmt: skip
    assert reasons(plan) == {"a": "python_boundary", "model": "python_boundary"}


def test_partitions_are_part_of_the_plan_and_survive_json():
    plan = chain()
    assert plan.joint("a").partitions == Partitions("daily", "day", "2024-01-01")
    assert CompiledAssembly.from_json(plan.to_json()) == plan
    (raw,) = [joint for joint in json.loads(plan.to_json())["joints"] if joint["name"] == "raw"]
    assert raw["partitions"] == {
        "type": "daily", "column": "day", "start": "2024-01-01", "end": None, "timezone": "UTC", "values": [],
    }  # fmt: skip
    assert CompiledAssembly.from_json(chain(REGIONS, REGIONS, REGIONS, REGIONS).to_json()).joint("a").partitions == (
        Partitions("static", "region", values=("eu", "us"))
    )


def test_partitions_are_part_of_the_code_version():
    versions = {
        chain(a=a).joint("a").code_version
        for a in (None, DAILY, REGIONS, {**DAILY, "column": "at"}, {**DAILY, "end": "2024-02-01"})
    }
    assert len(versions) == 5
    assert diff_plans(chain(), chain(out={**DAILY, "column": "at"})).changed == (ChangedJoint("out", "own"),)


def test_partitions_are_shown_in_the_plan_text():
    text = plan_text(chain(raw=None, b=REGIONS, out=REGIONS))
    assert "    parts   daily from 2024-01-01 UTC by day\n" in text
    assert "    parts   static (eu, us) by region\n" in text
    assert "reads a: b has other partitions\n" in text
    drawn = plan_mermaid(chain(b=None, out=None))
    assert "raw<br/>lake.raw<br/>daily by day" in drawn
    assert "stored: its reader has other partitions" in drawn
    alone = plan_text(chain(a=None, b=None, out=None))
    assert "    parts   daily from 2024-01-01 UTC by day\n    alone   a has other partitions\n" in alone


def test_parameters_are_distinguished_from_paths_strings_and_comments():
    text = "SELECT v:partition_end, a::date, ':partition_keys', x[0]:partition_end\n"
    text += "-- :partition_end\nFROM t WHERE :partition_start < f(:b)"
    assert parameters(text) == {"partition_start": 3, "b": 3}


# windows


def window(partitions: Partitions, start: datetime, end: datetime) -> Window:
    return Window(partitions, ("key",), (start.astimezone(UTC), end.astimezone(UTC)))


@pytest.mark.parametrize(
    ("kind", "bounds"),
    [
        ("timestamp", (datetime(2024, 3, 30, 23, tzinfo=UTC), datetime(2024, 3, 31, 22, tzinfo=UTC))),
        ("timestamp_ntz", ("2024-03-31 00:00:00", "2024-04-01 00:00:00")),
        ("date", (date(2024, 3, 31), date(2024, 4, 1))),
        ("string", ("2024-03-31", "2024-04-01")),
    ],
)
def test_the_bounds_have_the_type_of_the_column(kind, bounds):
    day = Partitions("daily", "at", "2024-01-01", timezone="Europe/Berlin")
    chosen = window(day, datetime(2024, 3, 31, tzinfo=BERLIN), datetime(2024, 4, 1, tzinfo=BERLIN))
    text, values = rows_in_window("x", day, kind, chosen)
    assert tuple(values.values()) == bounds
    cast = "CAST(:{} AS TIMESTAMP_NTZ)" if kind == "timestamp_ntz" else ":{}"
    assert text == (
        f"SELECT * FROM `x` WHERE `at` >= {cast.format('rivet_from')} AND `at` < {cast.format('rivet_until')}"
    )


def test_a_date_matches_the_hours_of_its_day_and_a_day_ends_with_its_last_instant():
    day = Partitions("daily", "day", "2024-01-01", timezone="America/Sao_Paulo")
    zone = ZoneInfo("America/Sao_Paulo")
    hour = datetime(2024, 1, 5, 7, tzinfo=zone)
    _, values = rows_in_window("x", day, "date", window(day, hour, hour + timedelta(hours=1)))
    assert tuple(values.values()) == (date(2024, 1, 5), date(2024, 1, 6))
    # Daylight saving time began there at midnight: the third of November ended, and the fourth began, at one o'clock.
    ends = datetime(2018, 11, 4, 3, tzinfo=UTC).astimezone(zone)
    assert ends.hour == 1
    _, values = rows_in_window("x", day, "date", window(day, datetime(2018, 11, 3, tzinfo=zone), ends))
    assert tuple(values.values()) == (date(2018, 11, 3), date(2018, 11, 4))


def test_keys_are_the_texts_of_column_values():
    regions = Partitions("static", "region", values=("eu", "us", "'; --"))
    text, values = rows_in_window("x", regions, "string", Window(regions, ("us", "'; --")))
    assert text == "SELECT * FROM `x` WHERE `region` IN (:rivet_key_0, :rivet_key_1)"
    assert values == {"rivet_key_0": "us", "rivet_key_1": "'; --"}
    assert "CAST(`region` AS STRING) IN" in rows_in_window("x", regions, "int", Window(regions, ("us",)))[0]


def test_each_key_has_its_row_count():
    regions = Partitions("static", "region", values=("eu", "us", "ap"))
    found = [{"moment": "ap", "rows": 3}]
    assert rows_by_key(found, "string", Window(regions, ("us", "ap"))) == {"us": 0, "ap": 3}
    months = Partitions("monthly", "day", "2024-01-01", timezone="Europe/Berlin")
    bounds = tuple(datetime(2024, month, 1, tzinfo=BERLIN).astimezone(UTC) for month in (1, 2, 3))
    days = [{"moment": date(2024, month, day), "rows": day} for month in (1, 2) for day in (1, 29)]
    chosen = Window(months, ("2024-01-01", "2024-02-01"), bounds)
    assert rows_by_key(days, "date", chosen) == {"2024-01-01": 30, "2024-02-01": 30}


def test_a_run_is_identified_by_its_keys():
    day, regions = parse_partitions(DAILY), parse_partitions(REGIONS)
    found = [Window(day, ("2024-01-01",)), Window(day, ("2024-01-01", "2024-01-02")), Window(regions, ("eu",)),
             Window(regions, ("eu", "us"))]  # fmt: skip
    assert [str(one) for one in found] == ["2024-01-01", "2024-01-01...2024-01-02", "eu", "['eu', 'us']"]
