"""Retried steps: after transient errors only, and without publishing anything twice."""

import os
from types import SimpleNamespace
from unittest.mock import patch

import dagster as dg
import pytest
from support.folders import ProjectFolder, sink

from rivet_dagster import load_definitions
from rivet_dagster.definitions.assets import groups
from rivet_dagster.definitions.runs.identity import run_identity
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.errors import RivetError

AWAY = RivetError("RVT-510", "Connection refused")
WRONG = RivetError("RVT-503", "no such column")


@pytest.fixture
def folder(project) -> ProjectFolder:
    out = sink("out", "n", options={"retries": 2})
    return project({"joints/n.sql": "SELECT id FROM range(3)", "sinks/out.yaml": out})


def failing_writes(error: BaseException, times: int):
    """Let the next ``times`` writes of Spark fail with an error."""
    write = PySparkSession.write
    left = [times]

    def fails(session, *arguments):
        if left[0]:
            left[0] -= 1
            raise error
        return write(session, *arguments)

    return patch.object(PySparkSession, "write", fails)


def run(folder, instance, raise_on_error=False, job="all", **options):
    job = load_definitions(folder.root).resolve_job_def(job)
    return job.execute_in_process(instance=instance, raise_on_error=raise_on_error, **options)


def attempts(result) -> int:
    return sum(event.event_type_value in ("STEP_START", "STEP_RESTARTED") for event in result.all_events)


def codes(result) -> list[str]:
    (event,) = result.get_step_failure_events()
    return [record["code"] for record in event.step_failure_data.user_failure_data.metadata["rivet/diagnostics"].value]


def test_a_transient_error_is_retried(folder, instance):
    with failing_writes(AWAY, 2):
        result = run(folder, instance)
    assert (result.success, attempts(result)) == (True, 3)
    assert folder.rows("out") == [{"id": n} for n in range(3)]


def test_a_persistent_error_fails_with_its_own_message(folder, instance):
    with failing_writes(AWAY, 9):
        result = run(folder, instance)
    assert (result.success, attempts(result), codes(result)) == (False, 3, ["RVT-510"])
    assert folder.versions("out") == []


def test_a_user_error_is_not_retried(folder, instance):
    with failing_writes(WRONG, 9):
        result = run(folder, instance)
    assert (attempts(result), codes(result)) == (1, ["RVT-503"])


def test_a_failed_gate_is_not_retried(folder, instance):
    folder.write(
        {"sinks/out.yaml": sink("out", "n", assertions=[{"type": "row_count", "min": 9}], options={"retries": 2})}
    )
    result = run(folder, instance)
    assert (result.success, attempts(result)) == (False, 1)


def test_a_cancelled_run_is_not_retried(folder, instance):
    with failing_writes(KeyboardInterrupt(), 1):
        result = run(folder, instance)
    assert (result.success, attempts(result)) == (False, 1)
    assert folder.versions("out") == []


def test_without_the_option_nothing_is_retried(folder, instance):
    folder.write({"sinks/out.yaml": sink("out", "n")})
    with failing_writes(AWAY, 1):
        assert attempts(run(folder, instance)) == 1


@pytest.fixture
def published(folder, instance):
    """Run a step that fails after publishing."""

    def broken(*_):
        raise RuntimeError("the event log was away")

    with patch.object(groups, "_materialization", broken):
        result = run(folder, instance)
    assert not result.success
    assert len(folder.rows("out")) == 3
    folder.write({"joints/n.sql": "SELECT id FROM range(5)"})
    return result


def project_job() -> dg.JobDefinition:
    return load_definitions(os.environ["RIVET_TEST_PROJECT"]).resolve_job_def("all")


@pytest.fixture
def execute_again(folder, monkeypatch):
    """Execute a run again, as Dagster re-executes one from Python."""
    monkeypatch.setenv("RIVET_TEST_PROJECT", str(folder.root))
    job = dg.reconstructable(project_job)

    def execute_again(instance, how: dg.ReexecutionOptions, **options):
        with dg.execute_job(job, instance, reexecution_options=how, **options) as result:
            return result

    return execute_again


@pytest.fixture
def instance():
    """Yield an instance that stores runs, for later runs that refer to them."""
    with dg.instance_for_test() as instance:
        yield instance


def publishers(folder) -> list[str]:
    """Return the publishers of the table's versions, newest first."""
    return [one.identity.partition("/")[0] for one in folder.runtime.catalog("lake").versions("out")]


def test_a_retry_from_failure_publishes_nothing_twice(folder, instance, published, execute_again):
    result = execute_again(instance, dg.ReexecutionOptions.from_failure(published.run_id, instance))
    assert result.success
    assert publishers(folder) == [published.run_id]
    rows = {e.asset_key.to_user_string(): e.materialization.metadata for e in result.get_asset_materialization_events()}
    assert rows["out"]["dagster/row_count"].value == 3
    once_more = execute_again(instance, dg.ReexecutionOptions(parent_run_id=result.run_id, step_selection=["out"]))
    assert publishers(folder) == [once_more.run_id, published.run_id]
    assert len(folder.rows("out")) == 5


def test_an_automatic_retry_publishes_nothing_twice(folder, instance, published, execute_again):
    how = dg.ReexecutionOptions(parent_run_id=published.run_id)
    assert execute_again(instance, how, tags={"dagster/retry_number": "1"}).success
    assert publishers(folder) == [published.run_id]


def test_running_everything_again_is_a_new_run(instance, published):
    # What the UI's "re-execute all" records: a parent run, and no selection of steps.
    run = SimpleNamespace(run_id="new", parent_run_id=published.run_id, step_keys_to_execute=None, tags={})
    assert run_identity(run, instance, "out") == "new"
    run.tags["dagster/is_asset_resume_retry"] = "true"
    assert run_identity(run, instance, "out") == published.run_id
