"""Joints with partitions in Dagster: definitions, jobs, runs of one partition and of a range."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import dagster as dg
import pandas as pd
import pytest
from support.folders import WORKSPACE, in_order, sink, source

from rivet_dagster import load_definitions
from rivet_dagster.definitions.assets import groups
from rivet_dagster.definitions.partitions import partitions_definition, window
from rivet_dagster.execution.group_run import run_group
from rivet_dagster.model.partitions import parse_partitions

DAILY = {"type": "daily", "column": "day", "start": "2024-01-01", "end": "2024-01-11"}
MONTHLY = {**DAILY, "type": "monthly", "end": "2024-03-01"}
REGIONS = {"type": "static", "column": "region", "values": ["eu", "us", "ap"]}
ORDERS = "".join(f"{n},2024-01-{1 + n % 10:02},{('eu', 'us', 'ap')[n % 3]},{n * 10}\n" for n in range(30))
FRAME = pd.DataFrame(
    [(n, f"2024-01-{1 + n % 10:02}", ("eu", "us", "ap")[n % 3], n * 10) for n in range(30)],
    columns=["id", "day", "region", "amount"],
)
SALES = {
    "data/orders.csv": f"id,day,region,amount\n{ORDERS}",
    "sources/orders.yaml": source("orders", "id INT, day STRING, region STRING, amount INT", partitions=DAILY),
    "joints/totals.sql": f"-- rivet:partitions: {DAILY}\nSELECT day, sum(amount) AS total FROM orders GROUP BY day",
    "sinks/report.yaml": sink("report", "totals", partitions=DAILY),
}


def run(root, instance, *, first=None, last=None, selection=None, job=None, extra=(), **options):
    """Run a selection, or a job of the project's own, in this process."""
    definitions = load_definitions(root)
    if job is None:
        job = "selected"
        chosen = dg.AssetSelection.assets(*selection) if selection is not None else dg.AssetSelection.all()
        own = dg.Definitions(assets=extra, jobs=[dg.define_asset_job(job, chosen)])
        definitions = dg.Definitions.merge(definitions, own)
    if last is not None:
        options["tags"] = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    elif first is not None:
        options["partition_key"] = first
    return definitions.resolve_job_def(job).execute_in_process(instance=instance, **options)


def materialized(result) -> dict[tuple[str, str | None], dict]:
    """Return the metadata of each materialization by asset key and partition."""
    return {
        (e.asset_key.to_user_string(), e.partition): {k: v.value for k, v in e.materialization.metadata.items()}
        for e in result.get_asset_materialization_events()
    }


def totals(*days: str) -> list[dict]:
    chosen = FRAME[FRAME["day"].isin(days)].groupby("day", as_index=False)["amount"].sum()
    return in_order({"day": row.day, "total": row.amount} for row in chosen.itertuples())


# definitions


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({"type": "daily", "start": "2024-01-01"}, dg.DailyPartitionsDefinition("2024-01-01")),
        (
            {"type": "daily", "start": "2024-01-01", "end": "2024-02-01", "timezone": "Europe/Berlin"},
            dg.DailyPartitionsDefinition("2024-01-01", "2024-02-01", timezone="Europe/Berlin"),
        ),
        (
            {"type": "hourly", "start": "2024-01-01T05:00", "timezone": "America/New_York"},
            dg.HourlyPartitionsDefinition("2024-01-01-05:00", timezone="America/New_York"),
        ),
        ({"type": "weekly", "start": "2024-01-03"}, dg.WeeklyPartitionsDefinition("2024-01-03")),
        ({"type": "monthly", "start": "2024-01-15"}, dg.MonthlyPartitionsDefinition("2024-01-15")),
        ({"type": "static", "values": ["b", "a"]}, dg.StaticPartitionsDefinition(["b", "a"])),
    ],
)
def test_the_definitions_are_dagsters_own(declared, expected):
    assert partitions_definition(parse_partitions({**declared, "column": "c"})) == expected


def test_a_window_equals_dagsters_when_daylight_saving_time_ends():
    hours = parse_partitions({"type": "hourly", "column": "at", "start": "2024-01-01", "timezone": "America/New_York"})
    day = dg.TimeWindow(datetime(2024, 11, 3, 4, tzinfo=UTC), datetime(2024, 11, 4, 5, tzinfo=UTC))
    definition = partitions_definition(hours)
    assert isinstance(definition, dg.HourlyPartitionsDefinition)
    keys = definition.get_partition_keys_in_time_window(day)
    assert len(keys) == 25
    found = window(hours, keys)
    assert found.keys == tuple(keys)
    assert found.bounds == tuple(day.start + timedelta(hours=n) for n in range(26))
    assert str(found) == "2024-11-03-00:00...2024-11-03-23:00"
    twice = window(hours, ["2024-11-03-01:00-0500"])
    assert twice.bounds == (datetime(2024, 11, 3, 6, tzinfo=UTC), datetime(2024, 11, 3, 7, tzinfo=UTC))
    for gap in (["2024-11-03-01:00", "2024-11-03-02:00"], ["2024-11-03-00:00", "2024-11-03-01:00-0500"]):
        with pytest.raises(ValueError, match="left out"):
            window(hours, gap)


def test_every_joint_has_its_partitions_and_a_range_is_one_run(folder):
    definitions = load_definitions(folder(SALES).root)
    found = {spec.key.to_user_string(): spec.partitions_def for spec in definitions.resolve_all_asset_specs()}
    days = dg.DailyPartitionsDefinition("2024-01-01", "2024-01-11")
    assert found == {"orders": None, "totals": days, "report": days}
    graph = definitions.resolve_asset_graph()
    assert graph.get(dg.AssetKey("report")).backfill_policy == dg.BackfillPolicy.single_run()


def test_there_is_a_job_for_each_partitions_definition(folder):
    plain = folder({"joints/a.sql": "SELECT 1 AS id"})
    assert {job.name for job in load_definitions(plain.root).jobs} == {"all"}
    assert {job.name for job in load_definitions(plain.write(SALES).root).jobs} == {"all", "all_daily"}
    mixed = folder({
        **SALES,
        "joints/regions.sql": f"-- rivet:partitions: {REGIONS}\nSELECT * FROM orders",
        "joints/other.sql": f"-- rivet:partitions: {DAILY | {'end': '2024-01-20'}}\nSELECT day FROM orders",
        "joints/more.sql": "SELECT * FROM totals",
    })  # fmt: skip
    definitions = load_definitions(mixed.root)
    found = {}
    for job in definitions.jobs:
        resolved = definitions.resolve_job_def(job.name)
        keys = {key.to_user_string() for key in resolved.asset_layer.selected_asset_keys}
        found[job.name] = keys, resolved.partitions_def
    days = dg.DailyPartitionsDefinition("2024-01-01", "2024-01-11")
    assert found == {
        "all": ({"a", "more"}, None),
        "all_daily": ({"totals", "report"}, days),
        "all_daily_2": ({"other"}, dg.DailyPartitionsDefinition("2024-01-01", "2024-01-20")),
        "all_static": ({"regions"}, dg.StaticPartitionsDefinition(["eu", "us", "ap"])),
    }


# runs


def test_one_partition_reads_and_writes_its_own_rows(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance, job="all_daily", first="2024-01-03")
    assert result.success
    assert sales.rows("report") == totals("2024-01-03")
    assert set(materialized(result)) == {("totals", "2024-01-03"), ("report", "2024-01-03")}


def test_a_range_is_one_run_and_one_query(project, instance, sql_executions):
    sales = project(SALES)
    sql_executions.since()
    result = run(sales.root, instance, job="all_daily", first="2024-01-03", last="2024-01-06")
    assert sql_executions.since() == 2  # the query, and its row count for each partition
    days = [f"2024-01-0{day}" for day in range(3, 7)]
    assert sales.rows("report") == totals(*days)
    assert set(materialized(result)) == {(name, day) for name in ("totals", "report") for day in days}


def test_each_partition_reports_its_own_row_count(project, instance, monkeypatch):
    def counting(*arguments):
        return replace(run_group(*arguments), partition_rows={"2024-01-03": 5, "2024-01-04": 0})

    monkeypatch.setattr(groups, "run_group", counting)
    sales = project(SALES)
    found = materialized(run(sales.root, instance, job="all_daily", first="2024-01-03", last="2024-01-04"))
    report = {day: metadata for (name, day), metadata in found.items() if name == "report"}
    assert {day: metadata["dagster/partition_row_count"] for day, metadata in report.items()} == {
        "2024-01-03": 5, "2024-01-04": 0,
    }  # fmt: skip
    assert [metadata["dagster/row_count"] for metadata in report.values()] == [2, 2]


def test_an_inner_joint_is_counted_in_its_window(project, instance):
    sales = project(SALES)
    one = run(sales.root, instance, selection=["totals"], first="2024-01-03")
    (counted,) = materialized(one).values()
    assert {key: value for key, value in counted.items() if "row" in key} == {"dagster/partition_row_count": 1}
    two = run(sales.root, instance, selection=["totals"], first="2024-01-03", last="2024-01-04")
    for counted in materialized(two).values():
        assert {key: value for key, value in counted.items() if "row" in key} == {"rivet/rows_computed": 2}


def test_the_identity_of_a_run_names_its_partitions(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance, job="all_daily", first="2024-01-03", last="2024-01-06")
    published = sales.runtime.catalog("lake").current("report")
    assert published.identity == f"{result.run_id}/report/2024-01-03...2024-01-06"


def test_a_run_without_a_partition_is_rejected(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance, job="all_daily", raise_on_error=False)
    (event,) = result.get_step_failure_events()
    assert "RVT-114" in event.step_failure_data.error_display_string
    assert sales.versions("report") == []


def test_static_partitions(project, instance):
    sales = project({
        **SALES,
        "sources/orders.yaml": source("orders", "id INT, day STRING, region STRING, amount INT", partitions=REGIONS),
        "joints/totals.sql": f"-- rivet:partitions: {REGIONS}\nSELECT region, max(:partition_keys) AS keys, "
        "count(*) AS n FROM orders GROUP BY region",
        "sinks/report.yaml": sink("report", "totals", partitions=REGIONS),
    })  # fmt: skip
    run(sales.root, instance, job="all_static", first="us", last="ap")
    assert sales.rows("report") == [
        {"region": "ap", "keys": ["us", "ap"], "n": 10}, {"region": "us", "keys": ["us", "ap"], "n": 10},
    ]  # fmt: skip


def test_daily_joints_are_read_by_monthly_and_unpartitioned_ones(project, instance):
    days, months = DAILY | {"end": "2024-03-01"}, MONTHLY | {"column": "month"}
    february = "30,2024-02-01,eu,300\n"
    sales = project({
        **SALES,
        "data/orders.csv": SALES["data/orders.csv"] + february,
        "joints/totals.sql": f"-- rivet:partitions: {days}\n-- rivet:eager: true\nSELECT day, id FROM orders",
        "joints/by_month.sql": f"-- rivet:partitions: {months}\n"
        "SELECT date(:partition_start) AS month, count(*) AS n FROM totals",
        "sinks/report.yaml": sink("report", "by_month", partitions=months),
        "sinks/whole.yaml": sink("whole", "totals"),
    })  # fmt: skip
    run(sales.root, instance, selection=["totals"], first="2024-01-01", last="2024-02-29")
    run(sales.root, instance, selection=["whole"])
    assert len(sales.rows("whole")) == 31
    run(sales.root, instance, selection=["by_month", "report"], first="2024-01-01")
    assert [(row["month"].isoformat(), row["n"]) for row in sales.rows("report")] == [("2024-01-01", 30)]


def test_assets_without_partitions_run_beside_those_with(project, instance):
    sales = project({**SALES, "joints/names.sql": "SELECT 1 AS id"})
    result = run(sales.root, instance, selection=["names", "totals", "report"], first="2024-01-02")
    assert set(materialized(result)) == {("names", None), ("totals", "2024-01-02"), ("report", "2024-01-02")}


def test_checks_evaluate_the_rows_of_the_runs_partitions(project, instance):
    check = {"type": "row_count", "min": 2, "max": 2, "name": "two_days"}
    sales = project({**SALES, "sinks/report.yaml": sink("report", "totals", assertions=[check], partitions=DAILY)})
    whole = run(sales.root, instance, job="all_daily", first="2024-01-03", last="2024-01-04")
    assert whole.success
    assert [e.passed for e in whole.get_asset_check_evaluations()] == [True]
    part = run(sales.root, instance, job="all_daily", first="2024-01-05", raise_on_error=False)
    assert not part.success
    assert [e.passed for e in part.get_asset_check_evaluations()] == [False]
    assert sales.rows("report") == totals("2024-01-03", "2024-01-04")


def test_a_gated_source_is_checked_before_a_partitioned_run(project, instance):
    gate = {"assertions": [{"type": "row_count", "min": 30}]}
    gated = source("orders", "id INT, day STRING, region STRING, amount INT", partitions=DAILY, quality=gate)
    sales = project({**SALES, "sources/orders.yaml": gated})
    result = run(sales.root, instance, job="all_daily", first="2024-01-03")
    assert [e.asset_key.to_user_string() for e in result.get_asset_check_evaluations()] == ["orders"]
    assert sales.rows("report") == totals("2024-01-03")


# other assets


def reader(seen: list, name="reader", partitions=None):
    @dg.asset(
        name=name, partitions_def=partitions, ins={"kept": dg.AssetIn("kept", input_manager_key="rivet_io_manager")}
    )
    def asset(kept: pd.DataFrame) -> None:
        seen.append(sorted(kept["day"].unique()))

    return asset


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("eager", ["true", "false"])
def test_an_asset_loads_its_own_partition_of_a_joint(project, instance, eager):
    kept = f"-- rivet:partitions: {DAILY}\n-- rivet:eager: {eager}\nSELECT *, :partition_keys AS keys FROM orders"
    sales = project({**SALES, "joints/kept.sql": kept, "joints/after.sql": f"-- rivet:partitions: {DAILY}\n"
                     "SELECT * FROM kept"})  # fmt: skip
    definition, seen = dg.DailyPartitionsDefinition("2024-01-01", "2024-01-11"), []
    run(sales.root, instance, selection=["kept", "after"], first="2024-01-02", last="2024-01-04")
    extra = [reader(seen, partitions=definition)]
    run(sales.root, instance, selection=["reader"], first="2024-01-03", extra=extra)
    assert seen == [["2024-01-03"]]
    extra = [reader(seen)]
    result = run(sales.root, instance, selection=["reader"], extra=extra, raise_on_error=False)
    if eager == "true":
        assert seen[1:] == [["2024-01-02", "2024-01-03", "2024-01-04"]]
    else:
        (event,) = result.get_step_failure_events()
        assert "only a run of its partitions knows :partition_keys" in event.step_failure_data.error_display_string


# eviction


def test_rows_are_removed_when_each_partition_has_been_read(project, instance):
    base = f"-- rivet:partitions: {DAILY}\n-- rivet:retention: run\n-- rivet:eager: true\nSELECT day FROM orders"
    sales = project({**SALES, "joints/totals.sql": base})
    for day in ("2024-01-01", "2024-01-02"):
        run(sales.root, instance, selection=["totals"], first=day)
    run(sales.root, instance, selection=["report"], first="2024-01-02")
    assert sales.versions("totals", WORKSPACE) != []
    run(sales.root, instance, selection=["report"], first="2024-01-01")
    assert sales.versions("totals", WORKSPACE) == []


def test_rows_are_not_removed_if_a_reader_has_other_partitions(project, instance):
    base = "-- rivet:retention: run\n-- rivet:eager: true\nSELECT day FROM orders"
    chosen = f"-- rivet:partitions: {DAILY}\nSELECT * FROM totals WHERE array_contains(:partition_keys, day)"
    report = sink("report", "chosen", partitions=DAILY)
    sales = project({**SALES, "joints/totals.sql": base, "joints/chosen.sql": chosen, "sinks/report.yaml": report})
    run(sales.root, instance, selection=["totals"])
    run(sales.root, instance, selection=["report"], first="2024-01-02")
    assert sales.versions("totals", WORKSPACE) != []
