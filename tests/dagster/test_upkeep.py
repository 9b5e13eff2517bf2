"""The job of upkeep and its schedules, without an engine."""

from typing import Any

import dagster as dg
import pytest
from support.folders import MANIFEST, ProjectFolder

from rivet_dagster import RivetError, load_definitions
from rivet_dagster.catalogs.capabilities.upkeep import UpkeepReport
from rivet_dagster.catalogs.iceberg import IcebergCatalog
from rivet_dagster.engines.pyspark import PySparkEngine

LAKE = {"type": "iceberg", "catalog": "hadoop", "warehouse": "warehouse", "default-namespace": "shop"}
SCHEDULES = {
    "nightly": {"type": "upkeep", "cron_schedule": "0 3 * * *", "catalogs": ["lake"], "default_status": "RUNNING"},
    "weekly": {"type": "upkeep", "cron_schedule": "@weekly", "execution_timezone": "Europe/Berlin"},
}


def written(catalogs: Any, **dagster: Any) -> dict[str, Any]:
    engine = {"name": "spark", "type": "pyspark", "catalogs": list(catalogs)}
    sinks = {
        name: {"type": "sink", "catalog": name, "table": f"{name}_orders", "upstream": ["numbers"]} for name in catalogs
    }
    return {
        "rivet.yaml": {**MANIFEST, "dagster": dagster},
        "profiles.yaml": {"default": {"catalogs": catalogs, "engines": [engine]}},
        "joints/numbers.sql": "SELECT int(text) AS number FROM VALUES ('1'), ('x') AS t(text)",
        **{f"sinks/{name}_orders.yaml": sink for name, sink in sinks.items()},
    }


@pytest.fixture
def two_lakes(folder) -> ProjectFolder:
    files = written({"lake": LAKE, "other": {**LAKE, "warehouse": "other"}}, schedules=SCHEDULES)
    files["sinks/lake_orders.yaml"]["on_error"] = "quarantine"
    return folder(files)


@pytest.fixture
def treated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []

    def upkeep(catalog: IcebergCatalog, table: str, session: object) -> UpkeepReport | None:
        names.append(table)
        if table == "other_orders":
            raise RivetError("RVT-414", "the disk is full")
        return None if table.endswith("__errors") else UpkeepReport(table, snapshots_expired=3, bytes_before=10)

    class Session:
        def close(self) -> None:
            pass

    monkeypatch.setattr(IcebergCatalog, "upkeep", upkeep)
    monkeypatch.setattr(PySparkEngine, "session", lambda engine: Session())
    return names


def test_a_project_with_such_tables_has_the_job_and_its_schedules(two_lakes):
    definitions = load_definitions(two_lakes.root)
    assert definitions.resolve_job_def("upkeep").name == "upkeep"
    nightly, weekly = sorted(definitions.schedules, key=lambda schedule: schedule.name)
    assert [schedule.job_name for schedule in (nightly, weekly)] == ["upkeep", "upkeep"]
    assert (nightly.cron_schedule, nightly.default_status.value) == ("0 3 * * *", "RUNNING")
    assert (weekly.execution_timezone, weekly.default_status.value) == ("Europe/Berlin", "STOPPED")
    with dg.build_schedule_context(repository_def=definitions.get_repository_def()) as context:
        (of_lake,) = nightly.evaluate_tick(context).run_requests
        (of_all,) = weekly.evaluate_tick(context).run_requests
    assert of_lake.run_config == {"ops": {"upkeep_of_tables": {"config": {"catalogs": ["lake"]}}}}
    assert of_all.run_config == {}
    dg.Definitions.validate_loadable(definitions)


@pytest.mark.parametrize(
    "catalogs",
    [{"lake": {"type": "filesystem", "path": "lake"}}, {"lake": {**LAKE, "upkeep": False}}],
    ids=["without the capability", "switched off"],
)
def test_other_projects_have_no_such_job_unless_a_schedule_asks_for_it(folder, instance, treated, catalogs):
    definitions = load_definitions(folder(written(catalogs)).root)
    assert [job.name for job in definitions.jobs] == ["all"]
    definitions = load_definitions(folder(written(catalogs, schedules={"nightly": SCHEDULES["nightly"]})).root)
    config = {"ops": {"upkeep_of_tables": {"config": {"catalogs": ["lake"]}}}}
    assert definitions.resolve_job_def("upkeep").execute_in_process(config, instance=instance).success
    assert treated == []


def test_a_run_tells_of_each_table_and_fails_with_all_errors_at_its_end(two_lakes, instance, treated):
    job = load_definitions(two_lakes.root).resolve_job_def("upkeep")
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    assert treated == ["lake_orders", "lake_orders__errors", "other_orders"]
    (observed,) = result.asset_observations_for_node("upkeep_of_tables")
    assert observed.asset_key == dg.AssetKey("lake_orders")
    told = observed.metadata["rivet/upkeep"].value
    assert (told["table"], told["snapshots_expired"], told["bytes_before"]) == ("lake_orders", 3, 10)
    messages = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert "lake: lake_orders: 3 snapshots expired (0 files)" in messages
    assert "lake: lake_orders__errors: not published yet" in messages
    assert not result.success
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    (error,) = failed.step_failure_data.user_failure_data.metadata["rivet/diagnostics"].value
    assert (error["code"], error["joint"]) == ("RVT-414", "other_orders")


def test_a_run_of_some_catalogs_has_a_table_of_what_was_done(two_lakes, instance, treated):
    job = load_definitions(two_lakes.root).resolve_job_def("upkeep")
    config = {"ops": {"upkeep_of_tables": {"config": {"catalogs": ["lake"]}}}}
    result = job.execute_in_process(config, instance=instance)
    assert treated == ["lake_orders", "lake_orders__errors"]
    (output,) = [event for event in result.all_events if event.is_successful_output]
    metadata = output.step_output_data.metadata
    (record,) = metadata["rivet/upkeep"].records
    assert (record.data["table"], record.data["snapshots_expired"]) == ("lake_orders", 3)


def test_a_schedule_cannot_take_the_name_of_the_job(folder):
    nightly = {"target": "kind:sink", "cron_schedule": "0 2 * * *"}
    with pytest.raises(RivetError, match="there is a job 'upkeep' already"):
        load_definitions(folder(written({"lake": LAKE}, schedules={"upkeep": nightly})).root)
