"""Schedules of a selection: requests of their ticks, and their runs."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import dagster as dg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.folders import MANIFEST, ProjectFolder, sink, source
from support.torture import examples

from rivet_dagster import RivetError, RivetProject, build_schedule_from_rivet_selection, load_definitions
from rivet_dagster.definitions.partitions import last_whole_partition

DAYS = {"type": "daily", "column": "day", "start": "2024-01-01"}
GATE = {"assertions": [{"type": "not_null", "columns": ["id"], "name": "gate"}]}
SALES = {
    "sources/orders.yaml": source("orders.csv", "id INT, day DATE", quality=GATE),
    "joints/paid.sql": "-- rivet:group: marts\nSELECT id, day FROM orders",
    "sinks/report.yaml": sink("report", "paid", group="marts"),
    "data/orders.csv": "id,day\n1,2024-01-01\n2,2024-01-02\n3,2024-01-03\n",
}
TODAY = "SELECT id, day FROM orders WHERE array_contains(:partition_keys, string(day))"
BY_DAY = {
    **SALES,
    "joints/paid.yaml": {"type": "sql", "sql": TODAY, "group": "marts", "partitions": DAYS},
    "sinks/report.yaml": sink("report", "paid", group="marts", partitions=DAYS),
}
del BY_DAY["joints/paid.sql"]


def scheduled(**schedules: Any) -> dict[str, Any]:
    return {"rivet.yaml": {**MANIFEST, "dagster": {"schedules": schedules}}}


def nightly(target: str = 'group:"marts"', **options: Any) -> dict[str, Any]:
    return {"target": target, "cron_schedule": "0 2 * * *", **options}


def tick(definitions: dg.Definitions, name: str, at: datetime) -> Any:
    schedule = definitions.resolve_schedule_def(name)
    repository = definitions.get_repository_def()
    with dg.build_schedule_context(scheduled_execution_time=at, repository_def=repository) as context:
        return schedule.evaluate_tick(context)


def selected(definitions: dg.Definitions, job: str) -> set[str]:
    """Return the assets that a job materializes, and its steps that check sources."""
    found = definitions.resolve_job_def(job)
    gates = {node.name for node in found.nodes if node.name.startswith("check__")}
    return {key.to_user_string() for key in found.asset_layer.selected_asset_keys} | gates


def test_a_schedule_runs_a_job_of_its_name_on_its_target_and_the_checks_of_its_sources(folder):
    other = {"joints/other.sql": "-- rivet:eager: true\nSELECT 1 AS id"}
    definitions = load_definitions(folder({**SALES, **other, **scheduled(nightly=nightly())}).root)
    schedule = definitions.resolve_schedule_def("nightly")
    assert (schedule.cron_schedule, schedule.job_name, schedule.execution_timezone) == ("0 2 * * *", "nightly", None)
    assert schedule.default_status is dg.DefaultScheduleStatus.STOPPED
    assert selected(definitions, "nightly") == {"paid", "report", "check__orders"}
    (request,) = tick(definitions, "nightly", datetime(2024, 1, 3, 2, tzinfo=UTC)).run_requests
    assert (request.partition_key, request.run_key) == (None, None)
    dg.Definitions.validate_loadable(definitions)


@pytest.mark.parametrize(
    ("offset", "time", "key"),
    [
        (0, datetime(2024, 1, 3, 2, tzinfo=UTC), "2024-01-02"),
        (1, datetime(2024, 1, 3, 2, tzinfo=UTC), "2024-01-01"),
        (0, datetime(2024, 1, 3, 0, tzinfo=UTC), "2024-01-02"),
        (0, datetime(2024, 1, 2, 23, 59, 59, tzinfo=UTC), "2024-01-01"),
        (0, datetime(2024, 1, 3, 0, 30, tzinfo=ZoneInfo("Europe/Berlin")), "2024-01-01"),
        (0, datetime(2024, 1, 1, 2, tzinfo=UTC), None),
        (2, datetime(2024, 1, 3, 2, tzinfo=UTC), None),
    ],
)
def test_a_tick_requests_the_last_day_that_was_complete_at_its_time(folder, offset, time, key):
    definitions = load_definitions(folder({**BY_DAY, **scheduled(nightly=nightly(partition_offset=offset))}).root)
    found = tick(definitions, "nightly", time)
    assert [request.partition_key for request in found.run_requests or []] == ([key] if key else [])
    if key is None:
        assert "is whole yet" in found.skip_message
        return
    (request,) = found.run_requests
    assert request.run_key == key
    assert request.tags["dagster/partition"] == key


DEFINITIONS = [
    dg.HourlyPartitionsDefinition(start_date=datetime(2024, 3, 30), timezone="Europe/Berlin"),
    dg.HourlyPartitionsDefinition(start_date=datetime(2024, 10, 26), timezone="America/New_York"),
    dg.DailyPartitionsDefinition(start_date="2024-03-01", timezone="Europe/Berlin"),
    dg.DailyPartitionsDefinition(start_date="2024-03-01", end_date="2024-11-01", timezone="Asia/Kolkata"),
    dg.WeeklyPartitionsDefinition(start_date="2024-03-01", timezone="America/New_York"),
    dg.MonthlyPartitionsDefinition(start_date="2024-01-15", end_date="2024-10-20"),
]


@settings(max_examples=examples(20, 100))
@given(
    definition=st.sampled_from(DEFINITIONS),
    time=st.datetimes(datetime(2024, 3, 1), datetime(2024, 11, 20), timezones=st.just(UTC)),
    offset=st.integers(0, 40),
)
def test_the_last_complete_partition_is_the_last_one_that_dagster_lists(definition, time, offset):
    keys = definition.get_partition_keys(current_time=time)
    assert last_whole_partition(definition, time, offset) == (keys[-1 - offset] if offset < len(keys) else None)


def test_a_partitioned_schedule_defaults_to_the_time_zone_of_its_partitions(folder):
    zoned = {"type": "daily", "column": "day", "start": "2024-01-01", "timezone": "Asia/Tokyo"}
    files = {**BY_DAY, "sinks/report.yaml": sink("report", "paid", group="marts", partitions=zoned)}
    files["joints/paid.yaml"] = {**BY_DAY["joints/paid.yaml"], "partitions": zoned}
    plan = scheduled(plain=nightly(), named=nightly(execution_timezone="Europe/Berlin"))
    definitions = load_definitions(folder({**files, **plan}).root)
    zones = {s.name: s.execution_timezone for s in definitions.schedules}
    assert zones == {"plain": "Asia/Tokyo", "named": "Europe/Berlin"}


def test_a_tick_on_static_partitions_requests_a_run_for_each(folder):
    regions = {"type": "static", "column": "region", "values": ["eu", "us"]}
    files = {
        "sources/orders.yaml": source("orders.csv", "id INT, region STRING"),
        "sinks/report.yaml": sink("report", "orders", group="marts", partitions=regions),
        **scheduled(nightly=nightly()),
    }
    found = tick(load_definitions(folder(files).root), "nightly", datetime(2024, 1, 3, 2, tzinfo=UTC))
    assert [(request.partition_key, request.run_key) for request in found.run_requests] == [
        ("eu", "eu"), ("us", "us"),
    ]  # fmt: skip


def test_joints_without_partitions_run_together_with_partitioned_ones(folder):
    other = {"joints/other.sql": "-- rivet:eager: true\n-- rivet:group: marts\nSELECT 1 AS id"}
    definitions = load_definitions(folder({**BY_DAY, **other, **scheduled(nightly=nightly())}).root)
    (request,) = tick(definitions, "nightly", datetime(2024, 1, 3, 2, tzinfo=UTC)).run_requests
    assert request.partition_key == "2024-01-02"
    assert selected(definitions, "nightly") == {"other", "paid", "report", "check__orders"}


def test_yaml_and_python_make_the_same_definition(folder):
    options = {"execution_timezone": "Europe/Berlin", "partition_offset": 1}
    in_yaml = load_definitions(
        folder({**BY_DAY, **scheduled(nightly=nightly(default_status="RUNNING", **options))}).root
    )
    plain = folder({**BY_DAY, **scheduled()})
    built = build_schedule_from_rivet_selection(
        RivetProject.load(plain.root),
        "nightly",
        'group:"marts"',
        "0 2 * * *",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        **options,
    )
    in_python = dg.Definitions.merge(load_definitions(plain.root), dg.Definitions(schedules=[built]))
    time = datetime(2024, 1, 5, 2, tzinfo=UTC)

    def look(definitions: dg.Definitions) -> list[Any]:
        schedule = definitions.resolve_schedule_def("nightly")
        (request,) = tick(definitions, "nightly", time).run_requests
        return [
            schedule.cron_schedule,
            schedule.execution_timezone,
            schedule.default_status,
            schedule.description,
            schedule.job_name,
            selected(definitions, "nightly"),
            request,
        ]

    assert look(in_python) == look(in_yaml)
    assert look(in_yaml)[-1].partition_key == "2024-01-03"


def test_tags_and_config_are_passed_to_the_runs(folder):
    days = {"joints/days.yaml": {**BY_DAY["joints/paid.yaml"], "eager": True}}
    config = dg.RunConfig(execution={"config": {}})
    root = folder({**SALES, **days}).root
    for target in ('key:"report"', 'key:"days"'):
        built = build_schedule_from_rivet_selection(
            RivetProject.load(root), "nightly", target, "0 2 * * *", tags={"team": "sales"}, config=config
        )
        definitions = dg.Definitions.merge(load_definitions(root), dg.Definitions(schedules=[built]))
        (request,) = tick(definitions, "nightly", datetime(2024, 1, 3, 2, tzinfo=UTC)).run_requests
        assert request.tags["team"] == "sales"
        assert request.run_config == config.to_config_dict()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"target": 'key:"nothing"'}, "RVT-115", "selects nothing"),
        ({"target": 'key:"orders"'}, "RVT-115", "only orders"),
        ({"target": "group="}, "RVT-115", "no asset selection"),
        ({"target": "column:id"}, "RVT-115", "no asset selection: Dagster resolves it in its UI alone"),
        ({"target": "key:order"}, "RVT-115", "did you mean 'orders'"),
        ({"target": "*"}, "RVT-116", "several partitions definitions"),
        ({"cron_schedule": "0 25 * * *"}, "RVT-104", "0 25 * * *"),
        ({"target": 'key:"plain"', "partition_offset": 1}, "RVT-118", "no partitions of time"),
    ],
)
def test_errors_of_a_target_and_of_dagster_name_the_key_and_line(folder, options, code, words):
    other = {
        "joints/plain.sql": "-- rivet:eager: true\nSELECT 1 AS id",
        "joints/months.yaml": {
            "type": "sql",
            "sql": "SELECT id, day FROM orders",
            "eager": True,
            "partitions": {"type": "monthly", "column": "day", "start": "2024-01-01"},
        },
    }
    block = scheduled(fine=nightly(), wrong={**nightly(), **options})
    root = folder({**BY_DAY, **other, **block}).root
    with pytest.raises(RivetError) as caught:
        load_definitions(root)
    (found,) = caught.value.diagnostics
    lines = (root / "rivet.yaml").read_text().splitlines()
    key = list(options)[-1]
    assert (found.code, found.file) == (code, "rivet.yaml")
    assert lines[found.line - 1].strip().startswith(f"{key}:")
    assert "schedule 'wrong'" in found.message
    assert words in found.message


def test_all_errors_of_the_block_are_reported_at_once(folder):
    block = {
        "schedules": {"a": nightly('key:"nothing"'), "b": nightly(cron_schedule="never"), "all": nightly()},
        "observe": {"c": {"sources": ["ordres"], "cron_schedule": "@daily"}},
        "automation": [{"target": 'key:"nobody"', "condition": "eager"}],
        "freshness": [{"target": 'key:"orders"', "cron": {"deadline_cron": "never", "lower_bound_delta": "1h"}}],
    }
    with pytest.raises(RivetError) as caught:
        load_definitions(folder({**SALES, "rivet.yaml": {**MANIFEST, "dagster": block}}).root)
    assert [(d.code, d.message.partition(":")[0]) for d in caught.value.diagnostics] == [
        ("RVT-115", "schedule 'a'"),
        ("RVT-104", "schedule 'b'"),
        ("RVT-104", "schedule 'all'"),
        ("RVT-117", "observation 'c'"),
        ("RVT-115", "automation rule 1"),
        ("RVT-104", "freshness rule 1"),
    ]
    lines = [d.line for d in caught.value.diagnostics]
    assert None not in lines
    assert len(set(lines)) == len(lines)
    assert caught.value.exit_code == 10


@pytest.mark.parametrize(
    "block",
    [
        {"schedules": {"a": nightly()}, "observe": {"a": {"sources": ["orders"], "cron_schedule": "@daily"}}},
        {"schedules": {"a_failure": nightly()}, "sensors": {"a": {"type": "sweep"}}},
        {"schedules": {"all": nightly()}},
        {"schedules": {"sweep": nightly(), "tidy": {"type": "sweep", "cron_schedule": "@daily"}}},
    ],
)
def test_duplicate_names_are_rejected(folder, block):
    with pytest.raises(RivetError) as caught:
        load_definitions(folder({**SALES, "rivet.yaml": {**MANIFEST, "dagster": block}}).root)
    (found,) = caught.value.diagnostics
    assert (found.code, found.file, found.remediation) == ("RVT-104", "rivet.yaml", "Rename one of them.")
    assert " already" in found.message
    assert found.line is not None


def test_a_scheduled_run_materializes_one_day_and_runs_the_checks(
    project: Callable[[Any], ProjectFolder], instance: dg.DagsterInstance
):
    shop = project({**BY_DAY, **scheduled(nightly=nightly())})
    definitions = load_definitions(shop.root)
    days = []
    for day in (2, 3):
        (request,) = tick(definitions, "nightly", datetime(2024, 1, day, 2, tzinfo=UTC)).run_requests
        job = definitions.resolve_job_def("nightly")
        result = job.execute_in_process(instance=instance, partition_key=request.partition_key, tags=request.tags)
        assert result.success
        judged = {(e.asset_key.to_user_string(), e.check_name) for e in result.get_asset_check_evaluations()}
        assert judged == {("orders", "gate")}
        days.append([row["id"] for row in shop.rows("report")])
    assert days == [[1], [1, 2]]
    assert instance.get_materialized_partitions(dg.AssetKey("report")) == {"2024-01-01", "2024-01-02"}


def test_a_scheduled_run_stops_at_a_failed_gate(project: Callable[[Any], ProjectFolder], instance: dg.DagsterInstance):
    shop = project({**SALES, **scheduled(nightly=nightly()), "data/orders.csv": "id,day\n,2024-01-01\n"})
    job = load_definitions(shop.root).resolve_job_def("nightly")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert not result.success
    assert not (shop.root / "lake/report").exists()
    assert instance.get_latest_materialization_event(dg.AssetKey("report")) is None
