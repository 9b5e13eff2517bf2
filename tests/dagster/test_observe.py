"""Observation schedules: jobs that record the data versions of sources without an engine."""

from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest
from support.folders import MANIFEST, sink, source

from rivet_dagster import RivetError, RivetProject, build_observation_schedule, load_definitions

SHOP = {
    "sources/orders.yaml": source("orders.csv", "id INT"),
    "sources/customers.yaml": source("customers.csv", "id INT"),
    "sources/prices.yaml": {"type": "source", "catalog": "dagster", "table": "shop/prices"},
    "sources/rates.yaml": {"type": "source", "catalog": "lake", "table": "rates"},
    "sinks/out.yaml": sink("out", "orders"),
    "data/orders.csv": "id\n1\n",
    "data/customers.csv": "id\n7\n",
}


def observed(**observe: Any) -> dict[str, Any]:
    return {"rivet.yaml": {**MANIFEST, "dagster": {"observe": observe}}}


def versions(result: dg.ExecuteInProcessResult) -> dict[str, str]:
    found = [event.asset_observation_data.asset_observation for event in result.get_asset_observation_events()]
    return {one.asset_key.to_user_string(): one.tags["dagster/data_version"] for one in found}


def test_a_run_records_data_versions_of_its_sources_only_and_new_ones_when_files_change(folder, instance):
    shop = folder({**SHOP, **observed(hourly={"sources": ["orders"], "cron_schedule": "0 * * * *"})})
    definitions = load_definitions(shop.root)
    schedule = definitions.resolve_schedule_def("hourly")
    assert (schedule.cron_schedule, schedule.job_name, schedule.default_status.value) == (
        "0 * * * *", "hourly", "STOPPED",
    )  # fmt: skip
    job = definitions.resolve_job_def("hourly")
    first, same = (versions(job.execute_in_process(instance=instance)) for _ in range(2))
    assert set(first) == {"orders"}
    assert same == first
    shop.write({"data/orders.csv": "id\n1\n2\n"})
    assert versions(job.execute_in_process(instance=instance)) != first
    assert instance.get_latest_materialization_event(dg.AssetKey("out")) is None


def test_sources_of_several_catalogs_are_observed_in_one_run(folder, instance):
    files = {**SHOP, "lake/rates/part-0.parquet": b""}
    both = observed(daily={"sources": ["orders", "rates", "customers"], "cron_schedule": "@daily"})
    definitions = load_definitions(folder({**files, **both}).root)
    result = definitions.resolve_job_def("daily").execute_in_process(instance=instance)
    assert set(versions(result)) == {"orders", "rates", "customers"}


def test_yaml_and_python_make_the_same_definition(folder):
    options = {"execution_timezone": "Europe/Berlin"}
    entry = {"sources": ["orders", "customers"], "cron_schedule": "@daily", "default_status": "RUNNING", **options}
    in_yaml = load_definitions(folder({**SHOP, **observed(daily=entry)}).root)
    plain = folder({**SHOP, **observed()})
    built = build_observation_schedule(
        RivetProject.load(plain.root),
        "daily",
        ["orders", "customers"],
        "@daily",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        **options,
    )
    in_python = dg.Definitions.merge(load_definitions(plain.root), dg.Definitions(schedules=[built]))

    def look(definitions: dg.Definitions) -> list[Any]:
        schedule = definitions.resolve_schedule_def("daily")
        job = definitions.resolve_job_def("daily")
        with dg.build_schedule_context(scheduled_execution_time=datetime(2024, 1, 1, tzinfo=UTC)) as context:
            requests = schedule.evaluate_tick(context).run_requests
        return [
            schedule.cron_schedule,
            schedule.execution_timezone,
            schedule.default_status,
            schedule.description,
            job.asset_layer.selected_asset_keys,
            [node.name for node in job.nodes],
            requests,
        ]

    assert look(in_python) == look(in_yaml)
    assert look(in_yaml)[4] == {dg.AssetKey("orders"), dg.AssetKey("customers")}


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (["ordres"], "there is no source 'ordres'; did you mean 'orders'?"),
        (["orders", "out"], "'out' is of type sink: it is made, not observed"),
        (["orders", "prices"], "'prices' is the asset shop/prices, which reports its own materializations"),
    ],
)
def test_names_that_are_not_sources_are_rejected(folder, sources, words):
    root = folder({**SHOP, **observed(hourly={"cron_schedule": "@hourly", "sources": sources})}).root
    with pytest.raises(RivetError) as caught:
        load_definitions(root)
    (found,) = caught.value.diagnostics
    assert found.code == "RVT-117"
    assert (root / "rivet.yaml").read_text().splitlines()[found.line - 1].strip() == "sources:"
    assert words in found.message


def test_an_invalid_cron_schedule_is_an_error_with_its_key(folder):
    root = folder({**SHOP, **observed(hourly={"sources": ["orders"], "cron_schedule": "hourly"})}).root
    with pytest.raises(RivetError) as caught:
        load_definitions(root)
    (found,) = caught.value.diagnostics
    assert found.code == "RVT-104"
    assert (root / "rivet.yaml").read_text().splitlines()[found.line - 1].strip() == "cron_schedule: hourly"
