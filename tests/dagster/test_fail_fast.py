"""``fail_fast`` on the command line, in rivet.yaml and in Dagster's executors, on an engine without a JVM."""

import json
import sys
import uuid

import dagster as dg
import pytest
from support.folders import GOES_ON, MANIFEST, ProjectFolder
from support.plugins import install
from support.torture import some

from rivet_dagster import load_definitions
from rivet_dagster.cli.main import main
from rivet_dagster.cli.run.report import read_report
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.rivet_executor import one_process_executor
from rivet_dagster.definitions.resources.steps_in_threads import execute_here

ENGINE = {"name": "duck", "type": "duck", "catalogs": ["lake"]}
PROFILES = {"default": {"catalogs": {"lake": {"type": "filesystem", "path": "lake"}}, "engines": [ENGINE]}}
FILES = {
    "profiles.yaml": PROFILES,
    "joints/a_bad.sql": "-- rivet:eager: true\nSELECT nmae() AS id",
    "joints/b_reader.sql": "-- rivet:eager: true\nSELECT id FROM a_bad",
    "joints/c_good.sql": "-- rivet:eager: true\nSELECT 1 AS id",
    "joints/d_later.sql": "-- rivet:eager: true\nSELECT id FROM c_good",
}
STOPPED = {"a_bad": "failed", "b_reader": "skipped", "c_good": "skipped", "d_later": "skipped"}
CONTINUED = STOPPED | {"c_good": "success", "d_later": "success"}
JOB = """
from rivet_dagster import load_definitions

def job():
    return load_definitions({root!r}).resolve_job_def("all")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch) -> ProjectFolder:
    for name in ("DAGSTER_HOME", "RIVET_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    install(monkeypatch, tmp_path / "site", engines={"duck": "support.duckdb_engine:DuckDBEngine"})
    return ProjectFolder(tmp_path / "project", FILES)


def statuses(folder, instance, run_id: str) -> dict[str, str]:
    """Return the status of each group as the report of a run shows it."""
    events = [entry.dagster_event for entry in instance.all_logs(run_id) if entry.dagster_event is not None]
    report = read_report(events, run_id, False, folder.assembly)
    assert [(error.code, error.joint) for error in report.errors] == [("RVT-503", "a_bad")]
    return {group.name: group.status for group in report.groups}


@pytest.mark.parametrize(
    ("files", "option", "expected"),
    [
        ({}, [], (1, STOPPED)),
        ({}, ["--no-fail-fast"], (2, CONTINUED)),
        (GOES_ON, [], (2, CONTINUED)),
        ({"rivet.yaml": {**MANIFEST, "fail_fast": True}}, [], (1, STOPPED)),
    ],
)
def test_the_command_line_stops_at_a_failure_unless_an_option_or_the_manifest_says_not_to(
    folder, capfd, files, option, expected
):
    root = folder.write(files).root
    code = main(["-p", str(root), "run", "--format", "json", *option])
    report = json.loads(capfd.readouterr().out)
    assert (code, {group["name"]: group["status"] for group in report["groups"]}) == expected
    assert [(error["code"], error["joint"]) for error in report["errors"]] == [("RVT-503", "a_bad")]
    assert report["success"] is False


@pytest.mark.parametrize(("files", "expected"), [({}, STOPPED), (GOES_ON, CONTINUED)])
def test_a_run_of_dagster_in_one_process_does_as_the_manifest_says(folder, instance, files, expected):
    root = folder.write(files).root
    result = load_definitions(root).resolve_job_def("all").execute_in_process(instance=instance, raise_on_error=False)
    assert statuses(folder, instance, result.run_id) == expected
    # The executor of an embedded engine does not even begin the steps.
    executor = one_process_executor(RivetProject.load(root))
    run_id = str(uuid.uuid4())
    job = load_definitions(root, executor=executor).resolve_job_def("all")
    assert not execute_here(job, instance, run_id, {}, {})
    assert statuses(folder, instance, run_id) == expected
    begun = {entry.step_key for entry in instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START)}
    assert begun == {name for name, status in expected.items() if status != "skipped"}


def test_the_steps_that_were_not_started_are_those_of_a_re_execution_from_failure(folder, instance):
    job = load_definitions(folder.root).resolve_job_def("all")
    failed = job.execute_in_process(instance=instance, raise_on_error=False)
    texts = {event.step_key: event.step_failure_data for event in failed.get_step_failure_events()}
    assert set(texts) == {"a_bad", "c_good"}
    assert texts["c_good"].user_failure_data.description == (
        "not started, since a_bad failed before it and `fail_fast` is true"
    )


@pytest.mark.nightly
@pytest.mark.parametrize(("files", "expected"), some([({}, STOPPED), (GOES_ON, CONTINUED)], 1))
def test_a_run_of_dagster_in_several_processes_does_as_the_manifest_says(
    folder, tmp_path, monkeypatch, files, expected
):
    root = folder.write(files).root
    (tmp_path / "job_of_a_project.py").write_text(JOB.format(root=str(root)))
    sys.modules.pop("job_of_a_project", None)
    monkeypatch.syspath_prepend(tmp_path)
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        job = dg.build_reconstructable_job("job_of_a_project", "job", reconstructor_working_directory=str(tmp_path))
        assert job.get_definition().executor_def.name == "multiprocess"
        run_id = dg.execute_job(job, instance).run_id
        assert statuses(folder, instance, run_id) == expected
        starts = instance.all_logs(run_id, of_type=dg.DagsterEventType.STEP_START)
        assert len({start.dagster_event.pid for start in starts}) == len(starts) > 1
