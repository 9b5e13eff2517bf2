"""The options `timeout` and `pool` of a group's step."""

import time
from collections import Counter

import pytest
from support.folders import WORKSPACE, sink
from support.slow import sleeping

from rivet_dagster import load_definitions

ENDLESS = f"SELECT id, {sleeping('200L + id')} AS slept FROM range(0, 4000, 1, 4)"
QUICK = "SELECT 1 AS id"
SECONDS = 60
"""Seconds, generous for what takes two or three on an idle machine; the query would take half an hour."""


def limited(timeout: str = "1s", **fields) -> dict:
    options = {"timeout": timeout, **fields.pop("options", {})}
    return sink("kept", "n", options=options, **fields)


def run(root, instance, job="all"):
    return load_definitions(root).resolve_job_def(job).execute_in_process(instance=instance, raise_on_error=False)


def diagnostic(result) -> dict:
    (event,) = result.get_step_failure_events()
    (found,) = event.step_failure_data.user_failure_data.metadata["rivet/diagnostics"].value
    return found


@pytest.fixture
def active_jobs(application):
    session = application.session()
    tracker = session.spark.sparkContext.statusTracker()
    yield lambda: list(tracker.getActiveJobsIds())
    session.close()


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("mode", ["replace", "merge"])
def test_a_query_beyond_the_timeout_is_stopped_and_leaves_nothing(project, instance, active_jobs, mode):
    strategy = {"mode": mode, "key_columns": ["id"]} if mode == "merge" else mode
    lake = project({"joints/n.sql": QUICK, "sinks/kept.yaml": limited("1h", write_strategy=strategy)})
    assert run(lake.root, instance).success
    before = lake.bytes_of("kept"), lake.versions("kept")
    lake.write({"joints/n.sql": ENDLESS, "sinks/kept.yaml": limited(write_strategy=strategy)})
    started = time.monotonic()
    result = run(lake.root, instance)
    assert time.monotonic() - started < SECONDS
    found = diagnostic(result)
    assert (found["code"], found["joint"], found["file"]) == ("RVT-518", "kept", "sinks/kept.yaml")
    assert "1 s" in found["message"]
    assert active_jobs() == []
    assert (lake.bytes_of("kept"), lake.versions("kept")) == before
    assert lake.versions("n", WORKSPACE) == []
    assert result.get_asset_materialization_events() == []


@pytest.mark.nightly
@pytest.mark.parametrize("severity", ["warn", "error"])
def test_the_timeout_also_stops_a_check(project, instance, active_jobs, severity):
    query = f"SELECT slept FROM kept CROSS JOIN ({ENDLESS}) WHERE slept IS NOT NULL"
    slow = {"type": "custom", "sql": query, "severity": severity}
    lake = project({"joints/n.sql": QUICK, "sinks/kept.yaml": limited("3s", assertions=[slow])})
    result = run(lake.root, instance)
    assert diagnostic(result)["code"] == "RVT-518"
    assert result.get_asset_check_evaluations() == []
    assert active_jobs() == []
    assert lake.versions("kept") == []


def test_a_timeout_stops_a_python_joint_at_its_next_read_and_publishes_nothing(project, instance):
    waits = "import time\n\ndef transform(n):\n    time.sleep(1.5)\n    return n\n"
    lake = project({
        "joints/n.sql": f"-- rivet:eager: true\n{QUICK}",
        "joints/made.py": f"# rivet:options: {{timeout: 1s}}\n{waits}",
        "sinks/kept.yaml": sink("kept", "made"),
    })  # fmt: skip
    result = run(lake.root, instance)
    assert (diagnostic(result)["code"], diagnostic(result)["joint"]) == ("RVT-518", "made")
    assert lake.versions("made", WORKSPACE) == []
    asks = f"def transform(n):\n    spark = n.to_spark().sparkSession\n    return spark.sql({ENDLESS!r})\n"
    lake.write({"joints/made.py": f"# rivet:options: {{timeout: 1s}}\n{asks}"})
    assert diagnostic(run(lake.root, instance))["code"] == "RVT-518"
    assert lake.versions("made", WORKSPACE) == []


@pytest.mark.nightly
def test_each_try_has_the_full_timeout(project, instance):
    lake = project({"joints/n.sql": ENDLESS, "sinks/kept.yaml": limited(options={"retries": 1})})
    result = run(lake.root, instance)
    assert diagnostic(result)["code"] == "RVT-518"
    kinds = Counter(event.event_type_value for event in result.all_events)
    assert (kinds["STEP_START"], kinds["STEP_RESTARTED"]) == (1, 1)


def test_rows_computed_within_the_timeout_are_published(project, instance):
    lake = project({"joints/n.sql": QUICK, "sinks/kept.yaml": limited("1h")})
    assert run(lake.root, instance).success
    assert lake.rows("kept") == [{"id": 1}]


def test_the_pool_of_a_joint_replaces_that_of_the_engine(folder):
    lake = folder({
        "joints/n.sql": f"-- rivet:options: {{pool: heavy/nightly}}\n-- rivet:eager: true\n{QUICK}",
        "sinks/kept.yaml": sink("kept", "n"),
    })  # fmt: skip
    definitions = load_definitions(lake.root)
    steps = {node.definition.name: node.definition for node in definitions.resolve_job_def("all").nodes}
    assert {name: step.pool for name, step in steps.items()} == {"n": "heavy/nightly", "kept": "rivet_spark"}
    assert steps["n"].tags["rivet/engine"] == "spark"
