"""The example's plan, its run and its checks."""

import json
from collections import Counter

import pyarrow.parquet as pq

from rivet_dagster import compile_directory
from rivet_dagster.cli.main import main

GROUPS = {
    "flight_outcomes": ("flights", "flight_schedule", "flight_outcomes"),
    "airport_hours": ("hourly_departures", "airport_hours"),
    "carrier_punctuality": ("carrier_months", "carrier_month_ranks", "carrier_punctuality"),
    "carrier_fleets": ("aircraft_usage", "fleet", "carrier_fleets"),
    "reference_gaps": ("unknown_tailnums", "unmapped_destinations", "reference_gaps"),
    "route_days": ("route_days",),
    "route_bad_days": ("route_bad_days",),
    "routes": ("routes",),
    "great_circles": ("great_circles",),
    "route_map": ("route_map",),
    "route_watchlist": ("route_watchlist",),
    "weather_conditions": ("weather", "weather_conditions"),
    "disruptions": ("daily_cancellations", "disrupted_days", "daily_weather", "disruptions"),
    "weather_impact": ("flights_in_weather", "weather_totals", "weather_impact"),
}
SHARED_SOURCES = {name: (name,) for name in ("airlines", "airports", "planes")}
WARNING = ("route_map", "destination_is_on_the_map")


def test_the_plan_fuses_joints_with_a_single_reader(example):
    plan = compile_directory(example)
    assert plan.success
    assert {group.name: group.joints for group in plan.fused_groups} == GROUPS | SHARED_SOURCES
    assert {stored.joint: stored.reason for stored in plan.materializations} == {
        "flight_outcomes": "assertion_boundary",
        "routes": "python_boundary",
        "weather_conditions": "assertion_boundary",
        "route_days": "python_boundary",
        "great_circles": "python_boundary",
    }


def test_every_group_runs_and_reports_its_rows(example_run):
    assert example_run.result.success
    events = example_run.result.get_asset_materialization_events()
    made = {event.asset_key.to_user_string(): event.materialization.metadata for event in events}
    joints = [joint for joint in example_run.assembly.joints if joint.type != "source"]
    assert set(made) == {joint.name for joint in joints}
    for joint in joints:
        if joint.catalog == "warehouse":
            published = pq.read_table(example_run.project / "warehouse" / joint.table)
            assert made[joint.name]["dagster/row_count"].value == published.num_rows > 0
    assert made["flight_outcomes"]["dagster/row_count"].value == 336_776


def test_all_checks_pass_except_the_one_warning(example_run):
    found = example_run.result.get_asset_check_evaluations()
    declared = Counter(joint.name for joint in example_run.assembly.joints for _ in joint.checks)
    assert Counter(check.asset_key.to_user_string() for check in found) == declared
    failed = [check for check in found if not check.passed]
    assert [(check.asset_key.to_user_string(), check.check_name) for check in failed] == [WARNING]
    assert (failed[0].severity.value, failed[0].blocking) == ("WARN", False)
    assert failed[0].metadata["rivet/violations"].value == 7
    assert len(failed[0].metadata["rivet/samples"].records) == 7


def test_the_command_line_shows_the_same_plan(example, capsys):
    assert main(["-p", str(example), "compile", "--format", "json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["success"]
    assert plan["execution_order"] == list(compile_directory(example).execution_order)
    assert main(["-p", str(example), "compile"]) == 0
    shown = capsys.readouterr().out
    assert "    gate    unique_origin_dest, destination_is_on_the_map (warns), " in shown
    assert all(f"  {name}  on spark" in shown for name in GROUPS)
    assert "reads routes: the Python function great_circles reads it\n" in shown
