"""Sweeping from Dagster: after failed and canceled runs, and on a schedule."""

import os
import time
from types import SimpleNamespace

import dagster as dg
import pytest
from support.folders import MANIFEST, ProjectFolder, sink

from rivet_dagster import RivetError, load_definitions
from rivet_dagster.execution import clean_up

BLOCK = {
    "sensors": {"clean_up": {"type": "sweep", "default_status": "RUNNING", "minimum_interval_seconds": 45}},
    "schedules": {"nightly": {"type": "sweep", "cron_schedule": "0 3 * * *", "execution_timezone": "Europe/Berlin"}},
}


@pytest.fixture
def swept(folder) -> ProjectFolder:
    files = {"joints/n.sql": "SELECT 1 AS id", "sinks/out.yaml": sink("out", "n")}
    return folder({**files, "rivet.yaml": {**MANIFEST, "dagster": BLOCK}})


@dg.job
def nightly_load() -> None:
    """A job other than the sweep."""


def evaluated(sensor: dg.SensorDefinition, job: dg.JobDefinition, instance: dg.DagsterInstance):
    """Return what a sensor requests after a run of the job."""
    result = job.execute_in_process(instance=instance, raise_on_error=False)
    context = dg.build_run_status_sensor_context(
        sensor_name=sensor.name,
        dagster_event=result.all_events[-1],
        dagster_instance=instance,
        dagster_run=result.dagster_run,
    )
    return result, sensor(context)


def test_the_block_makes_two_sensors_a_schedule_and_a_job(swept):
    definitions = load_definitions(swept.root)
    sensors = {sensor.name: sensor for sensor in definitions.sensors}
    assert sorted(sensors) == ["clean_up_canceled", "clean_up_failure"]
    for sensor in sensors.values():
        assert (sensor.default_status.value, sensor.minimum_interval_seconds) == ("RUNNING", 45)
        assert [job.name for job in sensor.jobs] == ["sweep"]
    (schedule,) = definitions.schedules
    assert (schedule.name, schedule.cron_schedule, schedule.execution_timezone) == (
        "nightly", "0 3 * * *", "Europe/Berlin",
    )  # fmt: skip
    assert (schedule.job_name, schedule.default_status.value) == ("sweep", "STOPPED")
    assert definitions.resolve_job_def("all").name == "all"


def test_without_the_block_there_is_no_job(folder):
    definitions = load_definitions(folder({"joints/n.sql": "SELECT 1 AS id"}).root)
    assert [job.name for job in definitions.jobs] == ["all"]
    assert list(definitions.sensors or []) == list(definitions.schedules or []) == []


@pytest.mark.parametrize("name", ["clean_up_failure", "clean_up_canceled"])
def test_a_sensor_requests_one_sweep_for_each_run_and_none_after_a_sweep(swept, instance, name):
    definitions = load_definitions(swept.root)
    sensor = next(sensor for sensor in definitions.sensors if sensor.name == name)
    result, asked = evaluated(sensor, nightly_load, instance)
    assert isinstance(asked, dg.RunRequest)
    assert asked.run_key == result.run_id
    _, asked = evaluated(sensor, definitions.resolve_job_def("sweep"), instance)
    assert isinstance(asked, dg.SkipReason)


def test_the_job_waits_until_runs_are_dead_and_spares_live_runs(swept, instance, monkeypatch):
    lake = swept.runtime.catalog("lake")
    died_long_ago, just_died, alive = (lake.begin("out") for _ in range(3))
    home = swept.root / "lake/.rivet/out"

    def silent(staged, seconds: float) -> None:
        then = time.time() - seconds
        os.utime(home / f"{staged.version}.alive", (then, then))

    silent(died_long_ago, 90)
    silent(just_died, 5)
    waited = []

    def a_minute_later(seconds: float) -> None:
        waited.append(seconds)
        silent(just_died, 66)

    monkeypatch.setattr(clean_up, "time", SimpleNamespace(sleep=a_minute_later))
    result = load_definitions(swept.root).resolve_job_def("sweep").execute_in_process(instance=instance)
    assert result.success
    assert waited == [61.0]
    assert [path.name for path in home.iterdir() if path.is_dir()] == [alive.version]
    messages = [entry.user_message for entry in instance.all_logs(result.run_id)]
    assert [text for text in messages if text.startswith("removed")] == [
        f"removed lake: out/{staged.version}" for staged in (died_long_ago, just_died)
    ]


def test_the_job_does_not_wait_if_nothing_is_staged(swept, instance, monkeypatch):
    monkeypatch.setattr(clean_up, "time", SimpleNamespace(sleep=lambda _: pytest.fail("it waited")))
    assert load_definitions(swept.root).resolve_job_def("sweep").execute_in_process(instance=instance).success


@pytest.mark.parametrize("wrong", [{"cron_schedule": "0 25 * * *"}, {"execution_timezone": "Mars/Olympus"}])
def test_an_invalid_schedule_is_an_error_with_its_name(swept, wrong):
    nightly = {**BLOCK["schedules"]["nightly"], **wrong}
    swept.write({"rivet.yaml": {**MANIFEST, "dagster": {"schedules": {"nightly": nightly}}}})
    with pytest.raises(RivetError) as caught:
        load_definitions(swept.root)
    (found,) = caught.value.diagnostics
    assert (found.code, found.file) == ("RVT-104", "rivet.yaml")
    assert "schedule 'nightly'" in found.message
    assert found.line is not None
