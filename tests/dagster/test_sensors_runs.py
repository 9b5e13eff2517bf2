"""Runs on Spark that sensors request."""

import dagster as dg
from support.folders import MANIFEST, ProjectFolder, sink, source
from support.sensors import Ticker

from rivet_dagster import load_definitions

DAILY = {"type": "daily", "column": "day", "start": "2024-01-01", "end": "2024-02-01"}
CHECKED = {"quality": {"assertions": [{"type": "not_null", "columns": ["id"]}]}}


def with_sensors(project, files, **sensors) -> tuple[ProjectFolder, dg.Definitions]:
    folder = project({**files, "rivet.yaml": {**MANIFEST, "dagster": {"sensors": sensors}}})
    return folder, load_definitions(folder.root)


def run(definitions: dg.Definitions, ticker: Ticker) -> dg.ExecuteInProcessResult:
    """Run the single request of a tick, like a run launcher."""
    (request,) = ticker.tick()
    (job,) = ticker.sensor.jobs
    return definitions.resolve_job_def(job.name).execute_in_process(
        instance=ticker.instance, partition_key=request.partition_key, tags=dict(request.tags)
    )


def test_landed_files_are_appended_once_and_waiting_targets_follow(project, instance):
    files = {
        "sources/orders.yaml": source("landing", "id INT", options={"landing": True, "format": "csv"}, **CHECKED),
        "joints/orders_seen.sql": "SELECT id FROM orders",
        "sinks/history.yaml": sink("history", "orders_seen", write_strategy={"mode": "append", "on_empty": "skip"}),
        "joints/one.sql": "SELECT 1 AS id",
        "sinks/after.yaml": sink("after", "one"),
    }
    folder, definitions = with_sensors(
        project,
        files,
        landing={"type": "files", "source": "orders", "target": '+key:"history"'},
        done={"type": "after_success", "monitored": 'key:"history"', "target": 'key:"after"'},
    )
    landing, done = (Ticker(sensor, instance) for sensor in definitions.sensors)
    folder.write({"data/landing/1.csv": "id\n1\n"})
    assert done.tick() == []
    result = run(definitions, landing)
    assert [one.check_name for one in result.get_asset_check_evaluations()] == ["not_null_id"]
    folder.write({"data/landing/2.csv": "id\n2\n"})
    run(definitions, landing)
    assert landing.tick() == []
    assert folder.rows("history") == [{"id": 1}, {"id": 2}]
    made = {event.asset_key.to_user_string() for event in run(definitions, done).get_asset_materialization_events()}
    assert made == {"after"}
    assert done.tick() == []


def test_a_batch_that_fails_its_gate_is_not_a_success(project, instance):
    files = {
        "data/orders.csv": "id\n1\n",
        "sources/orders.yaml": source("orders.csv", "id INT"),
        "sinks/checked.yaml": sink(
            "checked", "orders", assertions=[{"type": "expression", "sql": "id > 1", "name": "more"}]
        ),
        "joints/one.sql": "SELECT 1 AS id",
        "sinks/after.yaml": sink("after", "one"),
    }
    folder, definitions = with_sensors(
        project,
        files,
        moved={"type": "source_changed", "sources": ["orders"], "target": 'key:"checked"'},
        done={"type": "after_success", "monitored": 'key:"checked"', "target": 'key:"after"'},
    )
    moved, done = (Ticker(sensor, instance) for sensor in definitions.sensors)
    assert moved.tick() == []
    folder.write({"data/orders.csv": "id\n1\n2\n"})
    assert len(moved.tick()) == 1
    failed = definitions.resolve_job_def("moved").execute_in_process(instance=instance, raise_on_error=False)
    assert not failed.success
    assert done.tick() == []
    folder.write({"data/orders.csv": "id\n2\n3\n"})
    assert run(definitions, moved).success
    assert len(done.tick()) == 1
    assert len({request.run_key for request in moved.runs}) == 2


def test_a_partition_requests_the_same_partition(project, instance):
    files = {
        "data/events.csv": "id,day\n1,2024-01-01\n2,2024-01-02\n3,2024-01-03\n",
        "sources/events.yaml": source("events.csv", "id INT, day DATE", partitions=DAILY),
        "joints/days.yaml": {"type": "sql", "sql": "SELECT * FROM events", "eager": True, "partitions": DAILY},
        "sinks/out.yaml": sink("out", "days", partitions=DAILY),
    }
    folder, definitions = with_sensors(
        project, files, done={"type": "after_success", "monitored": 'key:"days"', "target": 'key:"out"'}
    )
    (done,) = (Ticker(sensor, instance) for sensor in definitions.sensors)
    assert done.tick() == []
    own = dg.Definitions(jobs=[dg.define_asset_job("days", dg.AssetSelection.assets("days"))])
    job = dg.Definitions.merge(definitions, own).resolve_job_def("days")
    job.execute_in_process(instance=instance, partition_key="2024-01-02")
    assert run(definitions, done).success
    assert [row["id"] for row in folder.rows("out")] == [2]
    assert done.tick() == []
