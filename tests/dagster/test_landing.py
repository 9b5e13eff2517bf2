"""Landing zones in Dagster: metadata about files, and failed archiving."""

import os

import dagster as dg
import pytest
from support.folders import ProjectFolder, sink

from rivet_dagster import load_definitions

ZONE = {
    "type": "source", "catalog": "raw", "table": "incoming",
    "options": {"landing": True, "archive": True, "schema": "id INT"},
}  # fmt: skip


@pytest.fixture
def folder(project, monkeypatch) -> ProjectFolder:
    files = {f"data/incoming/{n:02}.csv": f"id\n{n}\n" for n in range(25)}
    folder = project({"sources/incoming.yaml": ZONE, "sinks/out.yaml": sink("out", "incoming"), **files})
    monkeypatch.setenv("RIVET_TEST_PROJECT", str(folder.root))
    return folder


@pytest.fixture
def instance():
    """Yield an instance that stores runs, for later runs that refer to them."""
    with dg.instance_for_test() as instance:
        yield instance


def project_job() -> dg.JobDefinition:
    return load_definitions(os.environ["RIVET_TEST_PROJECT"]).resolve_job_def("all")


def run(folder: ProjectFolder, instance: dg.DagsterInstance):
    return project_job().execute_in_process(instance=instance, raise_on_error=False)


def landed(result) -> dict:
    (event,) = result.filter_events(lambda event: event.event_type_value == "ASSET_MATERIALIZATION")
    return event.materialization.metadata["rivet/landed"].value


@pytest.mark.nightly
def test_a_materialization_names_its_consumed_files(folder, instance):
    result = run(folder, instance)
    assert result.success
    assert landed(result) == {"incoming": {"files": 25, "names": [f"incoming/{n:02}.csv" for n in range(20)]}}
    folder.write({"data/incoming/more.csv": "id\n99\n"})
    assert landed(run(folder, instance)) == {"incoming": {"files": 1, "names": ["incoming/more.csv"]}}
    assert landed(run(folder, instance)) == {"incoming": {"files": 0, "names": []}}


def test_a_file_that_cannot_be_archived_fails_the_step_after_publishing(folder, instance):
    folder.write({"data/incoming/_archive": "in the way"})
    result = run(folder, instance)
    assert not result.success
    assert landed(result)["incoming"]["files"] == 25
    (event,) = result.get_step_failure_events()
    (record,) = event.step_failure_data.user_failure_data.metadata["rivet/diagnostics"].value
    assert (record["code"], record["joint"], record["file"]) == ("RVT-410", "incoming", "sources/incoming.yaml")
    assert len(folder.rows("out")) == 25

    (folder.root / "data/incoming/_archive").unlink()
    again = dg.ReexecutionOptions.from_failure(result.run_id, instance)
    with dg.execute_job(dg.reconstructable(project_job), instance, reexecution_options=again) as retried:
        assert retried.success
        assert landed(retried)["incoming"]["files"] == 25
    assert len(folder.rows("out")) == 25
    assert [path.name for path in (folder.root / "data/incoming").iterdir()] == ["_archive"]
